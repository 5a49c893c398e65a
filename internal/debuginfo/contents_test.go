// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOldCompressedEqualsPlain compares look-ups in a file whose debug info is compressed in GNU's old way with those in what it was made from.
// LLVM reads it no longer, so the oracle of other builds is of no use.
func TestOldCompressedEqualsPlain(t *testing.T) {
	for _, build := range []string{
		"gcc -O2 -g *.c -o plain/a.out",
		"gcc -O2 -g -c three.c -o plain/a.out",               // with relocations
		"gcc -O2 -g -gsplit-dwarf *.c; mv a.out *.dwo plain", // found beside the file, where each of both has its own
	} {
		t.Run(build, func(t *testing.T) {
			dir := filepath.Dir(buildProgram(t, "gcc objcopy", "mkdir plain old; "+build+"; cd plain; for f in *; do objcopy --compress-debug-sections=zlib-gnu $f ../old/$f; done"))
			var answers [2][][]Frame
			for i, name := range []string{"plain", "old"} {
				info, err := Open(filepath.Join(dir, name, "a.out"), Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer info.Close()
				for a := range uint64(0x2000) {
					answers[i] = append(answers[i], info.Lookup(nil, a))
				}
				if err := errors.Join(info.Err(), info.Missing()); err != nil {
					t.Error(err)
				}
			}
			inlined := 0
			for _, frames := range answers[0] {
				if len(frames) > 1 {
					inlined++
				}
			}
			if d := cmp.Diff(answers[0], answers[1]); d != "" || inlined < 50 {
				t.Errorf("%d in inlined functions, %s", inlined, d)
			}
		})
	}
}
