// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// holder is the name that this program is run by to hold files.
const holder = "ksnoop-detaching"

// Hold starts a process that holds files until this one has ended, and returns its PID. It is this
// program once more, with IsHolder true. It belongs to no terminal.
func Hold(files []*os.File) (int, error) {
	var ends [2]int // of a pipe: the one to write to stays open as long as this process lives
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return 0, os.NewSyscallError("pipe2", err)
	}
	read := os.NewFile(uintptr(ends[0]), "pipe")
	defer read.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Dir, cmd.Stdin, cmd.ExtraFiles = []string{holder, strconv.Itoa(os.Getpid())}, "/", read, files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// What this process was started with, such as a pipe of the shell's, is not for the holder: a
	// reader of it would wait for the holder's end. ExtraFiles get descriptors of their own.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // since Linux 5.11
	if err := cmd.Start(); err != nil {
		_ = unix.Close(ends[1])
		return 0, err
	}
	pid := cmd.Process.Pid // before it is released
	return pid, cmd.Process.Release()
}

// IsHolder reports whether Hold has started this process, by its arguments.
func IsHolder(args []string) bool { return len(args) == 2 && args[0] == holder }

// BeHolder returns when the process that has called Hold has ended, and the PID that it had. No
// system call of it goes on then.
func BeHolder(args []string) (pid int) {
	_, _ = io.Copy(io.Discard, os.Stdin)
	pid, _ = strconv.Atoi(args[1])
	return pid
}
