// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"unicode/utf8"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// cutLines cuts the lines of dst from start on to width columns; 0 means no limit.
func cutLines(dst []byte, start, width int) []byte {
	if width == 0 || len(dst)-start <= width {
		return dst
	}
	text := dst[start:]
	dst = dst[:start] // writing never overtakes reading
	for line := range bytes.Lines(text) {
		line, ends := bytes.CutSuffix(line, []byte("\n"))
		dst = append(dst, line[:fitting(line, width)]...)
		if utf8.RuneCount(line) > width {
			dst = append(dst, cutMark...)
		}
		if ends {
			dst = append(dst, '\n')
		}
	}
	return dst
}

// appendFitted appends a line, of which marks of styles take no columns, cut to width columns.
func appendFitted(dst, line []byte, width int) []byte {
	columns, styled := 0, false
	fits := len(line) // as many bytes as leave room for the mark
	for i, r := range string(line) {
		if terminal.IsStyle(r) {
			styled = true
			continue
		}
		if columns == width-len(cutMark) {
			fits = i
		}
		columns++
	}
	if columns <= width {
		return append(dst, line...)
	}
	dst = append(dst, line[:fits]...)
	if styled {
		dst = terminal.AppendStyle(dst, terminal.Plain)
	}
	return append(dst, cutMark...)
}

// cutMark stands for what was cut.
const cutMark = "..."

// fitting returns how many bytes of a line to show in width columns: all of them, or as
// many as leave room for the mark.
func fitting(line []byte, width int) int {
	if utf8.RuneCount(line) <= width {
		return len(line)
	}
	n := 0
	for range max(width-len(cutMark), 0) {
		_, size := utf8.DecodeRune(line[n:])
		n += size
	}
	return n
}
