// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// functionsOf lists the functions of a linked program in order, and fails for
// one that is not static: but for the first, the verifier would check it
// without knowing its arguments. Of those in alone it need not know them.
func functionsOf(t *testing.T, insns asm.Instructions) []string {
	t.Helper()
	var names []string
	for i := range insns {
		fn := btf.FuncMetadata(&insns[i])
		if fn == nil {
			continue
		}
		want := btf.StaticFunc
		if alone[fn.Name] {
			want = btf.GlobalFunc
		}
		if fn.Linkage != want {
			t.Errorf("%s is %v, want %v", fn.Name, fn.Linkage, want)
		}
		if insns[i].Symbol() != fn.Name {
			t.Errorf("%s has the symbol %q", fn.Name, insns[i].Symbol())
		}
		if insns[i].Source() == nil {
			t.Errorf("%s begins without a line, which the kernel refuses", fn.Name)
		}
		names = append(names, fn.Name)
	}
	return names
}

func TestLink(t *testing.T) {
	done := asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
	for _, c := range []struct {
		name      string
		functions []Subprogram
		want      []string
	}{
		{"alone", []Subprogram{{Name: "main", Args: 1, Insns: done}}, []string{"main"}},
		{"engine's capture", []Subprogram{{Name: "main", Args: 1, Insns: append(asm.Instructions{asm.Call.Label(FuncSend)}, done...)}},
			[]string{"main", FuncSend, "ks_mark", "ks_lost", FuncCount, FuncCapture, "ks_inner_ids", "ks_in_interrupt", FuncPreemptCount}},
		{"own capture", []Subprogram{
			{Name: "main", Args: 1, Insns: append(asm.Instructions{asm.Call.Label(FuncSend)}, done...)},
			{Name: FuncCapture, Args: 2, Insns: append(asm.Instructions{asm.Mov.Imm(asm.R0, 77)}, done...)},
		}, []string{"main", FuncSend, "ks_mark", "ks_lost", FuncCount, FuncCapture, "ks_inner_ids", "ks_in_interrupt", FuncPreemptCount}},
		{"each once", []Subprogram{{Name: "main", Args: 1, Insns: append(asm.Instructions{
			asm.Call.Label(FuncCount), asm.Call.Label(FuncFilter), asm.Call.Label(FuncCount)}, done...)}},
			[]string{"main", FuncCount, FuncFilter, "ks_filter_untyped", "ks_in_interrupt", FuncPreemptCount}},
		{"own function of a function", []Subprogram{
			{Name: "main", Args: 1, Insns: append(asm.Instructions{asm.Call.Label(FuncFilter)}, done...)},
			{Name: FuncPreemptCount, Insns: append(asm.Instructions{asm.Mov.Imm(asm.R0, 77)}, done...)},
		}, []string{"main", FuncFilter, "ks_filter_untyped", "ks_in_interrupt", FuncPreemptCount}},
	} {
		t.Run(c.name, func(t *testing.T) {
			insns, err := Link(c.functions...)
			if err != nil {
				t.Fatal(err)
			}
			got := functionsOf(t, insns)
			if got[0] != "main" || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(c.want))) {
				t.Errorf("linked %v, want %v", got, c.want)
			}
			own := slices.ContainsFunc(insns, func(i asm.Instruction) bool { return i.Constant == 77 })
			if want := len(c.functions) == 2; own != want {
				t.Errorf("has the generated capture function: %v, want %v", own, want)
			}
		})
	}
}

// TestAlone holds these functions to what btf_prepare_func_args (kernel/bpf/btf.c) takes of
// a global function on every kernel: it returns an integer, and its arguments are integers.
func TestAlone(t *testing.T) {
	lib, err := library()
	if err != nil {
		t.Fatal(err)
	}
	for name := range alone {
		if len(lib[name]) == 0 {
			t.Errorf("the engine has no %s", name)
			continue
		}
		fn := btf.FuncMetadata(&lib[name][0])
		proto := fn.Type.(*btf.FuncProto)
		types := []btf.Type{proto.Return}
		for _, p := range proto.Params {
			types = append(types, p.Type)
		}
		for _, typ := range types {
			if _, ok := btf.UnderlyingType(typ).(*btf.Int); !ok || fn.Linkage != btf.GlobalFunc {
				t.Errorf("%s is %v and has the type %v", name, fn.Linkage, typ)
			}
		}
	}
}

func TestLinkMissing(t *testing.T) {
	if _, err := Link(Subprogram{Name: "main", Insns: asm.Instructions{asm.Call.Label("ks_nonsense"), asm.Return()}}); err == nil {
		t.Error("a call of no function was linked")
	}
}

