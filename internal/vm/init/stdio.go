// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm/wire"
)

// A stdio is a command's three streams, the child's ends and ours.
type stdio struct {
	child  [3]*os.File
	stdin  io.WriteCloser // nil when the command has no input
	stdout *os.File
	stderr *os.File // nil when joined with stdout
}

func (s *stdio) close() {
	if s.stdin != nil {
		s.stdin.Close()
	}
	s.stdout.Close()
	if s.stderr != nil {
		s.stderr.Close()
	}
}

func openPipes(cmd wire.Command) (*stdio, error) {
	s := &stdio{}
	var err error
	if s.stdout, s.child[1], err = os.Pipe(); err != nil {
		return nil, err
	}
	if s.stderr, s.child[2], err = os.Pipe(); err != nil {
		return nil, err
	}
	if !cmd.Stdin {
		s.child[0], err = os.Open(os.DevNull)
		return s, err
	}
	s.child[0], s.stdin, err = os.Pipe()
	return s, err
}

func openTerminal(wire.Command) (*stdio, error) {
	master, err := os.OpenFile("/dev/pts/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, fmt.Errorf("unlock terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, fmt.Errorf("find terminal: %w", err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		return nil, fmt.Errorf("size terminal: %w", err)
	}
	s := &stdio{stdin: keepOpen{master}, stdout: master}
	for i := range s.child {
		if s.child[i], err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// keepOpen is the terminal as input: to end the input a terminal is sent the
// end-of-file character, for closing it would hang up.
type keepOpen struct{ f *os.File }

func (k keepOpen) Write(b []byte) (int, error) { return k.f.Write(b) }

func (k keepOpen) Close() error {
	const endOfFile = 4
	_, err := k.f.Write([]byte{endOfFile})
	return err
}
