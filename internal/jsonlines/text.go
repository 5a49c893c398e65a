// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"strconv"
	"time"

	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// appendString appends a JSON string.
func appendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	return append(terminal.AppendJSON(append(dst, '"'), s), '"')
}

// appendContents appends what is between the quotes of a JSON string.
func appendContents(dst []byte, s string) []byte { return terminal.AppendJSON(dst, s) }

// appendKey appends the key of a member, with the comma that parts it from the one before. A key
// is text that needs no escapes, or has them.
func appendKey(dst []byte, key string) []byte {
	return append(append(append(appendComma(dst), '"'), key...), `":`...)
}

// appendComma parts a member or element from the one before it.
func appendComma(dst []byte) []byte {
	switch dst[len(dst)-1] {
	case '{', '[':
		return dst
	}
	return append(dst, ',')
}

func appendUint(dst []byte, key string, n uint64) []byte {
	return strconv.AppendUint(appendKey(dst, key), n, 10)
}

// appendText appends a member that is a string.
func appendText[T ~string | ~[]byte](dst []byte, key string, s T) []byte {
	return appendString(appendKey(dst, key), s)
}

func appendBool(dst []byte, key string, is bool) []byte {
	return strconv.AppendBool(appendKey(dst, key), is)
}

// appendTrue appends a member that is only there if it is true.
func appendTrue(dst []byte, key string, is bool) []byte {
	if !is {
		return dst
	}
	return appendBool(dst, key, true)
}

// appendCount appends a member that is only there if it is not 0.
func appendCount(dst []byte, key string, n uint64) []byte {
	if n == 0 {
		return dst
	}
	return appendUint(dst, key, n)
}

// appendAddress appends an address as a string.
func appendAddress(dst []byte, addr uint64) []byte {
	return append(strconv.AppendUint(append(dst, `"0x`...), addr, 16), '"')
}

// A clock writes times. Formatting takes long, so the second is kept.
type clock struct {
	boot   uint64           // Unix ns at which the kernel's clock was zero; 0: not known
	booted func() time.Time // output.Run.Booted
	second uint64           // of text, since 1970
	text   []byte           // "2026-11-23T06:41:03."
}

func newClock(run *output.Run) clock { return clock{boot: unixOf(run.Boot), booted: run.Booted} }

// unixOf returns a time in ns since 1970; 0 if that cannot be.
func unixOf(boot time.Time) uint64 {
	if y := boot.Year(); y < 1970 || y > 2200 { // of a recording, which may say anything
		return 0
	}
	return uint64(boot.UnixNano())
}

// appendTime appends the members "time" and, if it is known, "wall".
func (c *clock) appendTime(dst []byte, ns uint64) []byte {
	dst = appendUint(dst, "time", ns)
	if c.booted != nil {
		c.boot = unixOf(c.booted())
	}
	const latest = 1 << 63 // in the year 2262
	if c.boot == 0 || ns >= latest-c.boot {
		return dst
	}
	at := c.boot + ns
	if s := at / 1e9; s != c.second || c.text == nil {
		c.second, c.text = s, time.Unix(int64(s), 0).UTC().AppendFormat(c.text[:0], "2006-01-02T15:04:05.")
	}
	dst = append(append(dst, `,"wall":"`...), c.text...)
	rest := at % 1e9
	for unit := uint64(1e8); unit > 0; unit /= 10 {
		dst = append(dst, '0'+byte(rest/unit%10))
	}
	return append(dst, `Z"`...)
}
