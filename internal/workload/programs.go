// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

//go:generate clang -target bpfel -O2 -g -Wall -Werror -mcpu=v3 -I/usr/include/x86_64-linux-gnu -fdebug-prefix-map=/proc/self/cwd=. -fdebug-compilation-dir . -c targets.bpf.c -o targets.bpf.o
//go:generate llvm-strip -g targets.bpf.o

// targets are the programs of targets.bpf.c.
//
//go:embed targets.bpf.o
var targets []byte

func programCases() []workCase {
	return []workCase{
		{"programs", "load BPF programs of several types, and keep them until standard input ends", holdPrograms},
		{"call-programs", "call the programs that another workload has loaded, and print what their functions are called with", callPrograms},
	}
}

// congestion is what target_ops of targets.bpf.c is called.
const congestion = "ksnoop_target"

func holdPrograms(*flag.FlagSet) func(io.Writer) error {
	return func(w io.Writer) error {
		spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(targets))
		if err != nil {
			return err
		}
		all, err := ebpf.NewCollection(spec)
		linked := !errors.Is(err, unix.EINVAL)
		if !linked { // before Linux 6.4, struct_ops have no links: to fill their map is to attach them
			spec.Maps["target_ops"].Flags &^= unix.BPF_F_LINK
			all, err = ebpf.NewCollection(spec)
		}
		if err != nil {
			return fmt.Errorf("%+w", err)
		}
		defer all.Close()
		var links []link.Link
		for _, attach := range []func() (link.Link, error){
			func() (link.Link, error) {
				return link.Tracepoint("syscalls", "sys_enter_getpgid", all.Programs["target_tracepoint"], nil)
			},
			func() (link.Link, error) {
				return link.AttachTracing(link.TracingOptions{Program: all.Programs["target_fentry"]})
			},
			func() (link.Link, error) {
				return link.AttachTracing(link.TracingOptions{Program: all.Programs["target_freed"]})
			},
			func() (link.Link, error) {
				if !linked {
					return nil, nil
				}
				return link.AttachStructOps(link.StructOpsOptions{Map: all.Maps["target_ops"]})
			},
		} {
			l, err := attach()
			if err != nil {
				return err
			}
			if l != nil {
				links = append(links, l)
			}
		}
		fmt.Fprintf(w, "loaded %d programs\n", len(all.Programs))
		_, err = io.Copy(io.Discard, os.Stdin)
		for _, l := range links {
			err = errors.Join(err, l.Close())
		}
		if !linked {
			err = errors.Join(err, all.Maps["target_ops"].Delete(uint32(0)))
		}
		return err
	}
}

// A caller runs loaded programs, and says what their functions are called with.
type caller struct {
	w        io.Writer
	programs map[string]*ebpf.Program
}

func callPrograms(*flag.FlagSet) func(io.Writer) error {
	return func(w io.Writer) error {
		c := &caller{w: w, programs: map[string]*ebpf.Program{}}
		if err := c.find(); err != nil {
			return err
		}
		return errors.Join(c.xdp(), c.socket(), c.raw(), c.syscall(), c.attached(), c.connect())
	}
}

// find opens the programs by their names.
func (c *caller) find() error {
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue
		}
		info, err := p.Info()
		if err != nil {
			return err
		}
		if strings.HasPrefix(info.Name, "target_") {
			c.programs[info.Name] = p
		}
	}
	if len(c.programs) == 0 {
		return errors.New("no program is loaded; in another process: workload programs")
	}
	return nil
}

func (c *caller) called(format string, args ...any) { fmt.Fprintf(c.w, "call "+format+"\n", args...) }

// Results of the functions in targets.bpf.c.

func (c *caller) weigh(size int32, weight int64, sort uint8) int32 {
	result := size*2 + int32(weight)
	if sort == 3 {
		result = -22
	}
	c.called("weigh size=%d weight=%d sort=%d return=%d", size, weight, sort, result)
	return result
}

func (c *caller) classify(port uint32, weight int16, name string, size int32) (drop bool) {
	result := "VERDICT_PASS"
	if drop = port+uint32(size) > 100; drop {
		result = "VERDICT_DROP"
	}
	c.called("classify key->port=%d key->weight=%d key->name=%q size=%d return=%s", port, weight, name, size, result)
	return drop
}

// run runs a program once.
func (c *caller) run(name string, o *ebpf.RunOptions, want uint32) error {
	got, err := c.programs[name].Run(o)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if got != want {
		return fmt.Errorf("%s returned %d, want %d", name, got, want)
	}
	c.called("%s return=%d", name, got)
	return nil
}

func (c *caller) xdp() error {
	for length := range int32(3) {
		length += 64
		sort := uint8(0)
		if length == 66 {
			sort = 3
		}
		sum := c.weigh(length, 400, sort)
		c.called("noted length=%d", length)
		c.called("scaled (int)$arg1=%d (long)$arg2=%d", length^3, sum)
		port, weight, name := uint32(length), int16(-3), "first"
		if length&1 != 0 {
			port, weight, name = 1, 400, "second"
		}
		c.called("chosen a->port=%d b->port=1 which=%d return->port=%d", length, length, port)
		want := uint32(2) // XDP_PASS
		if c.classify(port, weight, name, sum) {
			want = 1
		}
		if err := c.run("target_xdp", &ebpf.RunOptions{Data: make([]byte, length), DataOut: make([]byte, 256)}, want); err != nil {
			return err
		}
	}
	return nil
}

func (c *caller) socket() error {
	const frame, ethernet = 100, 14
	want := c.weigh(frame-ethernet, 5, 1)
	return c.run("target_socket", &ebpf.RunOptions{Data: make([]byte, frame)}, uint32(want))
}

func (c *caller) raw() error {
	args := [2]uint64{12, 1<<64 - 7}
	c.classify(uint32(args[0]), int16(args[1]&0xffff), "raw", 1)
	return c.run("target_raw", &ebpf.RunOptions{Context: args[:]}, 7)
}

func (c *caller) syscall() error {
	want := c.weigh(1000, 1, 0)
	return c.run("target_syscall", &ebpf.RunOptions{Context: uint64(1000)}, uint32(want))
}

// attached has the kernel call programs that are attached.
func (c *caller) attached() error {
	c.weigh(40, 2, 0)
	c.called("target_tracepoint return=1")
	if _, err := unix.Getpgid(0); err != nil {
		return err
	}
	c.weigh(1, 0, 0)
	c.called("target_fentry return=0")
	_, err := c.programs["target_fentry"].Run(&ebpf.RunOptions{})
	return err
}

// connect sends something through a TCP connection that has struct_ops.
func (c *caller) connect() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if e := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, congestion)
		}); e != nil {
			return e
		}
		return err
	}}
	conn, err := d.Dial("tcp", listener.Addr().String())
	if err != nil {
		return err
	}
	peer, err := listener.Accept()
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	got := make(chan error)
	go func() {
		_, err := io.Copy(io.Discard, peer)
		got <- err
	}()
	_, err = conn.Write(make([]byte, 1<<20))
	return errors.Join(err, conn.Close(), <-got, peer.Close())
}
