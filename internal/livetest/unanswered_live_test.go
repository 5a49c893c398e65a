// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// A silent file is one of a file system that does not answer while it is locked.
type silent struct {
	fs.Inode
	sync.RWMutex
	data []byte
}

var (
	_ fs.NodeOpener    = (*silent)(nil)
	_ fs.NodeReader    = (*silent)(nil)
	_ fs.NodeGetattrer = (*silent)(nil)
)

func (s *silent) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	s.RLock()
	defer s.RUnlock()
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (s *silent) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	off = min(off, int64(len(s.data)))
	return fuse.ReadResultData(s.data[off:min(off+int64(len(dest)), int64(len(s.data)))]), 0
}

func (s *silent) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = 0o755, uint64(len(s.data))
	return 0
}

// mountSilent mounts a file system whose only file is a program.
func mountSilent(t *testing.T, program string) (path string, file *silent) {
	t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	dir, top := t.TempDir(), &fs.Inode{}
	file = &silent{data: data}
	server, err := fs.Mount(dir, top, &fs.Options{
		OnAdd: func(ctx context.Context) {
			top.AddChild("program", top.NewPersistentInode(ctx, file, fs.StableAttr{}), false)
		},
		MountOptions: fuse.MountOptions{AllowOther: true, DirectMountStrict: true},
	})
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this kernel has no FUSE")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "program"), file
}

// TestLiveUnanswered: a program lies on a file system that does not answer. Its calls are shown without names, those of others
// with theirs, and a signal takes off all that is attached, although the kernel keeps a thread of ksnoop.
func TestLiveUnanswered(t *testing.T) {
	guest.Require(t)
	clean(t)
	path, file := mountSilent(t, "/bin/workload")
	program := exec.Command("sh", "-c", `exec "$0" pipe-wait -for 200ms -count 1000000`, path)
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(program.Process.Kill(), ignoreExit(program.Wait())); err != nil {
			t.Error(err)
		}
	}()
	until(t, "runs", func() bool {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", program.Process.Pid))
		return err == nil && exe == path
	})
	file.Lock()
	answer := sync.OnceFunc(file.Unlock)
	defer answer() // else nothing ends
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	hooked := contents(t, "/sys/kernel/tracing/enabled_functions")
	cmd := exec.Command("ksnoop", "trace", "--max-cpu=off", "--ustack", `vfs_read(count == 1, $comm == "program" || $comm == "workload")`)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	says := func(text string) bool { return strings.Contains(contents(t, out.Name()), text) }
	until(t, "says that the file system does not answer", func() bool { return says("its file system does not answer in time") })
	workload(t, "pipe-wait", "-for", "1ms", "-count", "1")
	until(t, "names the functions of another program", func() bool { return says("(/bin/workload)") })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	until(t, "is a zombie, with nothing attached", func() bool {
		stat := contents(t, fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		return strings.Contains(stat, ") Z ") && contents(t, "/sys/kernel/tracing/enabled_functions") == hooked
	})
	answer()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, contents(t, out.Name()))
	}
}

// until waits for something.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(livetest.Patience(time.Minute)); !f(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never " + what)
		}
	}
}
