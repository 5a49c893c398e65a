// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	ipHeader   = 20
	udpHeader  = 8
	icmpHeader = 8
)

// loopback is an address of this machine.
func loopback(port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

// patience is how long a reply over loopback may take in a slow guest.
var patience = unix.NsecToTimeval(int64(10 * time.Second))

func netCases() []workCase {
	return []workCase{
		{"udp-send", "send UDP datagrams over loopback: one ip_send_skb each", udpSendCase},
		{"udp-unreachable", "send one UDP datagram that has no route: ENETUNREACH", udpUnreachableCase},
		{"ping", "send ICMP echo requests over loopback and take the replies", pingCase},
		{"no-family", "ask generic netlink for a family that is not there: an answer with ENOENT", noFamilyCase},
		{"no-qdisc", "ask rtnetlink for a queueing discipline that is not there: an answer with ENOENT", noQdiscCase},
		{"no-chain", "ask nfnetlink for a table and a rule in a chain that is not there: an answer with ENOENT, and nothing is made", noChainCase},
		{"connect-refused", "connect to a TCP port where nobody listens: ECONNREFUSED", connectRefusedCase},
	}
}

func udpSendCase(f *flag.FlagSet) func(io.Writer) error {
	size := f.Int("size", 56, "`bytes` of payload; the IP packet is 28 longer")
	count := f.Int("count", 1, "how `often`")
	return func(w io.Writer) error {
		receiver, err := udpReceiver()
		if err != nil {
			return err
		}
		defer unix.Close(receiver.fd)
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		payload, buf := make([]byte, *size), make([]byte, *size+1)
		received := 0
		for range *count {
			if err := unix.Sendto(fd, payload, 0, loopback(receiver.port)); err != nil {
				return fmt.Errorf("send: %w", err)
			}
			n, _, err := unix.Recvfrom(receiver.fd, buf, 0)
			if err != nil {
				return fmt.Errorf("receive: %w", err)
			}
			if n != *size {
				return fmt.Errorf("received %d bytes, sent %d", n, *size)
			}
			received++
		}
		fmt.Fprintf(w, "udp-send count=%d size=%d packet=%d received=%d\n", *count, *size, *size+ipHeader+udpHeader, received)
		return nil
	}
}

type udpSocket struct{ fd, port int }

func udpReceiver() (udpSocket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return udpSocket{}, err
	}
	if err = unix.Bind(fd, loopback(0)); err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience)
	}
	if err == nil {
		var at unix.Sockaddr
		if at, err = unix.Getsockname(fd); err == nil {
			return udpSocket{fd, at.(*unix.SockaddrInet4).Port}, nil
		}
	}
	unix.Close(fd)
	return udpSocket{}, fmt.Errorf("bind receiver: %w", err)
}

func udpUnreachableCase(*flag.FlagSet) func(io.Writer) error {
	return func(w io.Writer) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		// TEST-NET-1 of RFC 5737: a guest has no route but for loopback.
		r := resultOf(0, unix.Sendto(fd, []byte{0}, 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{192, 0, 2, 1}}))
		fmt.Fprintf(w, "udp-unreachable count=1 result=%v\n", r)
		return r.expect(unix.ENETUNREACH)
	}
}

func pingCase(f *flag.FlagSet) func(io.Writer) error {
	size := f.Int("size", 56, "`bytes` after the ICMP header; the IP packet is 28 longer")
	count := f.Int("count", 1, "how `often`")
	return func(w io.Writer) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return fmt.Errorf("open ping socket: %w", err)
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
			return err
		}
		const echoRequest, echoReply = 8, 0
		packet, buf := make([]byte, icmpHeader+*size), make([]byte, icmpHeader+*size+1)
		replies := 0
		for seq := range *count {
			// The kernel fills in the identifier and the checksum.
			packet[0] = echoRequest
			binary.BigEndian.PutUint16(packet[6:], uint16(seq+1))
			if err := unix.Sendto(fd, packet, 0, loopback(0)); err != nil {
				return fmt.Errorf("send: %w", err)
			}
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				return fmt.Errorf("receive: %w", err)
			}
			if n != len(packet) || buf[0] != echoReply || binary.BigEndian.Uint16(buf[6:]) != uint16(seq+1) {
				return fmt.Errorf("reply of %d bytes, type %d, is not for request %d", n, buf[0], seq+1)
			}
			replies++
		}
		fmt.Fprintf(w, "ping count=%d size=%d packet=%d replies=%d\n", *count, *size, *size+ipHeader+icmpHeader, replies)
		return nil
	}
}

