// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptor is the one on which a process reports: the first behind the standard ones. It is an end of a socket, whose
// other end is closed when the agent is gone, however it went.
const Descriptor = 3

// maxReport and maxLine bound what is read of a process.
const (
	maxReport = 64 << 10
	maxLine   = 8 << 10
)

// A command is a Process of this program.
type command struct {
	cmd     *exec.Cmd
	reports chan Report
	err     error
}

var _ Process = (*command)(nil)

// Command starts this program with arguments. say is told each line that it writes to its standard error.
func Command(args []string, say func(line string)) (Process, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "reports"), os.NewFile(uintptr(fds[1]), "reports")
	defer theirs.Close()
	cmd := exec.Command("/proc/self/exe", args...) // also if the file was replaced since
	cmd.Args[0] = "ksnoop"
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a ^C is for the agent, which stops them in order
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	c := &command{cmd: cmd, reports: make(chan Report)}
	go c.run(ours, stderr, say)
	return c, nil
}

// run passes on what the process says until it has ended.
func (c *command) run(reports *os.File, stderr io.Reader, say func(string)) {
	defer close(c.reports)
	last := make(chan string, 1)
	go func() { last <- sayLines(stderr, say) }()
	lines := bufio.NewScanner(reports)
	lines.Buffer(nil, maxReport)
	for lines.Scan() {
		var r Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			say("a report cannot be read: " + err.Error())
			break
		}
		c.reports <- r
	}
	_ = reports.Close() // if the process still runs, that ends it
	text := <-last
	if c.err = c.cmd.Wait(); c.err != nil && text != "" && c.cmd.ProcessState.Exited() { // by itself, and has said why
		c.err = &saidError{text, c.err}
	}
}

// A saidError is the end of a process that has told the reason itself.
type saidError struct {
	text string
	err  error
}

func (e *saidError) Error() string { return fmt.Sprintf("%s (%v)", e.text, e.err) }

func (e *saidError) Unwrap() error { return e.err }

// sayLines passes lines on, cut to a length, and returns the last message.
func sayLines(r io.Reader, say func(string)) string {
	var last message
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, more, err := lines.ReadLine()
		if err != nil {
			return last.String()
		}
		last.add(string(line))
		if text := strings.TrimPrefix(string(line), prefix); text != "" {
			say(text)
		}
		for more && err == nil { // the rest of a line that is too long
			_, more, err = lines.ReadLine()
		}
	}
}

// prefix is what each message of a process begins with.
const prefix = "ksnoop: "

// A message is what a process has said last: a line, and those that belong to it, as SPECs with what is wrong in them.
type message struct {
	head string
	rest []string
}

// mostRest is how many lines of a message are kept.
const mostRest = 8

func (m *message) add(line string) {
	text, begins := strings.CutPrefix(line, prefix)
	switch {
	case begins || m.head == "" || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: "):
		*m = message{head: text}
	case strings.Trim(line, " ^~") != "" && len(m.rest) < mostRest: // not what points at a place in the line above
		m.rest = append(m.rest, strings.TrimSpace(line))
	}
}

// String returns the message on one line.
func (m *message) String() string {
	if len(m.rest) == 0 {
		return m.head
	}
	return m.head + ": " + strings.Join(m.rest, ": ")
}

// Reports implements Process.
func (c *command) Reports() <-chan Report { return c.reports }

// Stop implements Process.
func (c *command) Stop() { _ = c.cmd.Process.Signal(unix.SIGTERM) } // it may have ended

// Kill implements Process.
func (c *command) Kill() { _ = c.cmd.Process.Kill() }

// Err implements Process.
func (c *command) Err() error { return c.err }
