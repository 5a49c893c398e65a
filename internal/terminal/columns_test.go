// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestColumns: the width is that of the terminal as it is now, and of nothing else.
func TestColumns(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := NewWriter(file).Columns(); got != 0 {
		t.Errorf("a file has %d columns", got)
	}
	if got := NewWriter(new(bytes.Buffer)).Columns(); got != 0 {
		t.Errorf("a buffer has %d columns", got)
	}
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer tty.Close()
	w := NewWriter(tty)
	for _, columns := range []uint16{80, 211} {
		if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
			t.Fatal(err)
		}
		if got := w.Columns(); got != int(columns) {
			t.Errorf("%d columns of %d", got, columns)
		}
	}
}
