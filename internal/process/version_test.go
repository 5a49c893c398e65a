// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/regular"
)

// versionIn returns the version of a file below root.
func versionIn(root fs.FS, name string) (Version, error) {
	f, err := regular.OpenIn(root, name, 0)
	if err != nil {
		return Version{}, err
	}
	defer f.Close()
	return VersionOf(f)
}

// TestVersionMount: what is known of a file is not known of one in another mount, even if all else of them is the same.
func TestVersionMount(t *testing.T) {
	root := os.DirFS(t.TempDir())
	dir := fmt.Sprint(root)
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := versionIn(root, "file")
	if again, againErr := versionIn(root, "file"); err != nil || againErr != nil || again != here {
		t.Fatalf("%+v, %v; opened again %+v, %v", here, err, again, againErr)
	}
	f, err := regular.OpenIn(root, "file", 0)
	if err != nil {
		t.Fatal(err)
	}
	s := newSymbols(root)
	if s.contents(&described{File: f}); s.files[here] == nil {
		t.Errorf("%+v is not among %+v", here, s.files)
	}

	mounts, mountErr := remounted(t, dir)
	if mountErr != nil {
		t.Skip(mountErr)
	}
	for _, v := range mounts {
		if v.mount == here.mount {
			t.Errorf("in two mounts: %+v, %+v", here, v)
		}
		if v.mount = here.mount; v != here {
			t.Errorf("not the same file: %+v, %+v", here, v)
		}
	}
	var in unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID_UNIQUE, &in); err != nil || in.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		t.Skipf("mounts have no unique numbers before Linux 6.8: %v", err)
	}
	if mounts[0] == mounts[1] {
		t.Errorf("mounted again: %+v", mounts[0])
	}
}

// remounted returns the versions of a file in dir when that is mounted elsewhere, and when it is unmounted and mounted again. This
// is in a mount namespace of one thread, which ends with its goroutine.
func remounted(t *testing.T, dir string) (versions [2]Version, err error) {
	at := t.TempDir()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		root := os.DirFS(fmt.Sprintf("/proc/self/task/%d/root%s", unix.Gettid(), at)) // files are opened by other threads
		for i := 0; i < len(versions) && err == nil; i++ {
			if err = unix.Mount(dir, at, "", unix.MS_BIND, ""); err == nil {
				versions[i], err = versionIn(root, "file")
				err = errors.Join(err, unix.Unmount(at, 0))
			}
		}
		done <- err
	}()
	err = <-done
	return versions, err
}
