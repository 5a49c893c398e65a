// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

func tcpCases() []workCase {
	return []workCase{
		{"tcp-loss", "send messages over TCP one by one, then one that is lost until the sender has noticed; say what its socket knows then", tcpLossCase},
	}
}

func tcpLossCase(f *flag.FlagSet) func(io.Writer) error {
	control := f.String("control", "", "`name` of a congestion control, if not the kernel's choice")
	count := f.Int("count", 20, "how `often` before the loss")
	size := f.Int("size", 100, "`bytes` of a message")
	return func(w io.Writer) error {
		if *size < 1 {
			return usageError("-size is not positive")
		}
		c, err := connectTCP(*control)
		if err != nil {
			return err
		}
		defer c.close()
		message := make([]byte, *size)
		for range *count {
			if err := errors.Join(c.send(message), c.receive(message), c.acked()); err != nil {
				return err
			}
		}
		if err := errors.Join(c.deaf(), c.send(message)); err != nil {
			return err
		}
		lost, err := c.until(func(i *unix.TCPInfo) bool { return i.Ca_state == caLoss })
		if err != nil {
			return err
		}
		if err := errors.Join(c.hearing(), c.receive(message), c.acked()); err != nil {
			return err
		}
		done, err := unix.GetsockoptTCPInfo(c.sender, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "tcp-loss count=%d size=%d port=%d acked=%d threshold=%d\n", *count, *size, c.port, done.Bytes_acked, lost.Snd_ssthresh)
		return nil
	}
}

// caLoss is the kernel's TCP_CA_Loss: no answer has come in time.
const caLoss = 4

// A tcpPair is the two ends of a connection over loopback.
type tcpPair struct{ sender, receiver, port int }

func connectTCP(control string) (c tcpPair, err error) {
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return c, err
	}
	defer unix.Close(listener)
	if err := errors.Join(unix.Bind(listener, loopback(0)), unix.Listen(listener, 1)); err != nil {
		return c, err
	}
	at, err := unix.Getsockname(listener)
	if err != nil {
		return c, err
	}
	c.port = at.(*unix.SockaddrInet4).Port
	if c.sender, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return c, err
	}
	if control != "" {
		err = unix.SetsockoptString(c.sender, unix.IPPROTO_TCP, unix.TCP_CONGESTION, control)
	}
	if err == nil {
		err = unix.Connect(c.sender, at)
	}
	if err == nil {
		c.receiver, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	}
	if err == nil {
		if err = unix.SetsockoptTimeval(c.receiver, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
			unix.Close(c.receiver)
		}
	}
	if err != nil {
		unix.Close(c.sender)
		return c, fmt.Errorf("connect: %w", err)
	}
	return c, nil
}

func (c tcpPair) close() {
	unix.Close(c.sender)
	unix.Close(c.receiver)
}

func (c tcpPair) send(message []byte) error {
	n, err := unix.Write(c.sender, message)
	if err == nil && n != len(message) {
		err = fmt.Errorf("sent %d of %d bytes", n, len(message))
	}
	return err
}

func (c tcpPair) receive(message []byte) error {
	n, _, err := unix.Recvfrom(c.receiver, message, unix.MSG_WAITALL)
	if err == nil && n != len(message) {
		err = fmt.Errorf("received %d of %d bytes", n, len(message))
	}
	return err
}

// acked waits until the sender knows that everything has arrived. So each message has an answer of its own.
func (c tcpPair) acked() error {
	_, err := c.until(func(i *unix.TCPInfo) bool { return i.Unacked == 0 })
	return err
}

// until waits for a state of the sender.
func (c tcpPair) until(is func(*unix.TCPInfo) bool) (*unix.TCPInfo, error) {
	for end := time.Now().Add(time.Duration(patience.Nano())); ; time.Sleep(time.Millisecond) {
		info, err := unix.GetsockoptTCPInfo(c.sender, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil || is(info) {
			return info, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("the sender stays in state %d, with %d packets on their way", info.Ca_state, info.Unacked)
		}
	}
}

// deaf has the kernel drop whatever comes for the receiver, by a filter that lets nothing through.
func (c tcpPair) deaf() error {
	nothing := [...]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	return unix.SetsockoptSockFprog(c.receiver, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing[0]})
}

func (c tcpPair) hearing() error {
	return unix.SetsockoptInt(c.receiver, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
}
