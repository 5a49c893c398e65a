// SPDX-License-Identifier: Apache-2.0

package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// TestOpen: only regular files are opened, and others are not even touched.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600), os.Mkdir(filepath.Join(dir, "dir"), 0o700),
		unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Symlink("/dev/null", filepath.Join(dir, "device")),
		os.Symlink("pipe", filepath.Join(dir, "to pipe")), os.Symlink("file", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	opened := livetest.Opens(t, filepath.Join(dir, "pipe"))
	root := os.DirFS(dir)
	for name, want := range map[string]error{
		"file": nil, "link": nil, "dir": ErrNot, "pipe": ErrNot, "device": ErrNot, "to pipe": ErrNot, "nothing": os.ErrNotExist, "file/x": unix.ENOTDIR,
	} {
		in, inErr := OpenIn(root, name, 0)
		own, err := Open(filepath.Join(dir, name))
		if !errors.Is(inErr, want) || !errors.Is(err, want) {
			t.Errorf("%s: %v and %v, want %v", name, inErr, err, want)
		}
		if path := (*fs.PathError)(nil); err != nil && (!errors.As(err, &path) || path.Path != filepath.Join(dir, name)) {
			t.Errorf("%s: %v does not name the file", name, err)
		}
		if err != nil || inErr != nil {
			continue
		}
		for _, f := range []fs.File{in, own} {
			if text, err := io.ReadAll(f); err != nil || string(text) != "text" {
				t.Errorf("%s: %q, %v", name, text, err)
			}
			f.Close()
		}
	}
	if opened() {
		t.Error("the pipe was opened")
	}
	for name, want := range map[string]error{"link": unix.ELOOP, "to pipe": unix.ELOOP, "../" + filepath.Base(dir) + "/file": fs.ErrInvalid} {
		if _, err := OpenIn(root, name, unix.O_NOFOLLOW); !errors.Is(err, want) {
			t.Errorf("%s, links not followed: %v, want %v", name, err, want)
		}
	}
}

// TestOpenActing: files of the kernel's own file systems are regular ones by their mode. They are not opened, but what
// a link of /proc leads to is.
func TestOpenActing(t *testing.T) {
	for _, name := range []string{"/proc/self/limits", "/sys/kernel/fscaps", "/sys/fs/cgroup/cgroup.subtree_control", "/sys/kernel/tracing/README"} { // which hardly anybody else opens
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			t.Logf("%s: %v, %v", name, info, err)
			continue
		}
		opened := livetest.Opens(t, name)
		_, err := Open(name)
		_, inErr := OpenIn(os.DirFS("/"), name[1:], 0)
		if touched := opened(); !errors.Is(err, errActs) || !errors.Is(inErr, errActs) || touched {
			t.Errorf("%s: %v and %v, it was opened: %v", name, err, inErr, touched)
		}
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, name := range []string{"/proc/self/exe", fmt.Sprint("/proc/self/fd/", file.Fd()), "/proc/self/root" + file.Name()} {
		f, err := Open(name)
		if err != nil {
			t.Error(err)
			continue
		}
		f.Close()
	}
}

// TestActs: a file system is known by its number, also where no machine at hand has one.
func TestActs(t *testing.T) {
	for magic, want := range map[int64]bool{
		0xaee71ee7:            true, // gadgetfs: its files are a USB device
		0x23c9b64e:            true, // spufs: its files are a processor
		unix.PROC_SUPER_MAGIC: true, unix.EXT4_SUPER_MAGIC: false, unix.TMPFS_MAGIC: false, unix.OVERLAYFS_SUPER_MAGIC: false,
	} {
		if got := acts(magic); got != want {
			t.Errorf("%#x: %t", magic, got)
		}
	}
}

// TestOpenInTest: a file system that a test has made is treated alike.
func TestOpenInTest(t *testing.T) {
	root := fstest.MapFS{"a/b": {Data: []byte("text")}, "link": {Data: []byte("a/b"), Mode: fs.ModeSymlink}}
	f, err := OpenIn(root, "link", 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := OpenIn(root, "link", unix.O_NOFOLLOW); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link: %v", err)
	}
	if _, err := OpenIn(root, "a", 0); !errors.Is(err, ErrNot) {
		t.Errorf("a directory: %v", err)
	}
}

// TestOpenDirIn: only directories are opened, and others are not even touched.
func TestOpenDirIn(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600), os.MkdirAll(filepath.Join(dir, "a/dir"), 0o700),
		unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Symlink("a/dir", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	opened := livetest.Opens(t, filepath.Join(dir, "pipe"))
	for name, want := range map[string]error{"a/dir": nil, "file": unix.ENOTDIR, "pipe": unix.ENOTDIR, "link": unix.ENOTDIR, "nothing": fs.ErrNotExist} {
		got, err := OpenDirIn(os.DirFS(dir), name)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if err == nil {
			got.Close()
		}
	}
	if opened() {
		t.Error("the pipe was opened")
	}
	if _, err := OpenDirIn(fstest.MapFS{"dir/file": {}}, "dir"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("below a root of a test: %v", err)
	}
}

// TestInterrupted: what is interrupted is opened again, and nothing else is.
func TestInterrupted(t *testing.T) {
	for _, want := range []error{nil, unix.EACCES} {
		results := []error{unix.EINTR, unix.EINTR, want, nil}
		fd, err := ignoringEINTR(func() (int, error) {
			err := results[0]
			results = results[1:]
			return len(results), err
		})
		if fd != 1 || err != want {
			t.Errorf("%d, %v, want 1, %v", fd, err, want)
		}
	}
}

// TestNoRights: what may not be read says so by the file's own name.
func TestNoRights(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
}

// TestWithoutProc covers /proc in a mount namespace of one thread, which ends with its goroutine.
func TestWithoutProc(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	prepared, opened := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", "/proc", "tmpfs", 0, ""))
		}
		prepared <- err
		if err == nil {
			_, err = Open(file)
			opened <- err
		}
	}()
	if err := <-prepared; err != nil {
		t.Skip(err)
	}
	if err := <-opened; err == nil || !strings.Contains(err.Error(), file+": ") || !strings.Contains(err.Error(), "mount proc at /proc") {
		t.Errorf("%v", err)
	}
}

// TestGone: if a file is gone before it is opened again, that is not for want of /proc.
func TestGone(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip(err)
	}
	for _, err := range []error{unix.ENOENT, unix.ENOTDIR, unix.EACCES} {
		if got := withoutProc(err); !errors.Is(got, err) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
