// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"os"
	"strings"
	"testing"
)

// TestBytesAlone has programs of which only the bytes are known, and so not where
// the files are that have the rest.
func TestBytesAlone(t *testing.T) {
	for _, test := range []struct{ tools, script, want string }{
		{"gcc", "gcc -O2 -gsplit-dwarf -gdwarf-5 *.c", "-gsplit-dwarf"},
		{"gcc", "gcc -O2 -gsplit-dwarf -gdwarf-4 *.c", "-gsplit-dwarf"},
		{"clang", "clang -O2 -gsplit-dwarf -g -gdwarf-5 *.c", "-gsplit-dwarf"},
		{"gcc dwz", "gcc -O2 -g *.c && cp a.out b.out && dwz -m shared.debug a.out b.out", "dwz -m"},
	} {
		data, err := os.ReadFile(buildProgram(t, test.tools, test.script))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newInfo(data, Options{}, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.script, err, test.want)
		}
	}
}

// TestElsewhere has builds whose supplementary file is missing, or not theirs.
func TestElsewhere(t *testing.T) {
	for _, test := range []struct{ tools, script, want string }{
		{"gcc dwz", "gcc -O2 -g *.c && cp a.out b.out && dwz -m shared.debug a.out b.out && rm shared.debug", "shared.debug: no such file"},
		{"gcc dwz", "gcc -O2 -g *.c && cp a.out b.out && dwz -m shared.debug a.out b.out && cp a.out shared.debug", "belongs to another build"},
		{"gcc dwz", "gcc -O2 -g *.c && cp a.out b.out && dwz -5 -m shared.debug a.out b.out && cp a.out shared.debug", "no supplementary file"},
		{"gcc dwz", "gcc -O2 -g *.c && cp a.out b.out && dwz -m shared.debug a.out b.out && rm shared.debug && mkfifo shared.debug", "no regular file"},
		{"clang", "clang -O2 -g -gdwarf-5 *.c", ""},
	} {
		info, err := Open(buildProgram(t, test.tools, test.script), Options{})
		switch {
		case err == nil && test.want == "":
			err = info.Close()
		case err == nil:
			t.Errorf("%s: no error", test.script)
		}
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.script, err, test.want)
		}
	}
}
