// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"strconv"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// A family has all series of a name.
type family struct {
	name, kind, help string
	text             []byte // lines
}

// open begins a line: a name and its labels.
func (f *family) open(name, labels, more string) {
	f.text = append(append(append(f.text, name...), '{'), labels...)
	if more != "" {
		f.text = append(append(f.text, ','), more...)
	}
}

// number ends a line with a value.
func (f *family) number(g *expr.Aggregation, x uint64) {
	if !summary.Signed(g) {
		f.text = appendUint(f.text, x)
		return
	}
	f.text = append(strconv.AppendInt(append(f.text, "} "...), int64(x), 10), '\n')
}

// appendUint ends a line with a number.
func appendUint(dst []byte, n uint64) []byte {
	return append(strconv.AppendUint(append(dst, "} "...), n, 10), '\n')
}
