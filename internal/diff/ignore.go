// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
)

// usual returns globs of what is never compared, unless the user wants it: it differs between any
// two runs. They stand for names of values, or of their last members.
func usual() []string {
	return []string{"$time", "$duration", "$cpu", "$pid", "$tid", "*time*", "*jiffies*", "*stamp*", "*_ns", "pid", "tid", "tgid", "*_pid", "*_tid", "*_tgid"}
}

// usualStructs are structs and typedefs that are never compared where -A has captured them, alone or within others: what
// they hold is no fact of the call. TestTwoRuns of cmd/ksnoop has the recordings that showed which.
var usualStructs = map[string]bool{
	// The kernel's notes on a page of memory, of which most are unions: what of them is in use depends on the page.
	"page": true, "folio": true,
	// Locks and counts of references: what others do meanwhile.
	"spinlock": true, "raw_spinlock": true, "qspinlock": true, "qrwlock": true, "rwlock_t": true, "mutex": true, "rw_semaphore": true,
	"seqcount": true, "seqlock_t": true, "seqcount_spinlock": true, "wait_queue_head": true, "refcount_struct": true, "kref": true, "percpu_ref": true, "lockref": true,
	// Neighbours in lists and trees.
	"list_head": true, "hlist_node": true, "hlist_bl_node": true, "hlist_nulls_node": true, "llist_node": true, "rb_node": true, "callback_head": true,
	"timer_list": true, "hrtimer": true,
}

// usualMembers are members of structs of the same kind, as STRUCT.MEMBER.
var usualMembers = map[string]bool{
	// Numbers that the kernel gives in turn, or draws.
	"inode.i_ino": true, "inode.i_generation": true, "iphdr.id": true, "iphdr.check": true, "qstr.hash": true, "qstr.hash_len": true, "sock_common.skc_hash": true, "sock_common.skc_u16hashes": true, "sk_buff.hash": true,
	// CPUs, and queues of devices.
	"sk_buff.alloc_cpu": true, "sk_buff.napi_id": true, "sk_buff.sender_cpu": true, "sock_common.skc_incoming_cpu": true,
	// Counts of references that have no type of their own.
	"file.f_count": true, "inode.i_count": true, "super_block.s_count": true, "super_block.s_active": true,
	// Two ports as one number: each is compared by itself.
	"sock_common.skc_portpair": true, "flowi_uli.gre_key": true,
	// Memory on the stack that udp_sendmsg does not set.
	"ipcm_cookie.protocol": true,
}

// localPorts are members that hold a port of this machine, and whether it is in network order. Programs that ask for none
// get one by chance.
var localPorts = map[string]bool{"sock_common.skc_num": false, "inet_sock.inet_sport": true, "flowi_uli.sport": true, "udphdr.source": true, "tcphdr.source": true}

// Ignore says what is not compared.
type Ignore struct {
	often  []string
	values []string // globs of names
	within []string // globs of FUNC(NAME)
	calls  []string // globs of functions
}

// IgnoreFault says why NewIgnore does not take a glob, and where in it; nil if it takes it. Brackets are
// those of an index: no other name of a value has them.
func IgnoreFault(g string) error {
	fault := func(at int, hint, format string, args ...any) error {
		return &expr.ErrorList{Text: g, Errors: []*expr.Error{{Code: expr.CodeSyntax, Span: expr.Span{Start: at, End: min(at+1, len(g))}, Msg: fmt.Sprintf(format, args...), Hint: hint}}}
	}
	const others = "* and ? stand for other characters, and nothing else does"
	if g == "" {
		return fault(0, "", "a name is missing")
	}
	opened := -1 // where a parenthesis was
	var indices []int
	for i := range len(g) {
		switch c := g[i]; {
		case (c == '(' || c == '[') && i == 0, c == '[' && strings.IndexByte("(.>", g[i-1]) >= 0:
			return fault(i, others, "a name is missing before `%c`", c)
		case c == '(' && opened >= 0:
			return fault(i, "", "there is one pair of parentheses at most")
		case c == '(':
			opened = i
		case c == ')' && opened < 0:
			return fault(i, "", "nothing opens what `)` closes")
		case c == ')' && i < len(g)-1:
			return fault(i+1, "", "nothing follows the `)`")
		case c == ')':
			opened = -1
		case c == '[':
			indices = append(indices, i)
		case c == ']' && len(indices) > 0:
			indices = indices[:len(indices)-1]
		case c == ']' && !strings.ContainsAny(g[:i], "*?"):
			return fault(i, "", "nothing opens what `]` closes")
		}
	}
	if opened >= 0 {
		return fault(opened, "", "nothing closes what `(` opens")
	}
	for _, i := range indices {
		if !strings.ContainsAny(g[i:], "*?") { // which may stand for the end
			return fault(i, others, "nothing closes what `[` opens")
		}
	}
	return nil
}

// NewIgnore understands globs: VALUE, FUNC(VALUE), or FUNC() for whole calls. The result of a call is its
// value "return". With exact, nothing else is ignored.
func NewIgnore(globs []string, exact bool) *Ignore {
	var i Ignore
	if !exact {
		i.often = usual()
	}
	for _, g := range globs {
		switch fn, call := strings.CutSuffix(g, "()"); {
		case call:
			i.calls = append(i.calls, fn)
		case strings.HasSuffix(g, ")"):
			i.within = append(i.within, g)
		default:
			i.values = append(i.values, g)
		}
	}
	return &i
}

// call reports whether calls of a function are left out, with all that they call.
func (i *Ignore) call(fn string) bool {
	return slices.ContainsFunc(i.calls, func(g string) bool { return glob.Match(g, fn) })
}

// value reports whether a value of calls of a function is left out.
func (i *Ignore) value(fn, name string) bool {
	matches := func(g string) bool { return glob.Match(g, name) }
	if slices.ContainsFunc(i.values, matches) {
		return true
	}
	if len(i.within) > 0 {
		whole := fn + "(" + name + ")"
		if slices.ContainsFunc(i.within, func(g string) bool { return glob.Match(g, whole) }) {
			return true
		}
	}
	last := name
	if at := strings.LastIndexAny(last, ".>"); at >= 0 {
		last = last[at+1:]
	}
	return i.usual(last)
}

// usual reports whether what is called so differs between any two runs: a value, or a struct of values.
func (i *Ignore) usual(member string) bool {
	return slices.ContainsFunc(i.often, func(g string) bool { return glob.Match(g, member) })
}
