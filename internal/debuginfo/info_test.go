// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"strings"
	"testing"
)

// TestElsewhere has builds that leave debug info to other files.
func TestElsewhere(t *testing.T) {
	for _, test := range []struct{ tools, script, want string }{
		{"gcc", "gcc -O2 -gsplit-dwarf -gdwarf-5 *.c", ".dwo files"},
		{"gcc", "gcc -O2 -gsplit-dwarf -gdwarf-4 *.c", ".dwo files"},
		{"clang", "clang -O2 -gsplit-dwarf -g -gdwarf-5 *.c", ".dwo files"},
		{"gcc dwz", "gcc -O2 -g *.c && cp a.out b.out && dwz -m shared.debug a.out b.out", "dwz -m"},
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
