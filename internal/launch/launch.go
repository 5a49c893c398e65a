// SPDX-License-Identifier: Apache-2.0

// Package launch runs the command that is to be traced, or watches the process
// that is. A command is stopped at its first instruction until tracing is on,
// so that none of its calls is missed.
package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Command is a started command.
type Command struct {
	cmd  *exec.Cmd
	free chan struct{}
	done chan error
}

// Start starts a command as a user, or as the caller if that is nil, and leaves it
// stopped. It has the caller's standard streams and no other descriptor that the
// caller has opened.
func Start(as *User, args []string) (*Command, error) {
	return started(as, args, os.Stdout, os.Stderr)
}

// StartQuiet is Start, but what the command prints is thrown away.
func StartQuiet(as *User, args []string) (*Command, error) {
	return quietly(func(null *os.File) (*Command, error) { return started(as, args, null, null) })
}

// quietly starts a command whose output goes to null.
func quietly(start func(null *os.File) (*Command, error)) (*Command, error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	return start(null)
}

// started finds a command and starts it.
func started(as *User, args []string, stdout, stderr *os.File) (*Command, error) {
	path, err := lookPath(args[0])
	if err != nil {
		return nil, &StartError{err}
	}
	return start(as, path, args, stdout, stderr)
}

func start(as *User, path string, args []string, stdout, stderr *os.File) (*Command, error) {
	c := &Command{cmd: exec.Command(path, args[1:]...), free: make(chan struct{}), done: make(chan error, 1)}
	c.cmd.Args[0] = args[0]
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = os.Stdin, stdout, stderr
	what := args[0]
	if as != nil {
		what += " as " + as.name
	}
	started := make(chan error)
	go c.run(as, started)
	if err := <-started; err != nil {
		return nil, &StartError{fmt.Errorf("starting %s: %w", what, err)}
	}
	return c, nil
}

// run owns the thread that traces the command: ptrace requests are taken from
// no other. Should we die before the command is let go, the kernel lets it go.
func (c *Command) run(as *User, started chan<- error) {
	runtime.LockOSThread()
	err := c.begin(as)
	started <- err
	if err != nil {
		return
	}
	<-c.free
	if err := syscall.PtraceDetach(c.cmd.Process.Pid); err != nil {
		c.done <- fmt.Errorf("letting the command go: %w", err)
		return
	}
	c.done <- c.cmd.Wait()
}

// begin starts the command and returns when it is stopped.
func (c *Command) begin(as *User) error {
	plain := c.cmd
	plain.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if as != nil {
		c.cmd = becoming(as, plain)
		if err := seize(c.cmd, plain.Path); !errors.Is(err, errNotSeized) {
			return err
		}
		c.cmd, plain.SysProcAttr.Credential = plain, &as.credential
	}
	if err := c.cmd.Start(); err != nil {
		return untraceable(os.DirFS("/"), err)
	}
	var status syscall.WaitStatus
	_, err := syscall.Wait4(c.cmd.Process.Pid, &status, 0, nil)
	if err == nil && !status.Stopped() {
		err = fmt.Errorf("it ended before its first instruction: %v", status)
	}
	return err
}

// untraceable explains why a command cannot be held, if no process may be traced on this machine.
func untraceable(root fs.FS, err error) error {
	if scope, _ := fs.ReadFile(root, "proc/sys/kernel/yama/ptrace_scope"); errors.Is(err, unix.EPERM) && strings.TrimSpace(string(scope)) == "3" {
		return errors.New("kernel.yama.ptrace_scope is 3, with which no process can be held until tracing has begun; start the command apart, and trace it with -p or -n")
	}
	return err
}

// PID returns the command's process id.
func (c *Command) PID() int { return c.cmd.Process.Pid }

// Continue lets the command run.
func (c *Command) Continue() { close(c.free) }

// Kill ends a command that was not let go.
func (c *Command) Kill() error { return c.cmd.Process.Kill() }

// HangUp tells a command that its terminal has gone. It may have ended.
func (c *Command) HangUp() { _ = c.cmd.Process.Signal(syscall.SIGHUP) }

// Done delivers the command's end, once: pass it to Status.
func (c *Command) Done() <-chan error { return c.done }

// Status turns what Done has delivered into an exit status as a shell would
// show it: 128 and the signal's number for a command that a signal ended.
func Status(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return 1, err
	}
	ws, ok := exit.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return exit.ExitCode(), nil
}
