// SPDX-License-Identifier: Apache-2.0

package regular

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ksnoop/ksnoop/internal/timeout"
)

func openFile(t *testing.T, data []byte) *File {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenIn(os.DirFS(dir), "file", 0)
	if err != nil {
		t.Fatal(err)
	}
	return f.(*File)
}

// TestFile: it is read like any other, at once or in parts.
func TestFile(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), mostBuffer/5+1)
	f := openFile(t, data)
	for range 2 { // at the same place and, by Read, behind it
		if got, err := io.ReadAll(io.NewSectionReader(f, 3, 1<<40)); err != nil || !bytes.Equal(got, data[3:]) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	whole := make([]byte, len(data)+1)
	if n, err := f.ReadAt(whole, 0); n != len(data) || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != int64(len(data)) || f.Late() != nil {
		t.Errorf("%v, %v, %v", info, err, f.Late())
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.ReadAt(whole, 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestMount: a file is in one mount whenever it is opened, and files of two file systems are in two.
func TestMount(t *testing.T) {
	shm, err := os.CreateTemp("/dev/shm", "")
	if err != nil {
		t.Skip(err)
	}
	defer os.Remove(shm.Name())
	defer shm.Close()
	mount := func(name string) uint64 {
		t.Helper()
		f, err := OpenIn(os.DirFS("/"), name[1:], 0)
		if err != nil {
			t.Fatal(err)
		}
		own := f.(*File)
		number, err := own.Mount()
		if err != nil {
			t.Fatal(err)
		}
		if err := own.Close(); err != nil {
			t.Error(err)
		}
		if _, err := own.Mount(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		return number
	}
	exe, other := mount("/proc/self/exe"), mount(shm.Name())
	if exe == 0 {
		t.Skip("mounts have no numbers before Linux 5.8")
	}
	if exe == other || exe != mount("/proc/self/exe") || other != mount(shm.Name()) {
		t.Errorf("mounts %d and %d", exe, other)
	}
}

// TestFileLate: a file is waited for so long in all its calls together, and is then asked for nothing more.
func TestFileLate(t *testing.T) {
	patient(t)
	synctest.Test(t, func(t *testing.T) {
		f := openFile(t, []byte("text"))
		sleep := func() (int, error) { time.Sleep(mostWaiting * 3 / 4); return 0, nil }
		begin := time.Now()
		if _, err := ask(f, sleep); err != nil {
			t.Fatal(err)
		}
		if _, err := ask(f, sleep); !Unanswered(err) || time.Since(begin) != mostWaiting {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		for name, err := range map[string]error{"ReadAt": errorOf(f.ReadAt(make([]byte, 1), 0)), "Read": errorOf(f.Read(make([]byte, 1))),
			"Stat": errorOf(f.Stat()), "Mount": errorOf(f.Mount()), "Late": f.Late(), "Close": f.Close()} {
			if !Unanswered(err) || err.Error() != "its file system does not answer in time" {
				t.Errorf("%s: %v", name, err)
			}
		}
		if time.Since(begin) != mostWaiting {
			t.Errorf("waited for %v", time.Since(begin))
		}
		time.Sleep(mostWaiting)
		synctest.Wait()
	})
}

func errorOf[T any](_ T, err error) error { return err }

// TestWithin: after some files that do not answer no more is asked.
func TestWithin(t *testing.T) {
	patient(t)
	synctest.Test(t, func(t *testing.T) {
		wait := make(chan struct{})
		for i := range answers.Most {
			if _, err := Within(i, func() (int, error) { <-wait; return 0, nil }); !errors.Is(err, answers.Late) {
				t.Fatal(err)
			}
		}
		root := os.DirFS("/")
		_, err := OpenIn(root, "proc/self/exe", 0)
		_, dirErr := OpenDirIn(root, "proc/self/task")
		_, statErr := Stat(root, "proc")
		for _, err := range []error{err, dirErr, statErr} {
			if !Unanswered(err) || !errors.Is(err, answers.Many) {
				t.Error(err)
			}
		}
		close(wait)
		synctest.Wait()
		if _, err := Stat(root, "proc"); err != nil {
			t.Error(err)
		}
	})
}

// patient forgets for how long files were waited for, before a test and after it.
func patient(t *testing.T) {
	t.Helper()
	forget := func() {
		answers = &timeout.Calls{Most: answers.Most, Late: answers.Late, GoesOn: answers.GoesOn, Many: answers.Many, Patience: answers.Patience, Slow: answers.Slow}
	}
	forget()
	t.Cleanup(forget)
}
