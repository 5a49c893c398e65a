// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// decoderPlan has the functions outer, inner, which is passed a string and an
// int, and leaf.
func decoderPlan() *plan.Plan {
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	params := []layout.Param{
		{Param: expr.Param{Name: "name", Type: &btf.Pointer{Target: char}}, Loc: layout.Loc{Slots: 1, Reg: 0}},
		{Param: expr.Param{Name: "count", Type: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}, Loc: layout.Loc{Slot: 1, Slots: 1, Reg: 1}},
	}
	s := &plan.Plan{Sessions: true}
	for i, name := range []string{"outer", "inner", "leaf"} {
		p := &plan.Probe{Func: kernel.Function{Name: name}, Probe: layout.Probe{ID: i, Name: name, Role: layout.RoleInside, Return: &layout.Half{Record: &layout.Record{Size: 8}}}}
		s.Probes = append(s.Probes, p)
	}
	s.Probes[0].Role = layout.RoleEntry
	s.Probes = append(s.Probes, &plan.Probe{Func: kernel.Function{Name: "point"},
		Probe: layout.Probe{ID: 3, Name: "point", Role: layout.RoleInjected, Entry: &layout.Half{Record: &layout.Record{Size: 8}}}})
	s.Probes = append(s.Probes, &plan.Probe{Func: kernel.Function{Name: "mine"},
		Probe: layout.Probe{ID: 4, Name: "mine", Role: layout.RoleInside, Method: layout.MethodUprobe, Return: &layout.Half{Record: &layout.Record{Size: 8}}}})
	s.Probes[1].Params = params
	s.Probes[1].Args = []layout.Arg{
		{Param: &params[0], Word: 0, Words: 1, Target: char, Text: true, Size: 256},
		{Param: &params[1], Word: 1, Words: 1},
	}
	return s
}

// logBuilder builds a log as the engine writes it.
type logBuilder []byte

func (b *logBuilder) add(kind bpf.LogKind, depth int, fn uint32, flags uint32, data ...byte) {
	h := []byte{byte(kind), byte(depth)}
	h = binary.LittleEndian.AppendUint16(h, uint16(len(h)+6+len(data)))
	h = binary.LittleEndian.AppendUint32(h, fn|flags<<24)
	*b = append(append(*b, h...), data...)
}

func words(ws ...uint64) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

func (b *logBuilder) entry(depth int, fn uint32, time uint64) {
	b.add(bpf.LogEntry, depth, fn, 0, words(time)...)
}

func (b *logBuilder) exit(depth int, fn uint32, time, duration, result uint64, flags uint32) {
	b.add(bpf.LogExit, depth, fn, flags, words(time, duration, result)...)
}

// args adds the arguments of inner.
func (b *logBuilder) args(depth int, name string, count uint64) {
	data := words(0xffff888000000000, count)
	text := append([]byte(name), 0)
	data = binary.LittleEndian.AppendUint16(data, uint16(len(text)))
	data = append(data, 0, 0, 0, 0, 0, 0)
	for len(text)%8 != 0 {
		text = append(text, 0)
	}
	b.add(bpf.LogArgs, depth, 1, 0, append(data, text...)...)
}

// item adds the value of a SPEC, of a call that began at entry.
func (b *logBuilder) item(depth int, fn uint32, entry, value uint64) {
	b.values(bpf.LogItem, bpf.KindCall, depth, fn, entry, value)
}

// open adds the same of a call whose return is not in the log.
func (b *logBuilder) open(depth int, fn uint32, entry, value uint64) {
	b.values(bpf.LogOpen, bpf.KindCall, depth, fn, entry, value)
}

func (b *logBuilder) values(log bpf.LogKind, kind bpf.Kind, depth int, fn uint32, entry, value uint64) {
	data := make([]byte, bpf.ItemHead)
	data = bpf.AppendEvent(data, &bpf.Event{Probe: fn, Kind: kind, Time: 115, EntryTime: entry})
	b.add(log, depth, fn, 0, append(data, words(value)...)...)
}

func record(h bpf.SessionHeader, log []byte, calls []bpf.SessionCall, stack ...uint64) []byte {
	h.LogSize, h.Frames, h.Stack = uint32(len(log)), len(calls), len(stack)
	if h.Comm[0] == 0 {
		copy(h.Comm[:], "comm")
	}
	raw := append(bpf.AppendSession(nil, &h), log...)
	for _, c := range calls {
		raw = bpf.AppendCall(raw, c)
	}
	return append(raw, words(stack...)...)
}

