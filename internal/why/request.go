// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"strings"
)

const (
	// requestFunction serves a request of rtnetlink, within sendmsg of the process.
	requestFunction = "rtnetlink_rcv_msg"
	// answerFunction sends the answer, next in the same thread.
	answerFunction = "netlink_ack"
	answerText     = "str(extack->_msg)"
	// requestNumber stands in place of the number of a system call. No system call has it.
	requestNumber = 1 << 20
)

// A request is one that was answered with an error.
type request struct {
	kind, flags, len uint64 // as its header has them
	// answer is the text of the answer; "" if it has none.
	answer string
}

// An answer is one with an error, of any kind of netlink.
type answer struct {
	time, errno uint64
	tid         uint32
	text        string // "" if it has none
}

// requestGroups are what requests of rtnetlink are about, four types each (linux/rtnetlink.h).
var requestGroups = []string{"LINK", "ADDR", "ROUTE", "NEIGH", "RULE", "QDISC", "TCLASS", "TFILTER", "ACTION", "PREFIX", "MULTICAST", "ANYCAST", "NEIGHTBL", "NDUSEROPT",
	"ADDRLABEL", "DCB", "NETCONF", "MDB", "NSID", "STATS", "CACHEREPORT", "CHAIN", "NEXTHOP", "LINKPROP", "VLAN", "NEXTHOPBUCKET", "TUNNEL"}

// requestName returns the name of a type of requests: RTM_NEWLINK.
func requestName(kind uint64) string {
	const first = 16 // RTM_BASE
	group := (kind - first) / 4
	if kind < first || group >= uint64(len(requestGroups)) {
		return fmt.Sprint(kind)
	}
	return "RTM_" + [...]string{"NEW", "DEL", "GET", "SET"}[kind%4] + requestGroups[group]
}

// says reports whether a text has that of the answer, which iproute2 prints in place of the error.
func (q *request) says(text string) bool {
	return q != nil && q.answer != "" && strings.Contains(text, q.answer)
}
