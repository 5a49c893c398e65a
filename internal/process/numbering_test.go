// SPDX-License-Identifier: Apache-2.0

package process

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/bpf"
)

// withoutUs is a /proc of a PID namespace that ksnoop is not in: proc_self_get_link in
// fs/proc/self.c returns ENOENT there.
type withoutUs struct{ fs.FS }

func (f withoutUs) ReadLink(name string) (string, error) {
	if name == "proc/self" {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrNotExist}
	}
	return fs.ReadLink(f.FS, name)
}

func (f withoutUs) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(f.FS, name) }

func (f withoutUs) Open(name string) (fs.File, error) {
	if strings.HasPrefix(name, "proc/self/") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return f.FS.Open(name)
}

// TestNumbering: which number leads to a process in /proc is decided by the
// namespace that /proc was mounted for.
func TestNumbering(t *testing.T) {
	proc := func(nspid, init string) fs.FS {
		self, _, _ := strings.Cut(nspid, "\t")
		root := fstest.MapFS{"proc/self": {Data: []byte(self), Mode: fs.ModeSymlink},
			"proc/" + self + "/status": {Data: []byte("Name:\tksnoop\nNSpid:\t" + nspid + "\nNSpgid:\t1\n")}}
		if init != "" {
			root["proc/1/ns/pid"] = &fstest.MapFile{Data: []byte(init), Mode: fs.ModeSymlink}
		}
		return root
	}
	host := bpf.Event{PID: 345, TID: 346}
	own := bpf.Event{PID: 345, TID: 346, Inner: bpf.Inner{PID: 7, TID: 8}}
	ours := bpf.Event{PID: 345, TID: 346, Inner: bpf.Inner{PID: 7, TID: 8, Ours: true}}
	outside := bpf.Event{PID: 345, TID: 346, Inner: bpf.Inner{Ours: true}}
	for _, c := range []struct {
		name     string
		root     fs.FS
		event    *bpf.Event
		pid, tid uint32 // 0: none
	}{
		{"no namespaces", proc("300", "pid:[4026531836]"), &host, 345, 346},
		{"a container seen from the host", proc("300", "pid:[4026531836]"), &own, 345, 346},
		{"a container's /proc", proc("12", "pid:[4026532001]"), &ours, 7, 8},
		{"a container's /proc, a process outside", proc("12", ""), &outside, 0, 0},
		{"the host's /proc", proc("300\t12", "pid:[4026531836]"), &ours, 345, 346},
		{"the host's /proc, a process outside", proc("300\t12", "pid:[4026531836]"), &outside, 345, 346},
		{"another container's /proc", proc("300\t12", "pid:[4026532001]"), &ours, 0, 0},
		{"somebody's /proc", proc("300\t12", ""), &ours, 0, 0},
		{"no /proc", fstest.MapFS{}, &ours, 7, 8},
		{"a /proc without us", withoutUs{proc("1", "pid:[4026531836]")}, &ours, 0, 0},
		{"a /proc that hides all of us", fstest.MapFS{"proc/self": {Data: []byte("12"), Mode: fs.ModeSymlink}}, &ours, 7, 8},
		{"a /proc with another number that hides all of us", fstest.MapFS{"proc/self": {Data: []byte("300"), Mode: fs.ModeSymlink}}, &ours, 0, 0},
	} {
		pid, tid, err := NumberingOf(c.root, 12).IDs(c.event)
		if pid != c.pid || tid != c.tid || (err != nil) != (c.pid == 0) {
			t.Errorf("%s: %d, %d, %v; want %d, %d", c.name, pid, tid, err, c.pid, c.tid)
		}
	}
}
