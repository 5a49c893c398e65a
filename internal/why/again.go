// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
)

// A process may make the same system call with several arguments, of which each is refused elsewhere. A
// later failure stands for the first one only if its arguments are the same. Some programs never use them
// twice, such as a number that counts: then any failure is taken after a while, and the page says so.

// patience is how long a run waits for a failure with the same arguments.
const patience = 5 * time.Second

// argumentItems are the items of a SPEC of the function that serves the system call which read its
// arguments as the call begins; none if they cannot be read, or need not.
func (r *Runner) argumentItems(f *Failure) (items []string) {
	if r.Process == nil || f.request != nil {
		return nil
	}
	served, ok := r.function(f.Function)
	if !ok {
		return nil
	}
	if proto := served.Type.Type.(*btf.FuncProto); len(proto.Params) != 1 || proto.Params[0].Name != "regs" {
		return nil
	}
	args := abis[r.Kernel.Arch()].args
	for i := range min(len(f.Params), words) {
		items = append(items, args[i])
		if f.isText(i) {
			items = append(items, textItem(args[i]))
		}
	}
	return items
}

// again returns a call of the system call with the arguments that argumentItems have read; nil if they
// were not read. It is a failure of the same kind.
func (r *Runner) again(f *Failure, fields *output.Fields, e *event.Event) (*Failure, error) {
	if e == nil || r.Process == nil {
		return nil, nil
	}
	read, err := fields.Of(e)
	if err != nil {
		return nil, err
	}
	v, args := values{e, read}, abis[r.Kernel.Arch()].args
	if !v.has(args[0]) {
		return nil, nil
	}
	later := *f
	later.Time, later.PID, later.TID, later.Inner, later.Comm, later.user = e.Time, e.PID, e.TID, e.Inner, comm(e), nil
	for i := range min(len(f.Params), words) {
		later.Args[i] = v.number(args[i])
		if f.isText(i) {
			later.Texts[i] = v.text(textItem(args[i]))
		}
	}
	return &later, nil
}

// takes reports whether a run that has begun at some time takes a failure for the first one. A failure of
// which nothing is known is as good as any.
func (p *Process) takes(first, later *Failure, began time.Time) bool {
	if later == nil || first.sameArguments(later) || p.varies {
		return true
	}
	p.varies = time.Since(began) >= patience
	return p.varies
}

// sameArguments reports whether two calls of one kind have the same numbers and strings. Where other
// pointers lead is not known.
func (f *Failure) sameArguments(other *Failure) bool {
	for i := range min(len(f.Params), words) {
		size, _ := f.width(i)
		switch {
		case f.isText(i) && other.isText(i):
			if *f.Texts[i] != *other.Texts[i] {
				return false
			}
		case strings.HasSuffix(f.Params[i].Decl, "*"):
		case (f.Args[i]^other.Args[i])<<(64-8*size) != 0:
			return false
		}
	}
	return true
}

// other returns a later failure if its arguments are others.
func (f *Failure) other(later *Failure) *Failure {
	if later == nil || f.sameArguments(later) {
		return nil
	}
	return later
}
