// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// What live tests have traced: runs of the workload, other processes, modules.

// quiet runs a case of the workload whose own line does not get between ours.
func quiet(args string) []string {
	return []string{"--", "sh", "-c", "workload " + args + " >/dev/null"}
}

// steady keeps the workload's runtime from sending itself signals, which would
// make two calls of one.
const steady = "export GODEBUG=asyncpreemptoff=1; "

// held is a shell that runs commands when it is told to.
type held struct {
	cmd   *exec.Cmd
	start io.WriteCloser
}

func hold(t *testing.T, script string, attr *syscall.SysProcAttr) *held {
	t.Helper()
	h := &held{cmd: exec.Command("sh", "-c", "read go; "+script)}
	h.cmd.SysProcAttr = attr
	var err error
	if h.start, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *held) run(t *testing.T) {
	t.Helper()
	if _, err := fmt.Fprintln(h.start, "go"); err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// flood reads so many bytes again and again, on two threads, until stop is called.
func flood(t *testing.T, size int) (stop func()) {
	t.Helper()
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			buf := make([]byte, size)
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := unix.Read(int(zero.Fd()), buf); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() {
		close(done)
		readers.Wait()
		zero.Close()
	}
}

// loadModule loads a module of the tests' own for the time of a test.
func loadModule(t *testing.T, name, params string) {
	t.Helper()
	if why, err := os.ReadFile(guest.NoModules); err == nil {
		t.Skipf("needs a module of its own: %s", why)
	}
	file, err := os.Open("/lib/ksnoop/" + name + ".ko")
	if err != nil {
		t.Fatalf("the module was not built: %v", err)
	}
	defer file.Close()
	if err := unix.FinitModule(int(file.Fd()), params, 0); err != nil {
		t.Fatalf("load %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := unix.DeleteModule(name, 0); err != nil {
			t.Errorf("unload %s: %v", name, err)
		}
	})
}