// TestLibrary makes sure that the compiler has left the functions as they were
// written: had it worked out that ks_capture always returns 0, nobody would
// call the one that takes its place. What generated code may call must be there: the compiler drops functions that
// nothing in C calls.
func TestLibrary(t *testing.T) {
	lib, err := library()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{FuncCount, FuncFilter, FuncAdmit, FuncSend, FuncOpen, FuncOpenUser, FuncOpenFar, FuncFind, FuncFindUser, FuncFindFar, FuncForget, FuncForgetUser, FuncFree, FuncFinish, FuncCapture,
		FuncCookie, FuncSite, FuncSendList, FuncSendTail, FuncFinishTail, FuncPreemptCount,
		FuncHold, FuncLetGo, FuncAway, FuncEnter, FuncLeave, FuncEnterUser, FuncLeaveUser, FuncPushUser, FuncRejectUser, FuncInnermostUser, FuncSession, FuncOpenSession, FuncAround, FuncHit, FuncDone, FuncPush, FuncPop, FuncInnermost,
		FuncItem, FuncItemOf, FuncLogItem, FuncLogArgs, FuncSatisfied, FuncWords, FuncResult, FuncPlace} {
		if len(lib[name]) == 0 {
			t.Errorf("the engine has no %s", name)
		}
	}
	for _, caller := range []string{FuncSend, FuncFinish} {
		if !slices.Contains(lib[caller].FunctionReferences(), FuncCapture) {
			t.Errorf("%s does not call %s", caller, FuncCapture)
		}
	}
}

func TestEngine(t *testing.T) {
	for _, s := range []Settings{
		{RingSize: 4096}, {RingSize: 4096, Stash: NewStash(8, 1), InFlight: 1000}, {RingSize: 4096, Stash: NewStash(31<<10, 64), InFlight: 1},
		{RingSize: 1 << 20, Filter: Filter{Family: true, PIDs: []uint32{1}, Comms: []string{"a very long name of a task"}}},
		{RingSize: 4096, Filter: Filter{Family: true}, EarlyFork: true}, {RingSize: 4096, EarlyFork: true},
	} {
		spec, err := Engine(s)
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		if n := spec.Maps[MapEvents].MaxEntries; n != s.RingSize {
			t.Errorf("ring buffer of %d bytes, want %d", n, s.RingSize)
		}
		if late, early := spec.Programs[ProgFork] != nil, spec.Programs[ProgForkEarly] != nil; late != (s.Filter.Family && !s.EarlyFork) || early != (s.Filter.Family && s.EarlyFork) || spec.Programs[engineProgLibrary] != nil {
			t.Errorf("%+v: programs %v", s, spec.Programs)
		}
		if (spec.Programs[ProgStashExit] != nil) != (s.Stash != Stash{}) {
			t.Errorf("%+v: programs %v", s, spec.Programs)
		}
		checkStash(t, s, spec)
	}
}

// checkStash holds the maps of the stash to what the engine is told of them, and to
// what the kernel takes.
func checkStash(t *testing.T, s Settings, spec *ebpf.CollectionSpec) {
	t.Helper()
	told := map[string]int{}
	for _, name := range []string{engineVarFrameSize, engineVarHomeMask, engineVarGroupMask, engineVarHomeShift, engineVarFarGroups} {
		var n uint32
		if err := spec.Variables[name].Get(&n); err != nil {
			t.Fatal(err)
		}
		told[name] = int(n)
	}
	frame, home, group := told[engineVarFrameSize], told[engineVarHomeMask]+1, told[engineVarGroupMask]+1
	table, far := spec.Maps[mapStash], spec.Maps[engineMapFarFrames]
	if frame < FrameSize || frame%8 != 0 || home&(home-1) != 0 || home < group || group<<told[engineVarHomeShift] != 1<<stackBits {
		t.Errorf("%+v: the engine is told %v", s, told)
	}
	if n := int(table.ValueSize); n > 4<<20 || n < home*frame || table.Value != nil || table.Contents != nil {
		t.Errorf("%+v: a table of %d bytes for %d frames of %d, %v", s, n, home, frame, table)
	}
	if int(far.ValueSize) != group*frame || int(far.MaxEntries) != told[engineVarFarGroups] || int(far.MaxEntries)*group < s.InFlight {
		t.Errorf("%+v: %d groups of %d bytes far away, told %v", s, far.MaxEntries, far.ValueSize, told)
	}
	if size, err := btf.Sizeof(far.Value); err != nil || uint32(size) != far.ValueSize {
		t.Errorf("%+v: BTF says %d bytes, %v", s, size, err)
	}
	if want := int(table.ValueSize) + int(far.ValueSize*far.MaxEntries); s.Stash != (Stash{}) && s.Stash.Size(s.InFlight) != want {
		t.Errorf("%+v: %d bytes, want %d", s, s.Stash.Size(s.InFlight), want)
	}
}
