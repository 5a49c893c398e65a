// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/exprfuzz"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// kernelOf is a kernel with these functions.
func kernelOf(t testing.TB, funcs ...*btf.Func) *kernel.View {
	t.Helper()
	types := make([]btf.Type, len(funcs))
	for i, f := range funcs {
		types[i] = f
	}
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return kernel.Open(fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: raw}})
}

func parse(t testing.TB, texts ...string) []*expr.Spec {
	t.Helper()
	var specs []*expr.Spec
	for _, text := range texts {
		s, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, s)
	}
	return specs
}

func planOf(t testing.TB, view *kernel.View, method layout.Method, specs ...string) *plan.Plan {
	t.Helper()
	return ownedPlanOf(t, view, 0, method, specs...)
}

// ownedPlanOf is planOf with records that have an owner.
func ownedPlanOf(t testing.TB, view *kernel.View, owner layout.Owner, method layout.Method, specs ...string) *plan.Plan {
	t.Helper()
	p, _, err := plan.Resolve(view, parse(t, specs...), plan.Options{Arch: "amd64", Owner: owner, Method: func(*plan.Probe) layout.Method { return method }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// cgroup is the ID of that in which all simulated calls are made.
const cgroup = 1<<33 + 5

// A simulated call of a function: its state at both ends.
type simulated struct {
	exprfuzz.Machine
	cpu         [2]uint16
	start, stop uint64
}

// record returns what a program sends at one end of a call for a probe, nil if it sends
// nothing. It is what Lay says, computed by Eval.
func (c *simulated) record(p *plan.Probe, at expr.Phase) []byte {
	half, kind := p.Entry, bpf.KindEntry
	if at == expr.AtReturn {
		half, kind = p.Return, bpf.KindReturn
		if p.Joined {
			kind = bpf.KindCall
		}
	}
	if half == nil || half.Record == nil || !c.hold(half.Predicates, p) {
		return nil
	}
	if at == expr.AtReturn && p.Stashed && !c.hold(p.Entry.Predicates, p) {
		return nil
	}
	e := bpf.Event{Time: c.start, Probe: uint32(p.ID), PID: c.PID, TID: c.TID, CPU: c.cpu[at], Kind: kind}
	if at == expr.AtReturn {
		e.Time = c.stop
	}
	copy(e.Comm[:], c.Name)
	data := make([]byte, half.Record.Size)
	if p.Owner != 0 {
		bpf.AppendOwner(data[:0], bpf.Owner{UID: c.UID, Cgroup: cgroup})
	}
	for i := range half.Record.Slots {
		s := &half.Record.Slots[i]
		if !c.store(data[s.Off:][:s.Size], s, p) {
			e.Faults |= 1 << s.Index
		}
	}
	return append(bpf.AppendEvent(nil, &e), data...)
}

func (c *simulated) hold(predicates []layout.Predicate, p *plan.Probe) bool {
	return !slices.ContainsFunc(predicates, func(pred layout.Predicate) bool {
		v, err := expr.Eval(pred.Term, c.of(p))
		return err != nil || v == 0
	})
}

func (c *simulated) of(p *plan.Probe) *exprfuzz.Machine {
	c.KeptTerm = func(slot int) expr.Term { return p.Return.Record.Slots[slot].Term }
	return &c.Machine
}

// store does what a program does for one slot.
func (c *simulated) store(dst []byte, s *layout.Slot, p *plan.Probe) bool {
	m := c.of(p)
	switch t := s.Term.(type) {
	case *expr.Object:
		addr, err := expr.Eval(t.Addr, m)
		return err == nil && m.Read(t.Space, t.At, addr+uint64(t.Off), dst)
	case *expr.Text:
		if t.Addr == nil {
			copy(dst, c.Name)
			return true
		}
		addr, err := expr.Eval(t.Addr, m)
		if err != nil {
			return false
		}
		if !t.Terminated() {
			return m.Read(t.Space, t.At, addr+uint64(t.Off), dst)
		}
		for i := range dst {
			switch {
			case !m.Read(t.Space, t.At, addr+uint64(t.Off)+uint64(i), dst[i:i+1]):
				return false
			case dst[i] == 0:
				return true
			}
		}
		dst[len(dst)-1] = 0
		return true
	case *expr.Buffer:
		n, err := expr.Eval(t.N, m)
		if err != nil {
			return false
		}
		binary.LittleEndian.PutUint64(dst, n)
		addr, err := expr.Eval(t.Addr, m)
		return err == nil && m.Read(t.Space, t.At, addr, dst[8:][:min(n, uint64(t.Max))])
	}
	v, err := expr.Eval(s.Term, m)
	binary.LittleEndian.PutUint64(dst, v)
	return err == nil
}

// A moment is one end of a call.
type moment struct {
	call *simulated
	at   expr.Phase
}

// sent are the records of a plan, in the order of time.
func sent(p *plan.Plan, moments []moment) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, m := range moments {
			for _, probe := range p.Probes {
				if raw := m.call.record(probe, m.at); raw != nil && !yield(raw, nil) {
					return
				}
			}
		}
	}
}

// printed returns the text of records.
func printed(t testing.TB, p *plan.Plan, records iter.Seq2[[]byte, error], join bool) string {
	t.Helper()
	printer := output.NewCalls(output.Names{})
	events := event.All(p, records)
	all := calls.Each(events)
	if join {
		var j calls.Joiner
		all = j.Join(events)
	}
	var text []byte
	for call, err := range all {
		if err == nil {
			text, err = printer.AppendCall(text, call)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return string(text)
}

// function returns a function of a generator's types.
func function(g *exprfuzz.Gen, name string) *btf.Func {
	g.Params = g.Parameters()
	return &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: g.Scalar(), Params: g.Params}}
}

// newCall makes a call with random memory.
func newCall(g *exprfuzz.Gen, pid uint32) *simulated {
	const size = 8192
	c := &simulated{Machine: exprfuzz.Machine{Before: make([]byte, size), After: make([]byte, size), Kernel: 0xffff_8880_0000_0000 - size,
		User: 0x7f00_0000_0000 - size, PID: pid, TID: pid + 1, UID: uint32(g.IntN(3)), Name: fmt.Sprintf("eth%d", pid%3)}}
	g.Fill(&c.Machine, c.Before)
	copy(c.After, c.Before)
	for range 8 {
		binary.LittleEndian.PutUint64(c.After[8*g.IntN(size/8):], g.Word())
	}
	g.Arguments(&c.Machine)
	c.Return = g.Word()
	return c
}