func connectRefusedCase(*flag.FlagSet) func(io.Writer) error {
	return func(w io.Writer) error {
		// A port that was bound and never listened on: bound until the end, so
		// that nobody else can come to listen there.
		bound, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(bound)
		if err := unix.Bind(bound, loopback(0)); err != nil {
			return err
		}
		at, err := unix.Getsockname(bound)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		r := resultOf(0, unix.Connect(fd, at))
		fmt.Fprintf(w, "connect-refused count=1 result=%v\n", r)
		return r.expect(unix.ECONNREFUSED)
	}
}

func noFamilyCase(f *flag.FlagSet) func(io.Writer) error {
	return askCase(f, "no-family", unix.NETLINK_GENERIC, unix.ENOENT, familyRequest("no-such-family\x00"))
}

func noQdiscCase(f *flag.FlagSet) func(io.Writer) error {
	return askCase(f, "no-qdisc", unix.NETLINK_ROUTE, unix.ENOENT, qdiscRequest("nosuch\x00"))
}

func noChainCase(f *flag.FlagSet) func(io.Writer) error {
	return askCase(f, "no-chain", unix.NETLINK_NETFILTER, unix.ENOENT, ruleBatch("ksnoop\x00", "nochain\x00"))
}

// askCase sends a request by netlink whose answer is an error.
func askCase(f *flag.FlagSet, name string, family int, want unix.Errno, request []byte) func(io.Writer) error {
	fail := f.Bool("fail", false, "then fail, and name the error on standard error, as commands do")
	return func(w io.Writer) error {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
			return err
		}
		if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		answer := make([]byte, unix.Getpagesize())
		n, _, err := unix.Recvfrom(fd, answer, 0)
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if n < unix.NLMSG_HDRLEN+4 || binary.LittleEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
			return fmt.Errorf("%d bytes are no error: % x", n, answer[:min(n, 32)])
		}
		r := result{errno: unix.Errno(-int32(binary.LittleEndian.Uint32(answer[unix.NLMSG_HDRLEN:])))}
		fmt.Fprintf(w, "%s result=%v\n", name, r)
		if err := r.expect(want); err != nil || !*fail {
			return err
		}
		return fmt.Errorf("the answer: %w", want)
	}
}

// familyRequest asks for a family by its name, of which the zero byte is a part.
func familyRequest(name string) []byte {
	const version = 1
	body := appendAttribute([]byte{unix.CTRL_CMD_GETFAMILY, version, 0, 0}, unix.CTRL_ATTR_FAMILY_NAME, name)
	return message(unix.GENL_ID_CTRL, unix.NLM_F_ACK, body)
}

// qdiscRequest asks for a queueing discipline of a kind, whose name ends with a zero byte, as the root of the
// first interface, which is lo.
func qdiscRequest(kind string) []byte {
	const lo, root, attrKind = 1, 0xffffffff, 1 // TC_H_ROOT, TCA_KIND
	le := binary.LittleEndian
	tcmsg := le.AppendUint32([]byte{unix.AF_UNSPEC, 0, 0, 0}, lo)
	tcmsg = le.AppendUint32(le.AppendUint32(le.AppendUint32(tcmsg, 0), root), 0) // its handle is the kernel's choice
	return message(unix.RTM_NEWQDISC, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, appendAttribute(tcmsg, attrKind, kind))
}

// ruleBatch asks for a table and for a rule in a chain of it, as nft does: in one batch, of which all or nothing is done,
// and only errors are answered.
func ruleBatch(table, chain string) []byte {
	const nfTables = unix.NFNL_SUBSYS_NFTABLES
	bound := []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, nfTables} // struct nfgenmsg, whose last member is big-endian
	inet := []byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0}
	named := appendAttribute(inet, unix.NFTA_TABLE_NAME, table)
	rule := appendAttribute(appendAttribute(inet, unix.NFTA_RULE_TABLE, table), unix.NFTA_RULE_CHAIN, chain)
	return slices.Concat(message(unix.NFNL_MSG_BATCH_BEGIN, 0, bound),
		message(nfTables<<8|unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, named),
		message(nfTables<<8|unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, rule),
		message(unix.NFNL_MSG_BATCH_END, 0, bound))
}

// appendAttribute appends an attribute of netlink.
func appendAttribute(dst []byte, attr uint16, value string) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint16(le.AppendUint16(dst, uint16(unix.SizeofNlAttr+len(value))), attr)
	dst = append(dst, value...)
	for len(dst)%unix.NLA_ALIGNTO != 0 {
		dst = append(dst, 0)
	}
	return dst
}

// message makes a request of netlink.
func message(kind, flags uint16, body []byte) []byte {
	le := binary.LittleEndian
	m := le.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	m = le.AppendUint16(le.AppendUint16(m, kind), unix.NLM_F_REQUEST|flags)
	m = le.AppendUint32(le.AppendUint32(m, 1), 0) // a number, and from the kernel's view nobody
	return append(m, body...)
}
