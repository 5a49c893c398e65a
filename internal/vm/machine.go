// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ksnoop/ksnoop/internal/vm/wire"
)

// A Machine is a guest that runs. It serves one command at a time.
type Machine struct {
	qemu    *exec.Cmd
	exited  chan struct{} // closed when QEMU has ended
	port    *os.File
	conn    *wire.Conn
	console console
	broken  bool // its port is out of step, or closed
}

// A Command is what to run in the guest.
type Command struct {
	Args           []string // the program is looked up in the guest's /bin
	Env            []string // added to PATH, HOME, TERM and KSNOOP_GUEST
	Dir            string   // must exist; "" means /
	Stdin          io.Reader
	Stdout, Stderr io.Writer        // nil discards
	TTY            bool             // run on a terminal of 80 columns, whose output is Stdout
	Signals        <-chan os.Signal // passed on to the command and its children
}

// A Status is how a command ended.
type Status struct {
	Code   int            // exit status, when Signal is 0
	Signal syscall.Signal // that killed it
}

// ExitCode is the status as a shell gives it.
func (s Status) ExitCode() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}

func (s Status) String() string {
	if s.Signal != 0 {
		return "signal: " + s.Signal.String()
	}
	return fmt.Sprintf("exit status %d", s.Code)
}

// Run runs the command. An error means that the status is not known: the
// command could not be started, or the guest crashed, or ctx ended, after
// which the guest is gone. Stdin may be read further than the command did.
func (m *Machine) Run(ctx context.Context, c Command) (Status, error) {
	if m.broken {
		return Status{}, errClosed
	}
	start := wire.Command{Args: c.Args, Env: c.Env, Dir: c.Dir, TTY: c.TTY, Stdin: c.Stdin != nil}
	if err := m.conn.SendJSON(wire.Start, start); err != nil {
		return Status{}, m.fault(ctx, err)
	}
	over := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() { m.passSignals(c.Signals, over) })
	in := &input{conn: m.conn}
	if c.Stdin != nil {
		go in.pass(c.Stdin) // may be stuck in a Read for ever
	}
	out, err := m.receive(ctx, c)
	in.end()
	close(over)
	passing.Wait()
	switch {
	case err != nil:
		return Status{}, m.fault(ctx, err)
	case out.Err != "":
		return Status{}, fmt.Errorf("run %s in guest: %s", c.Args, out.Err)
	}
	return Status{Code: out.Code, Signal: syscall.Signal(out.Signal)}, nil
}

// CPUTime is what QEMU has used of the host's CPUs so far; 0 if that is not known. Other than the guest's
// clock, it does not depend on what else runs on the host.
func (m *Machine) CPUTime() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.qemu.Process.Pid))
	if err != nil {
		return 0
	}
	return cpuTime(string(stat))
}

// clockTick is the unit of CPU times in /proc: USER_HZ, which is 100 on all architectures of guests' hosts.
const clockTick = 10 * time.Millisecond

// cpuTime reads the fields utime and stime of /proc/PID/stat: the 14th and 15th, of which the second, the
// program's name in parentheses, may contain spaces.
func cpuTime(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	user, userErr := strconv.ParseUint(fields[11], 10, 64)
	system, systemErr := strconv.ParseUint(fields[12], 10, 64)
	if userErr != nil || systemErr != nil {
		return 0
	}
	return time.Duration(user+system) * clockTick
}

// Close ends the guest at once; it has nothing to save.
func (m *Machine) Close() {
	m.broken = true
	_ = m.qemu.Process.Kill() // it may have ended
	<-m.exited
	m.port.Close()
}

// greet waits for the init's first frame.
func (m *Machine) greet(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { m.port.Close() })
	defer stop()
	kind, _, err := m.conn.Receive()
	if err == nil && kind != wire.Ready {
		err = fmt.Errorf("init greets with a frame of kind %q", kind)
	}
	if err != nil {
		return m.fault(ctx, err)
	}
	return nil
}

// receive takes the guest's frames until the command's last.
func (m *Machine) receive(ctx context.Context, c Command) (out wire.Outcome, err error) {
	stop := context.AfterFunc(ctx, func() { m.port.Close() })
	defer stop()
	for {
		kind, payload, err := m.conn.Receive()
		if err != nil {
			return out, err
		}
		switch kind {
		case wire.Stdout:
			err = write(c.Stdout, payload)
		case wire.Stderr:
			err = write(c.Stderr, payload)
		case wire.Exit:
			if err := json.Unmarshal(payload, &out); err != nil {
				return out, fmt.Errorf("read outcome: %w", err)
			}
			return out, nil
		default:
			return out, fmt.Errorf("guest sent a frame of kind %q", kind)
		}
		if err != nil {
			return out, fmt.Errorf("pass output on: %w", err)
		}
	}
}

func write(w io.Writer, b []byte) error {
	if w == nil {
		return nil
	}
	_, err := w.Write(b)
	return err
}

func (m *Machine) passSignals(signals <-chan os.Signal, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case s := <-signals:
			if sig, ok := s.(syscall.Signal); ok {
				// When the guest is gone, receive says so.
				_ = m.conn.Send(wire.Signal, []byte{byte(sig)})
			}
		}
	}
}

// An input passes bytes on until its command has ended: what is read later
// must not reach the next command.
type input struct {
	conn  *wire.Conn
	mu    sync.Mutex
	ended bool
}

func (in *input) pass(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 && !in.send(buf[:n]) {
			return
		}
		if err != nil {
			in.send(nil)
			return
		}
	}
}

func (in *input) send(b []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return !in.ended && in.conn.Send(wire.Stdin, b) == nil
}

func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
}

// fault turns a broken port into the reason: the caller's context, or what the
// kernel said last.
func (m *Machine) fault(ctx context.Context, err error) error {
	m.broken = true
	if cause := ctx.Err(); cause != nil {
		m.Close()
		if errors.Is(cause, context.DeadlineExceeded) {
			return fmt.Errorf("guest ran out of time: %w%s", cause, m.lastWords())
		}
		return fmt.Errorf("guest stopped: %w", cause)
	}
	// When a guest dies the port may break before QEMU has written the last of
	// the console; closing our end cannot hurt that any more.
	m.Close()
	words := m.console.String()
	if i := strings.Index(words, "Kernel panic"); i >= 0 {
		line, _, _ := strings.Cut(words[i:], "\n")
		return fmt.Errorf("guest crashed: %s%s", strings.TrimSpace(line), m.lastWords())
	}
	return fmt.Errorf("guest went away: %w%s", err, m.lastWords())
}

func (m *Machine) lastWords() string {
	words := strings.TrimSpace(m.console.String())
	if words == "" {
		return "\n(the kernel's console is empty)"
	}
	return "\nlast words on the kernel's console:\n" + words
}

// A console keeps the last of what the kernel and QEMU print.
type console struct {
	mu   sync.Mutex
	live io.Writer
	tail []byte
}

const consoleTail = 64 << 10

func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tail = append(c.tail, b...)
	if extra := len(c.tail) - consoleTail; extra > consoleTail {
		c.tail = append(c.tail[:0], c.tail[extra:]...)
	}
	if c.live != nil {
		return c.live.Write(b)
	}
	return len(b), nil
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(bytes.ReplaceAll(c.tail, []byte("\r\n"), []byte("\n")))
}

var errClosed = errors.New("guest has ended")
