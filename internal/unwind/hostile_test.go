// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"testing"
)

// TestLongAugmentation: letters that fill a section, in which a CIE may begin anywhere, are not read for
// each entry anew.
func TestLongAugmentation(t *testing.T) {
	s := section{debug: true, data: bytes.Repeat([]byte{1, 1, 1, 1, 0xff, 0xff, 0xff, 0xff, 1}, 2<<20)} // the length, the id, the version
	table := Table{machine: AMD64()}
	if body, id, ok := s.open(0); !ok || id != noCommon || body.end < 1<<24 {
		t.Fatalf("%d, %#x, %v", body.end, id, ok)
	}
	var got *common
	// To keep 16 MB of letters takes more than twenty.
	if n := testing.AllocsPerRun(1, func() { got = table.readCommon(&s, 0) }); got != nil || n > mostLetters {
		t.Errorf("%v, %v allocations", got, n)
	}
}
