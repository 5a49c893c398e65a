// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"bytes"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/layout"
)

// A Printer prints the events of one run. Its memory is bounded by the plan and by the number
// of stacks that it remembers.
type Printer struct {
	run     output.Run
	records records
	clock   clock
	seq     uint64
	probes  map[*plan.Probe][]byte  // "function":3,"name":"vfs_read"
	results map[*plan.Probe]*scalar // of functions in sessions
	stacks  stackTable
	cgroups map[uint64]container.Group // as they are written
	tails   output.Tails
	merger  *output.Merger
	tables  map[*summary.Table]*tableForm
	frames  []symbols.Frame // of one stack
	addrs   []uint64        // of these
	places  []int           // of a chain's calls in its stack
	list    []event.Branch

	decisionsOnly bool
}

// DecisionsOnly leaves out all that is made of the decisions of a path: what decided takes the function's code to be executed.
func (p *Printer) DecisionsOnly() { p.decisionsOnly = true }

// New returns a printer of a run. With strings64 integers of 64-bit types are strings.
func New(run output.Run, strings64 bool) *Printer {
	names := run.Names()
	p := &Printer{run: run, clock: newClock(&run), probes: make(map[*plan.Probe][]byte, len(run.Plan.Probes)), results: map[*plan.Probe]*scalar{}, tables: map[*summary.Table]*tableForm{},
		records: records{values: newValues(names, strings64), fields: output.NewFields(names), known: map[*layout.Record][]column{}, args: map[*layout.Param]*argument{}},
		tails:   output.SummaryTails(run)}
	if run.Resolver != nil {
		p.merger = output.NewMerger(run.Resolver)
	}
	for i, probe := range run.Plan.Probes {
		member := appendUint([]byte{'{'}, "function", uint64(i))
		p.probes[probe] = appendText(member, "name", probe.Name)[1:]
	}
	return p
}

// appendFunction appends the members of a function.
func (p *Printer) appendFunction(dst []byte, of *plan.Probe) []byte {
	member := p.probes[of]
	if len(member) == 0 { // in a damaged recording
		return dst
	}
	return append(appendComma(dst), member...)
}

// open begins the line of an event.
func (p *Printer) open(dst []byte, kind string) []byte {
	p.seq++
	return appendUint(p.openLine(dst, kind), "seq", p.seq)
}

// openLine begins a line of any kind.
func (p *Printer) openLine(dst []byte, kind string) []byte {
	dst = append(append(append(dst, `{"kind":"`...), kind...), '"')
	return appendCount(dst, "run", uint64(p.run.Number))
}

// appendTask appends the members of a thread. One that has other numbers in its own PID
// namespace, or in ksnoop's, has these as well.
func appendTask(dst []byte, pid, tid uint32, in bpf.Inner) []byte {
	dst = appendUint(appendUint(dst, "pid", uint64(pid)), "tid", uint64(tid))
	if in == (bpf.Inner{}) || in.PID == pid && in.TID == tid {
		return dst
	}
	dst = appendUint(append(dst, `,"namespace":{`...), "pid", uint64(in.PID))
	return append(appendTrue(appendUint(dst, "tid", uint64(in.TID)), "own", in.Ours), '}')
}

// comm returns a thread's name.
func comm(name *[16]byte) []byte {
	if end := bytes.IndexByte(name[:], 0); end >= 0 {
		return name[:end]
	}
	return name[:]
}

// appendBranches appends branches, newest first.
func (p *Printer) appendBranches(dst []byte, list []event.Branch, all bool) []byte {
	if len(list) == 0 || p.run.Resolver == nil {
		return dst
	}
	dst = append(appendKey(dst, "branches"), '[')
	for _, b := range list {
		dst = p.appendPlace(append(appendComma(dst), `{"from":`...), b.From)
		dst = p.appendPlace(append(dst, `,"to":`...), b.To)
		if miss, known := b.Mispredicted(); known {
			dst = appendBool(dst, "mispredicted", miss)
		}
		dst = appendCount(dst, "cycles", uint64(b.Cycles()))
		dst = appendTrue(appendTrue(dst, "in_transaction", b.InTransaction()), "aborted", b.Aborted())
		dst = append(dst, '}')
	}
	return appendTrue(append(dst, ']'), "all_branches", all)
}

// appendPlace appends the place of an address, without what is inlined there.
func (p *Printer) appendPlace(dst []byte, addr uint64) []byte {
	p.frames = p.run.Resolver.Frames(p.frames[:0], addr, false)
	return appendFrame(dst, &p.frames[len(p.frames)-1])
}