// describeSession writes what a session is, in a line for each part.
func describeSession(s *Session) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d/%d %s state=%d failed=%t", s.Func.Func.Name, s.PID, s.TID, s.Comm, s.State, s.Failed)
	if s.Lost.Any() {
		fmt.Fprintf(&b, " %+v", s.Lost)
	}
	for _, c := range append(slices.Clone(s.Interim), s.Chain) {
		b.WriteString("\n chain")
		for _, f := range c.Frames {
			fmt.Fprintf(&b, " %s=%d", f.Func.Func.Name, int64(f.Result))
			if f.Stitched {
				b.WriteString("~")
			}
			if f.Returned != 0 {
				fmt.Fprintf(&b, " to %x", f.Returned)
			}
			if !f.Finished {
				fmt.Fprintf(&b, " for %d", f.Duration)
			}
			describeValues(&b, f.Values)
		}
		fmt.Fprintf(&b, " %x", c.Stack)
	}
	for _, st := range s.Trace {
		fmt.Fprintf(&b, "\n %d%s", st.Depth, [...]string{">", "<", "=", "*", "?", "…", "+"}[st.Kind])
		if st.Kind == StepLeft {
			fmt.Fprint(&b, st.Count)
		}
		if st.Kind == StepProbe {
			fmt.Fprintf(&b, "%s at %d", st.Probe, st.Time)
			describeValues(&b, st.Values)
		}
		if st.Func != nil {
			fmt.Fprintf(&b, "%s %d %d", st.Func.Func.Name, st.Duration, int64(st.Result))
			describeValues(&b, st.Values)
		}
		if st.Alone {
			b.WriteString(" alone")
		}
	}
	return b.String()
}

func describeValues(b *strings.Builder, v Values) {
	for _, a := range v.Args {
		fmt.Fprintf(b, " %s:%x %q", a.Param.Name, a.Value, a.Target)
	}
	if v.Event != nil {
		fmt.Fprintf(b, " {%x}", v.Event.Data)
	}
}

