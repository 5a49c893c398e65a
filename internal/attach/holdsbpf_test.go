// SPDX-License-Identifier: Apache-2.0

package attach

import (
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
	if holdsBPF(root, other.Process.Pid) {
		t.Error("sleep has programs or maps")
	}
	if !holdsBPF(root, 1<<30) {
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

// TestHoldsBPFUnread: a tracer with more capabilities than we have is none that was killed.
func TestHoldsBPFUnread(t *testing.T) {
	files := func(to string) fstest.MapFS {
		return fstest.MapFS{"proc/7/fd/3": {Data: []byte(to), Mode: fs.ModeSymlink}}
	}
	for what, c := range map[string]struct {
		root fs.FS
		want bool
	}{
		"a program":           {files("anon_inode:bpf-prog"), true},
		"a pipe":              {files("pipe:[7]"), false},
		"not to be looked at": {unlinked{files(""), fs.ErrPermission}, true},
		"just closed":         {unlinked{files(""), fs.ErrNotExist}, false},
	} {
		if got := holdsBPF(c.root, 7); got != c.want {
			t.Errorf("%s: holds BPF: %v", what, got)
		}
	}
}
