// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm/wire"
)

// A process is the host's command while it runs.
type process struct {
	pid   int
	stdin *queue
}

// start starts the command and returns at once; its output and its end are
// sent in the background.
func start(conn *wire.Conn, cmd wire.Command) (*process, error) {
	if len(cmd.Args) == 0 {
		return nil, errors.New("empty command")
	}
	env := append(os.Environ(), cmd.Env...)
	path, err := exec.LookPath(cmd.Args[0])
	if err != nil {
		return nil, err
	}
	open := openPipes
	if cmd.TTY {
		open = openTerminal
	}
	streams, err := open(cmd)
	if err != nil {
		return nil, err
	}
	attr := &syscall.ProcAttr{
		Dir:   cmd.Dir,
		Env:   env,
		Files: []uintptr{streams.child[0].Fd(), streams.child[1].Fd(), streams.child[2].Fd()},
		// A session of its own, so that a signal can be sent to all of the
		// command's processes, as a terminal does.
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: cmd.TTY},
	}
	pid, err := syscall.ForkExec(path, cmd.Args, attr)
	for _, f := range streams.child {
		f.Close()
	}
	if err != nil {
		streams.close()
		return nil, &os.PathError{Op: "exec", Path: path, Err: err}
	}
	p := &process{pid: pid, stdin: newQueue()}
	go p.run(conn, streams)
	return p, nil
}

func (p *process) signal(sig unix.Signal) {
	// It may have ended on its own, which the host learns anyway.
	_ = unix.Kill(-p.pid, sig)
}

// run moves the command's bytes until it has ended, then sends the outcome.
func (p *process) run(conn *wire.Conn, streams *stdio) {
	if streams.stdin != nil {
		go p.stdin.copyTo(streams.stdin)
	}
	var copies sync.WaitGroup
	copies.Go(func() { forward(conn, wire.Stdout, streams.stdout) })
	if streams.stderr != nil {
		copies.Go(func() { forward(conn, wire.Stderr, streams.stderr) })
	}
	status := p.reap()
	copies.Wait()
	p.stdin.close()
	streams.close()
	out := wire.Outcome{Code: status.ExitStatus()}
	if status.Signaled() {
		out = wire.Outcome{Signal: int(status.Signal())}
	}
	// A host that is gone is noticed by loop.
	_ = conn.SendJSON(wire.Exit, out)
}

// reap waits for every process of the guest, as process 1 must. What the
// command leaves running is killed, or it would hold the output open and
// disturb the next command.
func (p *process) reap() unix.WaitStatus {
	var own unix.WaitStatus
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // ECHILD: none left
			return own
		case pid == p.pid:
			own = ws
			_ = unix.Kill(-1, unix.SIGKILL)
		}
	}
}

// forward sends what can be read as it comes. Reading a terminal whose last
// process has gone fails with EIO, which is its end of file.
func forward(conn *wire.Conn, kind wire.Kind, r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 && conn.Send(kind, buf[:n]) != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

// A queue holds input that the command has not read yet. It has no bound:
// if a command that does not read could block the reader of frames, signals
// would not reach it either.
type queue struct {
	mu     sync.Mutex
	filled sync.Cond
	data   []byte
	closed bool
}

func newQueue() *queue {
	q := &queue{}
	q.filled.L = &q.mu
	return q
}

// put appends b; no bytes mean the end of the input.
func (q *queue) put(b []byte) {
	if len(b) == 0 {
		q.close()
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.data = append(q.data, b...)
	q.filled.Signal()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Signal()
}

// take returns all that has come, and false at the end.
func (q *queue) take() ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.data) == 0 && !q.closed {
		q.filled.Wait()
	}
	b := q.data
	q.data = nil
	return b, len(b) > 0
}

func (q *queue) copyTo(w io.WriteCloser) {
	defer w.Close()
	for {
		b, ok := q.take()
		if !ok {
			return
		}
		if _, err := w.Write(b); err != nil {
			return // the command has closed its input
		}
	}
}
