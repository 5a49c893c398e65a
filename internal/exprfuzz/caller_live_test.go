// SPDX-License-Identifier: Apache-2.0

package exprfuzz_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/exprfuzz/kmod"
)

// callerEnv makes the test program a caller: a process of its own, because
// ksnoop does not trace itself.
const (
	callerEnv = "EXPRFUZZ_CALLER"
	callerMap = "EXPRFUZZ_SIZE"
)

// userAddr is where the caller maps the memory.
const userAddr = 1 << 44

func TestMain(m *testing.M) {
	if file := os.Getenv(callerEnv); file != "" {
		if err := serve(file); err != nil {
			fmt.Fprintln(os.Stderr, "caller:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve makes the calls that come on standard input, one at a time.
func serve(file string) error {
	runtime.LockOSThread()
	size, err := strconv.Atoi(os.Getenv(callerMap))
	if err != nil {
		return err
	}
	// At a fixed address, for which the packages for mmap want a pointer.
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, userAddr, uintptr(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE|unix.MAP_FIXED, 3, 0)
	if errno != 0 {
		return fmt.Errorf("mapping memory: %w", errno)
	}
	call, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	hello := binary.LittleEndian.AppendUint32(nil, uint32(os.Getpid()))
	hello = binary.LittleEndian.AppendUint32(hello, uint32(unix.Gettid()))
	if _, err := os.Stdout.Write(hello); err != nil {
		return err
	}
	// No goroutine is to be woken for a system call that takes microseconds.
	buf := make([]byte, kmod.CallSize)
	for {
		n, err := unix.Read(0, buf)
		switch {
		case err != nil:
			return err
		case n == 0:
			return nil
		case n != len(buf):
			return io.ErrUnexpectedEOF
		}
		if _, err := unix.Write(int(call.Fd()), buf); err != nil {
			return fmt.Errorf("calling: %w", err)
		}
		if _, err := unix.Write(1, []byte{1}); err != nil {
			return err
		}
	}
}

// A caller makes calls in another process.
type caller struct {
	PID, TID uint32
	comm     string
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      io.ReadCloser
}

func newCaller(t *testing.T, m *kmod.Module, mem *kmod.Memory) *caller {
	t.Helper()
	c := &caller{cmd: exec.Command("/proc/self/exe")}
	c.cmd.Env = append(os.Environ(), callerEnv+"="+m.CallFile(), fmt.Sprintf("%s=%d", callerMap, len(mem.Bytes)))
	c.cmd.Stderr = os.Stderr
	fd, err := unix.Dup(mem.FD())
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	defer f.Close()
	c.cmd.ExtraFiles = []*os.File{f}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if c.out, err = c.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.in.Close()
		if err := c.cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	var hello [8]byte
	if _, err := io.ReadFull(c.out, hello[:]); err != nil {
		t.Fatal("caller:", err)
	}
	c.PID, c.TID = binary.LittleEndian.Uint32(hello[:]), binary.LittleEndian.Uint32(hello[4:])
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.PID))
	if err != nil {
		t.Fatal(err)
	}
	c.comm = strings.TrimSuffix(string(comm), "\n")
	return c
}

// call returns when the call has.
func (c *caller) call(t *testing.T, call *kmod.Call) {
	t.Helper()
	if _, err := c.in.Write(call.Append(nil)); err != nil {
		t.Fatal(err)
	}
	var done [1]byte
	if _, err := io.ReadFull(c.out, done[:]); err != nil {
		t.Fatal("caller:", err)
	}
}
