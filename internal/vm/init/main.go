// SPDX-License-Identifier: Apache-2.0

// Init is process 1 of a test guest: it mounts what a tracer and its tests
// look for, then runs the commands that the host sends over a virtio port and
// streams back what they print and how they end.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/vm/wire"
)

func main() {
	err := serve()
	// The host ends the guest by closing it; to come here is a fault. The
	// console is all that is left to say so; then the kernel panics because
	// process 1 exits, which the host reports with the console's text.
	fmt.Fprintf(os.Stderr, "ksnoop guest init: %v\n", err)
	os.Exit(1)
}

func serve() error {
	if os.Getpid() != 1 {
		return errors.New("only the first process of a guest can be its init")
	}
	cfg, err := readConfig()
	if err != nil {
		return err
	}
	if err := setUp(cfg); err != nil {
		return err
	}
	port, err := openPort(wire.PortName)
	if err != nil {
		return err
	}
	conn := wire.NewConn(port)
	if err := conn.Send(wire.Ready, nil); err != nil {
		return fmt.Errorf("greet host: %w", err)
	}
	return loop(conn)
}

func readConfig() (wire.Config, error) {
	var cfg wire.Config
	b, err := os.ReadFile(wire.ConfigPath)
	if err != nil {
		return cfg, err
	}
	return cfg, json.Unmarshal(b, &cfg)
}

// loop runs the host's commands, one at a time: input and signals go to the
// command that was started last, or nowhere when it has ended meanwhile.
func loop(conn *wire.Conn) error {
	var p *process
	for {
		kind, payload, err := conn.Receive()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return errors.New("host went away")
			}
			return fmt.Errorf("receive: %w", err)
		}
		switch kind {
		case wire.Start:
			var cmd wire.Command
			if err := json.Unmarshal(payload, &cmd); err != nil {
				return fmt.Errorf("read command: %w", err)
			}
			if p, err = start(conn, cmd); err != nil {
				if err := conn.SendJSON(wire.Exit, wire.Outcome{Err: err.Error()}); err != nil {
					return err
				}
			}
		case wire.Stdin:
			if p != nil {
				p.stdin.put(payload)
			}
		case wire.Signal:
			if p != nil && len(payload) == 1 {
				p.signal(unix.Signal(payload[0]))
			}
		default:
			return fmt.Errorf("host sent a frame of kind %q", kind)
		}
	}
}
