// SPDX-License-Identifier: Apache-2.0

// Package wire is the protocol between the host and the init of a guest. Both
// directions of one virtio port carry frames: a byte that says what it is, the
// length of the payload as 32 bits little endian, the payload.
//
// The guest speaks first (Ready), then the host starts one command at a time
// and the guest ends each with Exit.
package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// maxPayload bounds a frame, so that a corrupt length cannot make the reader
// allocate without limit.
const maxPayload = 64 << 10

// PortName is the name under which the guest finds the port in sysfs.
const PortName = "ksnoop"

// ConfigPath is where the host leaves a Config in the initramfs.
const ConfigPath = "/etc/ksnoop-guest.json"

// Kind says what a frame's payload is.
type Kind byte

const (
	Ready  Kind = 'R' // guest → host: up; no payload
	Start  Kind = 'S' // host → guest: a Command as JSON
	Stdin  Kind = 'i' // host → guest: bytes; an empty payload closes standard input
	Signal Kind = 'k' // host → guest: one byte, the signal number
	Stdout Kind = 'o' // guest → host: bytes
	Stderr Kind = 'e' // guest → host: bytes
	Exit   Kind = 'X' // guest → host: an Outcome as JSON, the command's last frame
)

func (k Kind) known() bool {
	switch k {
	case Ready, Start, Stdin, Signal, Stdout, Stderr, Exit:
		return true
	}
	return false
}

// A Config is what the guest's init must know before it can talk to the host.
type Config struct {
	Name    string   // of the kernel, for the environment of commands
	Modules []string // files to insert, in order
}

// A Command is a process to run in the guest.
type Command struct {
	Args  []string
	Env   []string // the whole environment
	Dir   string
	TTY   bool // run on a pseudo terminal, which joins stdout and stderr
	Stdin bool // Stdin frames follow; otherwise /dev/null
}

// An Outcome is how a command ended.
type Outcome struct {
	Code   int    // exit status, when Signal is 0
	Signal int    // that killed it
	Err    string // why it could not be started
}

// A Conn sends and receives frames. Send may be called from many goroutines,
// Receive from one.
type Conn struct {
	r   *bufio.Reader
	mu  sync.Mutex // held while a frame is written, guards out
	w   io.Writer
	out []byte
	in  []byte
}

// NewConn returns a Conn over the given byte stream.
func NewConn(rw io.ReadWriter) *Conn {
	return &Conn{r: bufio.NewReaderSize(rw, maxPayload), w: rw}
}

// Send writes the payload as one frame, or as several when it is longer than
// maxPayload.
func (c *Conn) Send(k Kind, payload []byte) error {
	for {
		n := min(len(payload), maxPayload)
		if err := c.send(k, payload[:n]); err != nil {
			return err
		}
		if payload = payload[n:]; len(payload) == 0 {
			return nil
		}
	}
}

func (c *Conn) send(k Kind, payload []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(c.out[:0], byte(k))
	c.out = binary.LittleEndian.AppendUint32(c.out, uint32(len(payload)))
	c.out = append(c.out, payload...)
	_, err := c.w.Write(c.out)
	return err
}

// SendJSON writes v as one frame.
func (c *Conn) SendJSON(k Kind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxPayload {
		return fmt.Errorf("message of %d bytes is longer than a frame", len(b))
	}
	return c.Send(k, b)
}

// Receive returns the next frame. The payload is valid until the next call.
// The error is io.EOF only between two frames.
func (c *Conn) Receive() (Kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return 0, nil, err
	}
	k, n := Kind(head[0]), binary.LittleEndian.Uint32(head[1:])
	if !k.known() {
		return 0, nil, fmt.Errorf("frame of unknown kind %#x", head[0])
	}
	if n > maxPayload {
		return 0, nil, fmt.Errorf("frame of %d bytes is too long", n)
	}
	if cap(c.in) < int(n) {
		c.in = make([]byte, n)
	}
	c.in = c.in[:n]
	if _, err := io.ReadFull(c.r, c.in); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return k, c.in, nil
}
