// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// TestNothingWritten: a file is left behind if something is in it, or if nothing went wrong.
func TestNothingWritten(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "out", Err: unix.ENOSPC}
	for name, c := range map[string]struct {
		text   string
		failed error
		lost   bool // nothing can be written
		stays  bool
	}{
		"written":          {"a\n", nil, false, true},
		"nothing to write": {"", nil, false, true},
		"written in part":  {"a\n", full, false, true},
		"nothing written":  {"", full, false, false},
		"written too late": {"a\n", nil, true, false},
		"another failure":  {"", errors.New("unmet"), false, true},
	} {
		file := filepath.Join(t.TempDir(), "out")
		f := outputFlags{file: file}
		p, err := f.open(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		p.keep()
		if c.lost {
			p.text = terminal.NewWriter(failing{full})
			p.Writer = p.text
		}
		_, lost := io.WriteString(p, c.text)
		if err := p.end(cmp.Or(c.failed, lost)); (err != nil) != (c.failed != nil || c.lost) || errors.Is(err, full) && strings.Count(err.Error(), full.Error()) != 1 {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(file); (err == nil) != c.stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// failing fails each time.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
