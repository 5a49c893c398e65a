// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// becomer is the name that this program is run by to become another user, and then to execute a program.
const becomer = "ksnoop-becoming"

// errNotSeized says that a becomer may not be traced. It has executed nothing.
var errNotSeized = errors.New("not permitted to trace it")

// becoming returns this program as a becomer that executes what cmd says. The kernel ignores set-user-ID bits and file capabilities of a
// program that somebody traces who has no CAP_SYS_PTRACE. A process that asks to be traced (PTRACE_TRACEME) counts as traced with its
// own rights, and these are the user's by then (ptrace_link of kernel/ptrace.c, Linux 6.12). So it is traced from outside, as root.
func becoming(as *User, cmd *exec.Cmd) *exec.Cmd {
	groups := make([]string, len(as.credential.Groups))
	for i, g := range as.credential.Groups {
		groups[i] = strconv.FormatUint(uint64(g), 10)
	}
	c := exec.Command("/proc/self/exe")
	c.Args = append([]string{becomer, "", fmt.Sprint(as.credential.Uid), fmt.Sprint(as.credential.Gid), strings.Join(groups, ","), cmd.Path}, cmd.Args...)
	c.Stdin, c.Stdout, c.Stderr = cmd.Stdin, cmd.Stdout, cmd.Stderr
	return c
}

// seize starts a becomer and traces it until it has executed the program, which has done nothing by then. The thread that calls it
// traces it.
func seize(cmd *exec.Cmd, path string) error {
	told, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	defer told.Close()
	wait, goOn, err := os.Pipe()
	if err != nil {
		return errors.Join(err, tell.Close())
	}
	defer goOn.Close()
	const first = 3 // of ExtraFiles
	passed := inherited(first)
	cmd.Args[1] = strconv.Itoa(first + len(passed))
	cmd.ExtraFiles = append(passed, tell, wait)
	err = cmd.Start()
	for _, f := range cmd.ExtraFiles {
		f.Close() // nil has none
	}
	if err != nil {
		return fmt.Errorf("starting this program once more: %v", err) // it is not the command that cannot be executed
	}
	var tid uint32
	if err := binary.Read(told, binary.NativeEndian, &tid); err != nil {
		return fmt.Errorf("it has not begun: %w", errors.Join(err, cmd.Wait()))
	}
	pid := cmd.Process.Pid
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, unix.PTRACE_O_TRACEEXEC, 0, 0); errno != 0 || int(tid) != pid {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // which has been killed
		return errNotSeized
	}
	if _, err := goOn.Write([]byte{1}); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	return untilExecuted(pid, path, told)
}

// inherited returns copies of the descriptors from a number on that are for any program that is executed, in order; nil for others.
func inherited(from int) (files []*os.File) {
	entries, _ := os.ReadDir("/proc/self/fd") // without /proc there are none
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < from {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		if copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, from); err == nil {
			for len(files) <= fd-from {
				files = append(files, nil)
			}
			files[fd-from] = os.NewFile(uintptr(copied), e.Name())
		}
	}
	return files
}

// untilExecuted waits until a becomer has executed the program.
func untilExecuted(pid int, path string, told *os.File) error {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return os.NewSyscallError("wait4", err)
		case status.Stopped() && status.TrapCause() == unix.PTRACE_EVENT_EXEC:
			return nil
		case status.Stopped():
			signal := status.StopSignal()
			if status>>16 != 0 { // it is told of something
				signal = 0
			}
			if err := unix.PtraceCont(pid, int(signal)); err != nil {
				return os.NewSyscallError("ptrace", err)
			}
		default: // it has ended
			var errno uint32
			if err := binary.Read(told, binary.NativeEndian, &errno); err != nil {
				return fmt.Errorf("it ended before its first instruction: %v", status)
			}
			return &fs.PathError{Op: "fork/exec", Path: path, Err: syscall.Errno(errno)}
		}
	}
}

// IsBecomer reports whether this process is a becomer, by its arguments.
func IsBecomer(args []string) bool { return len(args) > 6 && args[0] == becomer }

// A becomer executes the program in its first thread, whose number the process keeps: Go's main function begins there if it is locked.
func init() {
	if IsBecomer(os.Args) {
		runtime.LockOSThread()
	}
}

// BeBecomer becomes the user that the arguments of a becomer name, and executes the program. If that fails, it returns an exit status.
func BeBecomer(args []string) int {
	nameProcess()
	tellFD, err := strconv.Atoi(args[1]) // to tell its thread, and why it could not execute the program
	if err != nil {
		return notExecuted
	}
	waitFD := tellFD + 1 // it goes on when it reads something here
	unix.CloseOnExec(tellFD)
	unix.CloseOnExec(waitFD)
	tell := func(n uint32) bool {
		_, err := unix.Write(tellFD, binary.NativeEndian.AppendUint32(nil, n))
		return err == nil
	}
	if !tell(uint32(unix.Gettid())) {
		return notExecuted
	}
	if n, err := unix.Read(waitFD, make([]byte, 1)); n != 1 || err != nil {
		return notExecuted // whoever has started it is gone
	}
	if err = become(args[2], args[3], args[4]); err == nil {
		err = syscall.Exec(args[5], args[6:], os.Environ())
	}
	errno := syscall.EINVAL
	_ = errors.As(err, &errno)
	tell(uint32(errno))
	return statusOf(err)
}

// become changes the user, the group and the supplementary groups of this process.
func become(uid, gid, groups string) error {
	var numbers []int
	for _, text := range append(strings.FieldsFunc(groups, func(r rune) bool { return r == ',' }), gid, uid) {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return err
		}
		numbers = append(numbers, int(n))
	}
	last := len(numbers) - 1
	if err := syscall.Setgroups(numbers[:last-1]); err != nil {
		return err
	}
	if err := syscall.Setgid(numbers[last-1]); err != nil {
		return err
	}
	return syscall.Setuid(numbers[last])
}

// nameProcess gives this process its name, else it is called "exe".
func nameProcess() {
	name := [16]byte{0: 'k', 's', 'n', 'o', 'o', 'p'}
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0)
}
