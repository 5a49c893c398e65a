// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"testing/fstest"
)

// TestHoldsBPF: a process without programs and maps is no tracer, whatever its number was before.
func TestHoldsBPF(t *testing.T) {
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	root := os.DirFS("/")
	if is, err := holdsBPF(root, other.Process.Pid); is || err != nil {
		t.Errorf("sleep has programs or maps: %v, %v", is, err)
	}
	if _, err := holdsBPF(root, 1<<30); err == nil {
		t.Errorf("nothing is known of a process that is not there, and it is taken for no tracer")
	}
}

// An unlinked lists files, and tells an error for what they are.
type unlinked struct {
	fstest.MapFS
	err error
}

func (u unlinked) ReadLink(name string) (string, error) {
	return "", &fs.PathError{Op: "readlink", Path: name, Err: u.err}
}

// TestHoldsBPFUnread: a tracer with more capabilities than we have is not taken for one that was killed.
func TestHoldsBPFUnread(t *testing.T) {
	files := func(to string) fstest.MapFS {
		return fstest.MapFS{"proc/7/fd/3": {Data: []byte(to), Mode: fs.ModeSymlink}}
	}
	for what, c := range map[string]struct {
		root fs.FS
		want bool
		err  error
	}{
		"a program":           {files("anon_inode:bpf-prog"), true, nil},
		"a pipe":              {files("pipe:[7]"), false, nil},
		"not to be looked at": {unlinked{files(""), fs.ErrPermission}, false, fs.ErrPermission},
		"just closed":         {unlinked{files(""), fs.ErrNotExist}, false, nil},
	} {
		if got, err := holdsBPF(c.root, 7); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: holds BPF: %v, %v", what, got, err)
		}
	}
}
