// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"unicode/utf8"
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
