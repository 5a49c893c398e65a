// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// TestNamedPipes: files that debug info names are pipes. They are not opened to find that out: devices
// act when they are opened.
func TestNamedPipes(t *testing.T) {
	for _, test := range []struct{ name, tools, script, pipes string }{
		{"supplement", "gcc dwz", "gcc -O2 -g *.c && cp a.out b.out && dwz -m shared.debug a.out b.out", "shared.debug"},
		{"half", "gcc", "gcc -O2 -g -gsplit-dwarf -gdwarf-5 *.c", "*.dwo"},
		{"all halves", "gcc", "gcc -O2 -g -gsplit-dwarf -gdwarf-5 *.c && touch a.out.dwp", "*.dwp"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := buildProgram(t, test.tools, test.script)
			pipes, _ := filepath.Glob(filepath.Join(filepath.Dir(file), test.pipes))
			if len(pipes) == 0 {
				t.Fatal("no such files")
			}
			var opened []func() bool
			for _, pipe := range pipes {
				if err := errors.Join(os.Remove(pipe), unix.Mkfifo(pipe, 0o600)); err != nil {
					t.Fatal(err)
				}
				opened = append(opened, livetest.Opens(t, pipe))
			}
			info, err := Open(file, Options{})
			if err == nil {
				info.LookupAll(randomText(t, file, 500))
				err = info.Close()
			}
			if (err != nil) != (test.name == "supplement") {
				t.Error(err)
			}
			for i, pipe := range pipes {
				if opened[i]() {
					t.Errorf("%s was opened", filepath.Base(pipe))
				}
			}
		})
	}
}
