// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/layout"
)

// An end is one of the ends of a call, or both where one program runs at both.
type end uint8

const (
	atEntry end = iota
	atReturn
	atBoth
)

// A half is a program of a probe before it is linked, and where it is hooked.
type half struct {
	end  end
	link func() (asm.Instructions, error)
}

// ends returns the programs to be loaded, in the order in which they are to be
// hooked: that at return first, so that no entry leaves anything behind that
// nobody would fetch.
func ends(p codegen.Programs) []half {
	if p.Joined {
		return []half{{atBoth, func() (asm.Instructions, error) { return bpf.LinkJoined(*p.Either, p.Entry, p.Return) }}}
	}
	if p.Either != nil {
		return []half{{atBoth, func() (asm.Instructions, error) { return bpf.LinkEnds(*p.Either, p.Entry, p.Return) }}}
	}
	var halves []half
	if p.Return != nil {
		halves = append(halves, half{atReturn, func() (asm.Instructions, error) { return bpf.Link(p.Return...) }})
	}
	if p.Entry != nil {
		halves = append(halves, half{atEntry, func() (asm.Instructions, error) { return bpf.Link(p.Entry...) }})
	}
	return halves
}

// hookName is what a program at an end of a call is called.
func hookName(m layout.Method, e end) string {
	names := map[layout.Method][3]string{
		layout.MethodFentry:        {"fentry", "fexit"},
		layout.MethodKprobe:        {"kprobe", "kretprobe"},
		layout.MethodKprobeMulti:   {"kprobe.multi", "kretprobe.multi"},
		layout.MethodKprobeSession: {"kprobe.multi", "kretprobe.multi", "kprobe.session"},
		layout.MethodUprobe:        {"uprobe", "uretprobe"},
		layout.MethodFsession:      {"fentry", "fexit", "fsession"},
		layout.MethodTracingMulti:  {"fentry.multi", "fexit.multi", "fsession.multi"},
	}
	if _, ok := names[m]; !ok {
		return m.String()
	}
	return names[m][e]
}
