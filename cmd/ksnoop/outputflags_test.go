// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingWritten: a file is left behind if something is in it, or if nothing went wrong.
func TestNothingWritten(t *testing.T) {
	for name, c := range map[string]struct {
		first, then string
		full        bool // what comes then cannot be written
		failed      error
		stays       bool
	}{
		"written":          {"a\n", "b\n", false, nil, true},
		"nothing to write": {"", "", false, nil, true},
		"written in part":  {"a\n", "b\n", true, nil, true},
		"nothing written":  {"", "b\n", true, nil, false},
		"another failure":  {"", "", false, errors.New("unmet"), true},
	} {
		file := filepath.Join(t.TempDir(), "out")
		f := outputFlags{file: file}
		p, err := f.open(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		p.keep()
		if _, err := io.WriteString(p, c.first); err != nil {
			t.Error(err)
		}
		if err := p.text.Flush(); err != nil {
			t.Error(err)
		}
		if c.full {
			defer p.file.File.Close()
			if p.file.File, err = os.Open(file); err != nil { // which cannot be written to
				t.Fatal(err)
			}
		}
		_, err = io.WriteString(p, c.then)
		err = p.end(cmp.Or(c.failed, err))
		if (err != nil) != (c.failed != nil || c.full) || c.full && strings.Count(err.Error(), "write "+file) != 1 {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(file); (err == nil) != c.stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}