func TestDecode(t *testing.T) {
	const (
		fin = bpf.CallFinished
		bad = bpf.CallFinished | bpf.CallFailed
	)
	const minus22 = 1<<64 - 22
	head := bpf.SessionHeader{Start: 100, End: 200, PID: 7, TID: 8, Kind: bpf.SessionEnd, Failed: true}
	with := func(change func(*bpf.SessionHeader)) bpf.SessionHeader {
		h := head
		change(&h)
		return h
	}
	var values logBuilder
	values.args(1, "eth0", 3)
	valuesItem := uint32(len(values)) + 1
	values.item(1, 1, 110, 5)
	var first, second, all logBuilder
	first.entry(0, 0, 100)
	first.entry(1, 1, 110)
	first.args(1, "eth0", 3)
	second.entry(2, 2, 120)
	second.exit(2, 2, 125, 5, 0, fin)
	itemAt := uint32(len(first)+len(second)) + 1
	second.item(1, 1, 110, 5)
	second.exit(1, 1, 130, 20, minus22, bad)
	second.exit(0, 0, 140, 40, minus22, bad)
	all = append(slices.Clone(first), second...)
	calls := []bpf.SessionCall{{Func: 0, Result: minus22, Flags: bad, Duration: 40}, {Func: 1, Result: minus22, Flags: bad, Values: 1, Item: valuesItem}}
	var injected logBuilder
	injected.entry(0, 0, 100)
	injected.values(bpf.LogProbe, bpf.KindEntry, 1, 3, 0, 7)
	injected.entry(1, 2, 120)
	injected.values(bpf.LogProbe, bpf.KindEntry, 2, 3, 0, 8)
	injected.exit(1, 2, 125, 5, 0, fin)
	injected.exit(0, 0, 140, 40, minus22, bad)
	var hidden logBuilder
	hidden.entry(0, 0, 100)
	hidden.entry(1, 1, 110)
	hidden.exit(1, 1, 120, 10, 0, fin|bpf.CallHidden)
	hidden.exit(0, 0, 130, 30, 0, fin)
	var orphans logBuilder
	orphans.entry(0, 0, 100)
	orphans.entry(1, 1, 110)
	orphans.args(2, "eth0", 3)
	var before logBuilder
	before.entry(0, 0, 100)
	before.entry(1, 1, 102)
	before.args(1, "eth1", 4)
	before.item(2, 2, 104, 9)
	itemBehind := itemAt - uint32(len(first)) + uint32(len(before)) + 8
	entered := uint32(2 * 16) // of first, the entries
	var atOnce logBuilder
	atOnce.entry(0, 2, 120)
	atOnce.entry(1, 2, 120)
	atOnce.item(1, 2, 120, 5)
	atOnce.exit(1, 2, 130, 10, 0, fin)
	atOnce.exit(0, 2, 130, 10, 0, fin)
	entry := func(time uint64) (b logBuilder) { b.entry(1, 1, time); return b }
	arguments := func(name string, count uint64) (b logBuilder) { b.args(1, name, count); return b }
	itemAndExit := func(began uint64) (b logBuilder) {
		b.item(1, 1, began, 5)
		b.exit(1, 1, began+10, 10, 0, fin)
		return b
	}
	// parts returns the records of a session of which two parts are lost; the values of a call are in the last one.
	parts := func(first, second, third logBuilder) (raw [][]byte) {
		base := uint32(0)
		for i, log := range []logBuilder{first, second, third} {
			kind, calls := bpf.SessionChunk, []bpf.SessionCall(nil)
			if i == 2 {
				kind = bpf.SessionEnd
				at := bytes.Index(log, []byte{byte(bpf.LogItem), 1})
				calls = []bpf.SessionCall{{Func: 1, Flags: fin, Values: base + uint32(at) + 1}}
			}
			if len(log) > 0 {
				raw = append(raw, record(with(func(h *bpf.SessionHeader) { h.Kind, h.LogBase = kind, base }), log, calls, 0xa))
			}
			base += uint32(len(log)) + 400
		}
		return raw
	}
	var others logBuilder
	others.entry(0, 1, 100)
	others.args(0, "eth0", 3)
	others.exit(0, 1, 110, 10, 0, fin)
	others.entry(0, 1, 120)
	otherItem := uint32(len(others)) + 1
	others.item(0, 1, 120, 5)
	others.exit(0, 1, 130, 10, 0, fin)
	var unseen, further logBuilder
	unseen.entry(0, 0, 100)
	unseen.entry(1, 1, 110)
	unseen.item(1, 2, 105, 4) // was copied though its call has returned
	unseen.open(1, 1, 110, 5)
	unseen.entry(1, 2, 120)
	unseen.item(1, 2, 115, 6)
	unseen.exit(1, 2, 125, 5, 0, fin) // whose values found no room
	further.open(0, 0, 100, 7)

	for _, c := range []struct {
		name    string
		decoder Decoder
		records [][]byte
		want    []string
		orphans uint64
	}{
		{"chain with values", Decoder{}, [][]byte{record(head, values, calls, 0xa, 0xb)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain outer=-22 inner=-22 name:000000008088ffff \"eth0\" count:0300000000000000 \"\" {0500000000000000} [a b]"}, 0},
		{"stitched", Decoder{}, [][]byte{record(with(func(h *bpf.SessionHeader) { h.Stitched = 1 }), nil,
			[]bpf.SessionCall{{Func: 0, Result: minus22, Flags: bad | bpf.CallReturns, Returned: 0xc}, {Func: 1, Flags: bad}, {Func: 2, Flags: bad, Returned: 0xd}}, 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain outer=-22 to c inner=0~ leaf=0~ [a]"}, 0},
		{"a jump to leaf", Decoder{}, [][]byte{record(head, nil,
			[]bpf.SessionCall{{Func: 0, Flags: bad | bpf.CallReturns, Returned: 0xc}, {Func: 1, Flags: bad | bpf.CallReturns, Returned: 0xd},
				{Func: 2, Flags: bad | bpf.CallReturns | bpf.CallJumped, Returned: 0x99}}, 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain outer=0 to c inner=0 to d leaf=0 to d [a]"}, 0},
		{"a jump to all", Decoder{}, [][]byte{record(head, nil,
			[]bpf.SessionCall{{Func: 0, Flags: bad | bpf.CallReturns, Returned: 0xc}, {Func: 1, Flags: bad | bpf.CallReturns | bpf.CallJumped | bpf.CallHidden, Returned: 0x99},
				{Func: 2, Flags: bad | bpf.CallReturns | bpf.CallJumped, Returned: 0x99}}, 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain outer=0 to c leaf=0 to c [a]"}, 0},
		{"hidden frame", Decoder{}, [][]byte{record(head, nil, []bpf.SessionCall{{Func: 0, Flags: fin}, {Func: 1, Flags: fin | bpf.CallHidden}}, 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain outer=0 [a]"}, 0},
		{"exited", Decoder{}, [][]byte{record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionExit }), nil, []bpf.SessionCall{{Func: 0, Entry: 150, Result: 0x7ffc1000}})}, []string{
			"outer 7/8 comm state=3 failed=true\n chain outer=0 for 50 []"}, 0},
		{"no stack", Decoder{}, [][]byte{record(with(func(h *bpf.SessionHeader) { h.LostDeep, h.LostRoom, h.LostChains = 3, 4, 5 }), nil, []bpf.SessionCall{{Func: 0, Flags: fin}})}, []string{
			"outer 7/8 comm state=0 failed=true {Deep:3 Chunk:0 Args:0 Returns:0 Room:4 Reasons:5 Chains:0 Stack:true}\n chain outer=0 []"}, 0},
		{"in the process", Decoder{}, [][]byte{record(head, nil, []bpf.SessionCall{{Func: 0, Flags: fin}, {Func: 4, Flags: fin}})}, []string{
			"outer 7/8 comm state=0 failed=true\n chain outer=0 mine=0 []"}, 0},
		{"ended in the process", Decoder{}, [][]byte{record(with(func(h *bpf.SessionHeader) { h.Func, h.Failed = 4, false }), nil, []bpf.SessionCall{{Func: 4, Flags: fin}, {Func: 2, Flags: fin}})}, []string{
			"mine 7/8 comm state=0 failed=false\n chain mine=0 leaf=0 []"}, 0},
		{"failed in the kernel, below the process", Decoder{}, [][]byte{record(with(func(h *bpf.SessionHeader) { h.Func = 4 }), nil, []bpf.SessionCall{{Func: 4, Flags: bad}, {Func: 2, Flags: bad}})}, []string{
			"mine 7/8 comm state=0 failed=true {Deep:0 Chunk:0 Args:0 Returns:0 Room:0 Reasons:0 Chains:0 Stack:true}\n chain mine=0 leaf=0 []"}, 0},
		{"interim", Decoder{}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionChain }), nil, []bpf.SessionCall{{Func: 0}, {Func: 2, Flags: bad}}, 0xc),
			record(with(func(h *bpf.SessionHeader) { h.Failed = false }), nil, []bpf.SessionCall{{Func: 0, Flags: fin}}, 0xa)}, []string{
			"outer 7/8 comm state=0 failed=false\n chain outer=0 for 200 leaf=0 [c]\n chain outer=0 [a]"}, 0},
		{"interim chains out of order", Decoder{}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionChain }), nil, []bpf.SessionCall{{Func: 0}, {Func: 2, Entry: 130, Flags: bad}}, 0xd),
			record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionChain }), nil, []bpf.SessionCall{{Func: 0}, {Func: 2, Entry: 120, Flags: bad}}, 0xc),
			record(head, nil, []bpf.SessionCall{{Func: 0, Result: minus22, Flags: bad}}, 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain outer=0 for 200 leaf=0 [c]\n chain outer=0 for 200 leaf=0 [d]\n chain outer=-22 [a]"}, 0},
		{"trace in one", Decoder{Traced: true}, [][]byte{record(head, all, calls[:1], 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain outer=-22 [a]\n 0>outer 0 0\n 1>inner 0 0 name:000000008088ffff \"eth0\" count:0300000000000000 \"\" {0500000000000000}\n" +
				" 2=leaf 5 0\n 1<inner 20 -22 {0500000000000000}\n 0<outer 40 -22"}, 0},
		{"trace with values in the chain", Decoder{Traced: true}, [][]byte{record(head, all, []bpf.SessionCall{calls[0], {Func: 1, Result: minus22, Flags: bad, Values: itemAt}}, 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain outer=-22 inner=-22 name:000000008088ffff \"eth0\" count:0300000000000000 \"\" {0500000000000000} [a]\n" +
				" 0>outer 0 0\n 1>inner 0 0 name:000000008088ffff \"eth0\" count:0300000000000000 \"\" {0500000000000000}\n 2=leaf 5 0\n 1<inner 20 -22 {0500000000000000}\n 0<outer 40 -22"}, 0},
		{"values and arguments around a gap", Decoder{Traced: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionChunk }), first, nil),
			record(with(func(h *bpf.SessionHeader) { h.LogBase = uint32(len(first)) + 8 }), second, []bpf.SessionCall{{Func: 1, Result: minus22, Flags: bad, Values: itemAt + 8}}, 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain inner=-22 name:000000008088ffff \"eth0\" count:0300000000000000 \"\" {0500000000000000} [a]\n" +
				" 0>outer 0 0\n 1>inner 0 0 name:000000008088ffff \"eth0\" count:0300000000000000 \"\" {0500000000000000}\n 1?\n 2=leaf 5 0\n 1<inner 20 -22 {0500000000000000}\n 0<outer 40 -22"}, 0},
		{"values of an earlier call and a return around a gap", Decoder{Traced: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionChunk }), before, nil),
			record(with(func(h *bpf.SessionHeader) { h.LogBase = uint32(len(before)) + 8 }), second, []bpf.SessionCall{{Func: 1, Result: minus22, Flags: bad, Values: itemBehind}}, 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain inner=-22 {0500000000000000} [a]\n" +
				" 0>outer 0 0\n 1>inner 0 0 name:000000008088ffff \"eth1\" count:0400000000000000 \"\"\n 1?\n 2=leaf 5 0\n 1<inner 20 -22 {0500000000000000} alone\n 0<outer 40 -22"}, 0},
		{"arguments whose entry is lost", Decoder{Traced: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind, h.LogBase = bpf.SessionChunk, entered }), first[entered:], nil),
			record(with(func(h *bpf.SessionHeader) { h.LogBase = uint32(len(first)) }), second, []bpf.SessionCall{{Func: 1, Result: minus22, Flags: bad, Values: itemAt}}, 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain inner=-22 name:000000008088ffff \"eth0\" count:0300000000000000 \"\" {0500000000000000} [a]\n" +
				" 0?\n 2=leaf 5 0\n 1<inner 20 -22 {0500000000000000} alone\n 0<outer 40 -22 alone"}, 0},
		{"arguments behind a gap, of a call whose entry was lost", Decoder{Traced: true}, parts(entry(110), nil, append(arguments("next", 4), itemAndExit(150)...)), []string{
			"outer 7/8 comm state=0 failed=true\n chain inner=0 name:000000008088ffff \"next\" count:0400000000000000 \"\" {0500000000000000} [a]\n" +
				" 1>inner 0 0\n 1?\n 1<inner 10 0 {0500000000000000} alone"}, 0},
		{"arguments on both sides of a gap", Decoder{Traced: true}, parts(append(entry(110), arguments("old", 3)...), nil, append(arguments("next", 4), itemAndExit(150)...)), []string{
			"outer 7/8 comm state=0 failed=true\n chain inner=0 name:000000008088ffff \"next\" count:0400000000000000 \"\" {0500000000000000} [a]\n" +
				" 1>inner 0 0 name:000000008088ffff \"old\" count:0300000000000000 \"\"\n 1?\n 1<inner 10 0 {0500000000000000} alone"}, 0},
		{"arguments between two gaps", Decoder{Traced: true}, parts(nil, arguments("old", 3), itemAndExit(150)), []string{
			"outer 7/8 comm state=0 failed=true\n chain inner=0 {0500000000000000} [a]\n 0?\n 0?\n 1<inner 10 0 {0500000000000000} alone"}, 0},
		{"calls that begin at one time", Decoder{Traced: true}, [][]byte{record(head, atOnce, nil, 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain [a]\n 0>leaf 0 0\n 1=leaf 10 0 {0500000000000000}\n 0<leaf 10 0"}, 0},
		{"no arguments of the call before", Decoder{Traced: true}, [][]byte{
			record(head, others, []bpf.SessionCall{{Func: 1, Flags: fin, Values: otherItem}}, 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain inner=0 {0500000000000000} [a]\n 0=inner 10 0 name:000000008088ffff \"eth0\" count:0300000000000000 \"\"\n 0=inner 10 0 {0500000000000000}"}, 0},
		{"injected", Decoder{Traced: true}, [][]byte{record(head, injected, calls[:1], 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain outer=-22 [a]\n 0>outer 0 0\n 1*point at 115 {0700000000000000}\n 1>leaf 0 0\n" +
				" 2*point at 115 {0800000000000000}\n 1<leaf 5 0\n 0<outer 40 -22"}, 0},
		{"trace in parts", Decoder{Traced: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionChunk }), first, nil),
			record(with(func(h *bpf.SessionHeader) { h.LogBase = uint32(len(first)) }), second, calls[:1], 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain outer=-22 [a]\n 0>outer 0 0\n 1>inner 0 0 name:000000008088ffff \"eth0\" count:0300000000000000 \"\" {0500000000000000}\n" +
				" 2=leaf 5 0\n 1<inner 20 -22 {0500000000000000}\n 0<outer 40 -22"}, 0},
		{"part lost", Decoder{Traced: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.LogBase, h.LostChunks = uint32(len(first)), 1 }), second, calls[:1], 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true {Deep:0 Chunk:1 Args:0 Returns:0 Room:0 Reasons:0 Chains:0 Stack:false}\n chain outer=-22 [a]\n 0?\n 2=leaf 5 0\n 1<inner 20 -22 {0500000000000000} alone\n 0<outer 40 -22 alone"}, 0},
		{"live", Decoder{Traced: true, Live: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind, h.Failed = bpf.SessionChunk, false }), first, nil),
			record(with(func(h *bpf.SessionHeader) { h.LogBase = uint32(len(first)) }), second, calls[:1], 0xa)}, []string{
			"outer 7/8 comm state=1 failed=false\n chain []\n 0>outer 0 0\n 1>inner 0 0 name:000000008088ffff \"eth0\" count:0300000000000000 \"\"",
			"outer 7/8 comm state=0 failed=true\n chain outer=-22 [a]\n 2=leaf 5 0\n 1<inner 20 -22 {0500000000000000} alone\n 0<outer 40 -22 alone"}, 0},
		{"values of calls that do not return", Decoder{Traced: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionChunk }), unseen, nil),
			record(with(func(h *bpf.SessionHeader) { h.Kind, h.LogBase = bpf.SessionExit, uint32(len(unseen)) }), further, []bpf.SessionCall{{Func: 0, Entry: 100, Values: uint32(len(unseen)) + 1}})}, []string{
			"outer 7/8 comm state=3 failed=true\n chain outer=0 for 100 {0700000000000000} []\n 0>outer 0 0 {0700000000000000}\n 1>inner 0 0 {0500000000000000}\n 1=leaf 5 0"}, 0},
		{"values of calls that do not return, live", Decoder{Traced: true, Live: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind, h.Failed = bpf.SessionChunk, false }), unseen, nil),
			record(with(func(h *bpf.SessionHeader) { h.Kind, h.LogBase = bpf.SessionExit, uint32(len(unseen)) }), further, []bpf.SessionCall{{Func: 0, Entry: 100, Values: uint32(len(unseen)) + 1}})}, []string{
			"outer 7/8 comm state=1 failed=false\n chain []\n 0>outer 0 0\n 1>inner 0 0 {0500000000000000}\n 1=leaf 5 0",
			"outer 7/8 comm state=3 failed=true\n chain outer=0 for 100 {0700000000000000} []\n 0+outer 0 0 {0700000000000000}"}, 0},
		{"values of calls in flight", Decoder{Traced: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionHung }), append(slices.Clone(first), further...), nil),
			record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionHung }), append(append(slices.Clone(first), second[:itemAt-1-uint32(len(first))]...), further...), nil),
			record(head, all, calls[:1], 0xa)}, []string{
			"outer 7/8 comm state=2 failed=false\n chain []\n 0>outer 0 0 {0700000000000000}\n 1>inner 0 0 name:000000008088ffff \"eth0\" count:0300000000000000 \"\"",
			"outer 7/8 comm state=2 failed=false\n chain []\n 0>outer 0 0 {0700000000000000}\n 1>inner 0 0 name:000000008088ffff \"eth0\" count:0300000000000000 \"\"\n 2=leaf 5 0",
			"outer 7/8 comm state=0 failed=true\n chain outer=-22 [a]\n 0>outer 0 0\n 1>inner 0 0 name:000000008088ffff \"eth0\" count:0300000000000000 \"\" {0500000000000000}\n" +
				" 2=leaf 5 0\n 1<inner 20 -22 {0500000000000000}\n 0<outer 40 -22"}, 0},
		{"interim chain, live", Decoder{Traced: true, Live: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind, h.Failed = bpf.SessionChunk, false }), first, nil),
			record(with(func(h *bpf.SessionHeader) { h.Kind, h.Failed, h.LogBase = bpf.SessionChain, false, uint32(len(first)) }), second, []bpf.SessionCall{{Func: 0}, {Func: 2, Flags: bad}}, 0xc),
			record(with(func(h *bpf.SessionHeader) { h.LogBase = uint32(len(first) + len(second)) }), nil, calls[:1], 0xa)}, []string{
			"outer 7/8 comm state=1 failed=false\n chain []\n 0>outer 0 0\n 1>inner 0 0 name:000000008088ffff \"eth0\" count:0300000000000000 \"\"",
			"outer 7/8 comm state=1 failed=false\n chain []\n 2=leaf 5 0\n 1<inner 20 -22 {0500000000000000} alone\n 0<outer 40 -22 alone",
			"outer 7/8 comm state=0 failed=true\n chain outer=0 for 200 leaf=0 [c]\n chain outer=-22 [a]"}, 0},
		{"interim chain without calls, live", Decoder{Traced: true, Live: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind, h.Failed = bpf.SessionChain, false }), nil, calls[:1], 0xc)}, nil, 0},
		{"arguments of a call whose entry is lost", Decoder{Traced: true}, [][]byte{record(head, orphans, calls[:1], 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain outer=-22 [a]\n 0>outer 0 0\n 1>inner 0 0"}, 0},
		{"hidden step", Decoder{Traced: true}, [][]byte{record(head, hidden, calls[:1], 0xa)}, []string{
			"outer 7/8 comm state=0 failed=true\n chain outer=-22 [a]\n 0=outer 30 0"}, 0},
		{"dropped", Decoder{Traced: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionChunk }), first, nil),
			record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionDrop }), nil, nil)}, nil, 0},
		{"end lost", Decoder{Traced: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionChunk }), first, nil),
			record(with(func(h *bpf.SessionHeader) { h.Start = 300; h.Kind = bpf.SessionDrop }), nil, nil)}, nil, 1},
		{"threads apart", Decoder{Traced: true}, [][]byte{
			record(with(func(h *bpf.SessionHeader) { h.Kind = bpf.SessionChunk }), first, nil),
			record(with(func(h *bpf.SessionHeader) { h.TID = 9 }), hidden, calls[:1], 0xa)}, []string{
			"outer 7/9 comm state=0 failed=true\n chain outer=-22 [a]\n 0=outer 30 0"}, 0},
	} {
		d := c.decoder
		d.Plan = decoderPlan()
		var got []string
		for _, raw := range c.records {
			s, err := d.Decode(raw)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if s != nil {
				got = append(got, describeSession(s))
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if d.Orphans() != c.orphans {
			t.Errorf("%s: %d orphans, want %d", c.name, d.Orphans(), c.orphans)
		}
	}
}

// TestDecodeStale: only a record of a session that is over says whether it failed. In others the engine has left this, and the
// name of the process, of an earlier session (ks_close). session_hung sets the name.
func TestDecodeStale(t *testing.T) {
	var log logBuilder
	log.entry(0, 0, 100)
	h := bpf.SessionHeader{Start: 100, End: 200, PID: 7, TID: 8, Failed: true}
	copy(h.Leader[:], "leader")
	for kind, want := range map[bpf.SessionRecordKind]Session{
		bpf.SessionChunk: {State: Running}, bpf.SessionChain: {State: Running}, bpf.SessionHung: {State: Hung, Leader: "leader"},
		bpf.SessionEnd: {State: Returned, Leader: "leader", Failed: true}, bpf.SessionExit: {State: Exited, Leader: "leader", Failed: true},
		bpf.SessionExec: {State: Replaced, Leader: "leader", Failed: true},
	} {
		d := Decoder{Plan: decoderPlan(), Traced: true, Live: true}
		h.Kind = kind
		s, err := d.Decode(record(h, log, nil))
		if err != nil || s == nil {
			t.Fatalf("kind %d: %v, %v", kind, s, err)
		}
		if s.State != want.State || s.Leader != want.Leader || s.Failed != want.Failed {
			t.Errorf("kind %d: %s, failed %t, leader %q; want %s, %t, %q", kind, s.State, s.Failed, s.Leader, want.State, want.Failed, want.Leader)
		}
	}
}

// TestDecodeForgets checks that what has ended takes no memory, and that what
// has not is bounded.
func TestDecodeForgets(t *testing.T) {
	var log logBuilder
	log.entry(0, 0, 1)
	d := Decoder{Plan: decoderPlan(), Traced: true, Limit: 10 * (sessionCost + segmentCost + len(log))}
	for i := range uint32(100) {
		h := bpf.SessionHeader{Start: 1, TID: i, PID: 1, Kind: bpf.SessionChunk}
		if _, err := d.Decode(record(h, log, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.open) != 10 || d.Orphans() != 90 || d.size != d.Limit {
		t.Errorf("%d sessions of %d bytes are open, %d were given up", len(d.open), d.size, d.Orphans())
	}
	for i := range uint32(100) {
		h := bpf.SessionHeader{Start: 1, TID: i, PID: 1, Kind: bpf.SessionDrop}
		if _, err := d.Decode(record(h, nil, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.open) != 0 || len(d.threads) != 0 || d.size != 0 || d.oldest != nil || d.newest != nil {
		t.Errorf("%d sessions of %d bytes are left", len(d.open), d.size)
	}
}

// mark is the record that stands where n others are missing.
func mark(cause bpf.Counter, n uint64) []byte {
	return append(bpf.AppendEvent(nil, &bpf.Event{Kind: bpf.KindLost, Probe: uint32(cause)}), words(n)...)
}

// A mark of losses is where it was sent, between the parts of a session as well.
func TestDecodeMissing(t *testing.T) {
	var log logBuilder
	log.entry(0, 0, 1)
	d := Decoder{Plan: decoderPlan(), Traced: true, Live: true}
	part := func(kind bpf.SessionRecordKind, base uint32) []byte {
		return record(bpf.SessionHeader{Start: 1, TID: 7, PID: 7, Kind: kind, LogBase: base}, log, nil)
	}
	var got []string
	for _, raw := range [][]byte{mark(bpf.LostNMI, 2), part(bpf.SessionChunk, 0), mark(bpf.LostRingbuf, 3), part(bpf.SessionEnd, uint32(len(log)))} {
		s, err := d.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(s.State, s.Loss, len(s.Trace)))
	}
	if want := []string{
		fmt.Sprint(Missing, event.Loss{Cause: bpf.LostNMI, Count: 2}, 0), fmt.Sprint(Running, event.Loss{}, 1),
		fmt.Sprint(Missing, event.Loss{Cause: bpf.LostRingbuf, Count: 3}, 0), fmt.Sprint(Returned, event.Loss{}, 1),
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if s, err := d.Decode(mark(bpf.Counters, 1)); err == nil {
		t.Errorf("a mark of an unknown cause: %+v", s)
	}
}

func FuzzDecode(f *testing.F) {
	var log logBuilder
	log.entry(0, 0, 1)
	log.args(1, "eth0", 3)
	log.item(0, 0, 1, 1)
	log.open(0, 0, 1, 1)
	log.values(bpf.LogProbe, bpf.KindEntry, 1, 3, 0, 1)
	log.exit(0, 0, 2, 1, 0, bpf.CallFinished)
	for _, kind := range []bpf.SessionRecordKind{bpf.SessionEnd, bpf.SessionChunk, bpf.SessionChain, bpf.SessionDrop, bpf.SessionHung} {
		f.Add(record(bpf.SessionHeader{Kind: kind, TID: 1}, log, []bpf.SessionCall{{Func: 1, Values: 17, Item: 17}}, 1), true)
	}
	f.Add(recordOff(bpf.SessionHeader{Kind: bpf.SessionExit, TID: 1}, log, []bpf.SessionCall{{Func: 1}}, 5, 3), true)
	f.Add(record(bpf.SessionHeader{Kind: bpf.SessionEnd, TID: 1, HasOwner: true, Owner: bpf.Owner{UID: 5, Cgroup: 6}}, log, []bpf.SessionCall{{Func: 1, Values: 17, Item: 17}}, 1), false)
	f.Add(mark(bpf.LostRingbuf, 3), true)
	var marked logBuilder
	marked.values(bpf.LogOpen, bpf.KindLost, 0, 0, 1, 1)
	f.Add(record(bpf.SessionHeader{Kind: bpf.SessionExit, TID: 1}, marked, []bpf.SessionCall{{Func: 0, Values: 1}}), false)
	f.Fuzz(func(t *testing.T, raw []byte, traced bool) {
		d := Decoder{Plan: decoderPlan(), Traced: traced}
		for again := range 2 {
			d.Live = again == 1
			if s, err := d.Decode(raw); err == nil && s != nil && s.State != Missing {
				describeSession(s)
				for _, st := range s.Trace {
					if st.Func != nil {
						checkValues(t, st.Func, &st.Values)
					}
				}
				for _, c := range append(slices.Clone(s.Interim), s.Chain) {
					for i := range c.Frames {
						checkValues(t, c.Frames[i].Func, &c.Frames[i].Values)
					}
				}
			}
		}
	})
}

// checkValues: the values of a call are laid out as its function says.
func checkValues(t *testing.T, fn *plan.Probe, v *Values) {
	t.Helper()
	if v.Event != nil && v.Event.Probe != fn || len(v.Args) > 0 && len(v.Args) != len(fn.Args) {
		t.Errorf("%s has %+v", fn.Name, v)
	}
}

// TestDecodeOthers: values that a recording puts at a call of another function are not taken for its own.
func TestDecodeOthers(t *testing.T) {
	itemOf := func(head, values uint32, kind bpf.Kind) []byte {
		data := bpf.AppendEvent(make([]byte, bpf.ItemHead), &bpf.Event{Probe: values, Kind: kind, EntryTime: 100})
		var log logBuilder
		log.add(bpf.LogItem, 0, head, 0, append(data, words(5)...)...)
		return log
	}
	item := func(head, values uint32) []byte { return itemOf(head, values, bpf.KindCall) }
	for _, c := range []struct {
		name        string
		entry, exit uint32
		item        []byte
		want        string // "" if the record is refused
	}{
		{"its own", 0, 0, item(0, 0), " 0=outer 100 0 {0500000000000000}"},
		{"of another function", 2, 2, item(0, 0), " 0=leaf 100 0"},
		{"with those of another function", 0, 0, item(0, 2), ""},
		{"with a mark of losses", 0, 0, itemOf(0, uint32(bpf.LostRingbuf), bpf.KindLost), ""},
		{"of a call that goes on as another", 0, 2, item(0, 0), " 0>outer 0 0\n 0<leaf 100 0 alone"},
	} {
		var log logBuilder
		log.entry(0, c.entry, 100)
		log = append(log, c.item...)
		log.exit(0, c.exit, 200, 100, 0, bpf.CallFinished)
		d := Decoder{Plan: decoderPlan(), Traced: true}
		s, err := d.Decode(record(bpf.SessionHeader{Kind: bpf.SessionEnd, Start: 100}, log, nil))
		if c.want == "" {
			if err == nil || !strings.Contains(err.Error(), "a call of outer has values that are not its own") {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := describeSession(s); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: got\n%s", c.name, got)
		}
	}
}

// TestArgsOf: values that come behind a gap belong to arguments in front of it if their call began with these, and has not returned.
func TestArgsOf(t *testing.T) {
	for _, c := range []struct {
		returned bool
		began    uint64
		want     bool
	}{{false, 110, true}, {false, 111, false}, {true, 110, false}} {
		var before, behind logBuilder
		before.entry(1, 1, 110)
		before.args(1, "eth0", 3)
		if c.returned {
			before.exit(1, 1, 110, 0, 0, bpf.CallFinished)
		}
		behind.item(1, 1, c.began, 5)
		var l log
		at := uint32(len(before)) + 100
		if err := errors.Join(l.add(0, before), l.add(at, behind)); err != nil {
			t.Fatal(err)
		}
		if args, ok := l.argsOf(at); ok != c.want || ok && args != 16 {
			t.Errorf("%+v: %d, %v", c, args, ok)
		}
	}
}

// TestDecodeBounds: no engine sends more than it has room for (bpf/session.h), so such a record is refused
// before anything is made of it.
func TestDecodeBounds(t *testing.T) {
	calls := make([]bpf.SessionCall, 1000)
	var deep, long logBuilder
	deep.entry(129, 0, 1)
	for range (24 + 8) << 10 / 16 { // a log, and where it may go on
		long.entry(0, 0, 1)
	}
	if s, err := (&Decoder{Plan: decoderPlan(), Traced: true}).Decode(record(bpf.SessionHeader{Kind: bpf.SessionExit}, long, nil)); err != nil || len(s.Trace) != 2048 {
		t.Errorf("%+v, %v", s, err)
	}
	long.entry(0, 0, 1)
	for what, raw := range map[string][]byte{
		"1000 calls":         record(bpf.SessionHeader{Kind: bpf.SessionEnd}, nil, calls),
		"200 addresses":      record(bpf.SessionHeader{Kind: bpf.SessionEnd}, nil, nil, make([]uint64, 200)...),
		"32784 bytes of log": record(bpf.SessionHeader{Kind: bpf.SessionEnd}, long, nil),
		"below 129 others":   record(bpf.SessionHeader{Kind: bpf.SessionEnd}, deep, nil),
	} {
		d := Decoder{Plan: decoderPlan(), Traced: true}
		if _, err := d.Decode(raw); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
