// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// rtnetlinkFunction serves a request of rtnetlink, within sendmsg of the process, and genericFunction one of
	// generic netlink.
	rtnetlinkFunction = "rtnetlink_rcv_msg"
	genericFunction   = "genl_rcv_msg"
	// filterInfo is the type of the second parameter of functions that serve requests of nfnetlink, by which nft asks.
	// nfnetlink calls these functions through pointers. In a batch, as nft sends, only they return the error of one request.
	filterInfo = "nfnl_info"
	// answerFunction sends the answer, later in the same thread.
	answerFunction = "netlink_ack"
	answerHeader   = "(unsigned long)nlh"
	answerText     = "str(extack->_msg)"
	// requestNumber stands in place of the number of a system call. No system call has it.
	requestNumber = 1 << 20
)

// filterModules are what names of modules with such functions begin with. NFS is another matter.
var filterModules = [...]string{"nf_", "nft_", "nfnetlink", "ip_set"}

// A request is one that was answered with an error.
type request struct {
	header           uint64 // where it is, which is the same for its answer
	kind, flags, len uint64 // as its header has them
	// answer is the text of the answer; "" if it has none.
	answer string
}

// An answer is one with an error, of any kind of netlink.
type answer struct {
	time, errno uint64
	requestPlace
	text string // "" if it has none
}

// requestPlace tells requests of one moment apart.
type requestPlace struct {
	tid    uint32
	header uint64
}

// requestGroups are what requests of rtnetlink are about, four types each (linux/rtnetlink.h).
var requestGroups = []string{"LINK", "ADDR", "ROUTE", "NEIGH", "RULE", "QDISC", "TCLASS", "TFILTER", "ACTION", "PREFIX", "MULTICAST", "ANYCAST", "NEIGHTBL", "NDUSEROPT",
	"ADDRLABEL", "DCB", "NETCONF", "MDB", "NSID", "STATS", "CACHEREPORT", "CHAIN", "NEXTHOP", "LINKPROP", "VLAN", "NEXTHOPBUCKET", "TUNNEL"}

// requestName returns the name of a type of requests, RTM_NEWLINK, by the function that serves them. Those of
// other kinds of netlink have numbers: that of a family, or of a module and what it is asked for.
func requestName(function string, kind uint64) string {
	const first = 16 // RTM_BASE
	group := (kind - first) / 4
	if function != rtnetlinkFunction || kind < first || group >= uint64(len(requestGroups)) {
		return fmt.Sprintf("%#x", kind)
	}
	return "RTM_" + [...]string{"NEW", "DEL", "GET", "SET"}[kind%4] + requestGroups[group]
}

// isSearch reports whether a request was to find out whether the kernel has something, and it has not. Programs ask for a
// family of generic netlink before they fall back on an ioctl. iptables asks for revisions of its extensions, newest first.
func (f *Failure) isSearch() bool {
	if f.request == nil {
		return false
	}
	e := unix.Errno(f.Errno)
	switch f.Function {
	case rtnetlinkFunction:
		return false
	case genericFunction:
		return f.request.kind == unix.GENL_ID_CTRL && (e == unix.ENOENT || e == unix.EOPNOTSUPP)
	}
	return f.request.kind>>8 == unix.NFNL_SUBSYS_NFT_COMPAT && (e == unix.ENOENT || e == unix.EPROTONOSUPPORT)
}

// says reports whether a text has that of the answer, which iproute2 prints in place of the error.
func (q *request) says(text string) bool {
	return q != nil && q.answer != "" && strings.Contains(text, q.answer)
}
