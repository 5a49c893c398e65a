// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func processCases() []workCase {
	return []workCase{
		{"fork", "run a case in several children at once: fork [FLAGS] [CASE [FLAGS]]", forkCase},
		{"exec", "become a program of another name that runs a case: exec [FLAGS] [CASE [FLAGS]]", execCase},
		{"killed", "kill a child in the middle of a read of a pipe", killedCase},
		{"block", "read from a pipe for ever", blockCase},
	}
}

// caseArgs is the case that a child runs.
func caseArgs(f *flag.FlagSet) []string {
	if f.NArg() == 0 {
		return []string{"read"}
	}
	return f.Args()
}

func forkCase(f *flag.FlagSet) func(io.Writer) error {
	children := f.Int("children", 2, "`number` of children")
	return func(w io.Writer) error {
		args := caseArgs(f)
		var cmds []*exec.Cmd
		var faults error
		for range *children {
			cmd := exec.Command("/proc/self/exe", args...)
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				faults = errors.Join(faults, err)
				break
			}
			cmds = append(cmds, cmd)
		}
		var pids []string
		for _, cmd := range cmds {
			pids = append(pids, fmt.Sprint(cmd.Process.Pid))
			if err := cmd.Wait(); err != nil {
				faults = errors.Join(faults, fmt.Errorf("child %d: %w", cmd.Process.Pid, err))
			}
		}
		fmt.Fprintf(w, "fork children=%d case=%s pids=%s\n", len(cmds), args[0], strings.Join(pids, ","))
		return faults
	}
}

func execCase(f *flag.FlagSet) func(io.Writer) error {
	comm := f.String("comm", "second", "`name` of the program, at most 15 bytes")
	return func(io.Writer) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		// A process is called like the last part of the path that was executed.
		dir, err := os.MkdirTemp("", "workload-")
		if err != nil {
			return err
		}
		link := filepath.Join(dir, *comm)
		if err := os.Symlink(self, link); err != nil {
			return err
		}
		// The link must be there until the kernel has opened it, and nobody is
		// left to remove it then.
		return fmt.Errorf("exec: %w", unix.Exec(link, append([]string{*comm}, caseArgs(f)...), os.Environ()))
	}
}

func killedCase(f *flag.FlagSet) func(io.Writer) error {
	d := durationFlag(f)
	return func(w io.Writer) error {
		cmd := exec.Command("/proc/self/exe", "block")
		ready, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		if _, err := ready.Read(make([]byte, 64)); err != nil {
			return fmt.Errorf("wait for child: %w", err)
		}
		time.Sleep(*d)
		if err := cmd.Process.Kill(); err != nil {
			return err
		}
		err = cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			return fmt.Errorf("child was not killed: %w", err)
		}
		fmt.Fprintf(w, "killed pid=%d signal=SIGKILL\n", cmd.Process.Pid)
		return nil
	}
}

func blockCase(*flag.FlagSet) func(io.Writer) error {
	return func(w io.Writer) error {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		fmt.Fprintf(w, "block pid=%d\n", os.Getpid())
		_, err := unix.Read(fds[0], make([]byte, 1))
		return fmt.Errorf("read returned: %v", err)
	}
}
