// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

func branchSection(branches ...event.Branch) bpf.Section {
	s := bpf.Section{Kind: bpf.SectionBranches}
	for _, b := range branches {
		s.Data = append(s.Data, data(b.From, b.To, b.Flags)...)
	}
	return s
}

func TestBranches(t *testing.T) {
	own := event.Branch{From: place("__bpf_prog_enter", 0x10), To: place("bpf_trampoline_2", 0x60)}
	ret := event.Branch{From: place("send", 0x74), To: place("bpf_trampoline_2", 0x50), Flags: 1}
	call := event.Branch{From: place("inliner", 0x20), To: place("send", 0), Flags: 2 | 7<<4}
	inner := event.Branch{From: place("caller", 0x14), To: place("inliner", 0x8), Flags: 4 | 8}
	for _, c := range []struct {
		name    string
		section bpf.Section
		tails   Tails
		want    string
	}{
		{"none", branchSection(), Tails{}, "        branches: none\n\n"},
		{"empty recorder", bpf.Section{Kind: bpf.SectionBranches, Errno: 2}, Tails{}, "        branches: none\n\n"},
		{"silent CPU", bpf.Section{Kind: bpf.SectionBranches, Errno: 19}, Tails{}, "        branches: none, this CPU does not record them\n\n"},
		{"overwritten", bpf.Section{Kind: bpf.SectionBranches, Errno: 16}, Tails{}, "        branches: none, others took their place too soon\n\n"},
		{"another reason", bpf.Section{Kind: bpf.SectionBranches, Errno: 22}, Tails{}, "        branches: none (-EINVAL)\n\n"},
		{"own tail, inlined functions, flags", branchSection(own, ret, call, inner), Tails{},
			`        branches: /* the newest is the tracing's own */
            [#03] caller+0x14  (net/a.c:10)    ->  inliner+0x8                 (net/b.c:20:5)  in a transaction, aborted
                                                   . inlined                   (net/c.h:3)
            [#02] inliner+0x20 (net/b.c:20:5)  ->  send+0x0                                    7 cycles
                  . inlined    (net/c.h:3)
            [#01] send+0x74                    ->  bpf_trampoline_2+0x50 [bpf]                 mispredicted

`},
		{"newest, without lines", branchSection(own, ret, call), Tails{Branches: BranchOptions{Max: 1}},
			"        branches: /* the newest is the tracing's own */\n            [#01] send+0x74  ->  bpf_trampoline_2+0x50 [bpf]  mispredicted\n\n"},
		{"unfiltered", branchSection(own, ret), Tails{Branches: BranchOptions{Unfiltered: true}}, `        branches:
            [#01] send+0x74              ->  bpf_trampoline_2+0x50 [bpf]  mispredicted
            [#00] __bpf_prog_enter+0x10  ->  bpf_trampoline_2+0x60 [bpf]

`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.tails.Kernel = testFunctions
			_, got, _ := strings.Cut(printTail(t, &c.tails, 3833, c.section), "(int)0\n\n")
			if d := cmp.Diff(c.want+");\n", got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestOwnTail: what led into the traced function's return is the newest that is
// kept, however that return was made.
func TestOwnTail(t *testing.T) {
	b := func(from, to string) event.Branch { return event.Branch{From: place(from, 0x20), To: place(to, 0x20)} }
	enter := b("__bpf_prog_enter", "bpf_trampoline_2")
	for _, c := range []struct {
		name     string
		branches []event.Branch
		atEntry  bool
		want     int
	}{
		{"fexit", []event.Branch{enter, b("bpf_trampoline_2", "__bpf_prog_enter"), b("send", "bpf_trampoline_2"), b("send", "send")}, false, 2},
		{"return probe", []event.Branch{b("_text", "_text"), b("send", "__kretprobe_trampoline")}, false, 1},
		{"nothing of the tracing", []event.Branch{b("send", "__kretprobe_trampoline")}, false, 0},
		{"by a return thunk", []event.Branch{enter, b("nf", "bpf_trampoline_2"), b("send", "nf")}, false, 1},
		{"returns only, by a return thunk", []event.Branch{enter, b("nf", "bpf_trampoline_2"), b("nf", "send"), b("nf", "caller")}, false, 1},
		{"ended in another function", []event.Branch{enter, b("caller", "bpf_trampoline_2"), b("caller", "caller"), b("send", "caller")}, false, 1},
		{"no returns recorded", []event.Branch{enter, b("send", "send")}, false, 1},
		{"function not seen", []event.Branch{enter, b("nf", "caller")}, false, 0},
		{"at entry", []event.Branch{enter, b("send", "bpf_trampoline_2"), b("caller", "send")}, true, 1},
		{"none", nil, false, 0},
	} {
		v := branchView{resolver: testFunctions}
		if got := v.ownTail(c.branches, &plan.Probe{Func: kernel.Function{Name: "send"}}, !c.atEntry); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	point := &plan.Probe{Func: kernel.Function{Name: "send"}, Hook: plan.Hook{Kind: expr.Tracepoint, Name: "send"}}
	v := branchView{resolver: testFunctions}
	if got := v.ownTail([]event.Branch{enter, b("nf", "caller"), b("send", "nf")}, point, false); got != 0 {
		t.Errorf("of a tracepoint with the name of its caller %d branches are left out", got)
	}
}

// testLiner has the lines of array_map_alloc_check as retsnoop's tour shows
// them, for the function send.
type testLiner struct{ testKernel }

func (testLiner) Lines(dst []debuginfo.Row, addr uint64) []debuginfo.Row {
	if addr < place("send", 0) || addr >= place("caller", 0) {
		return dst
	}
	for _, r := range []struct {
		offset uint64
		line   uint32
	}{{0, 52}, {5, 53}, {0x10, 54}, {0x18, 57}, {0x25, 58}, {0x30, 59}, {0x3a, 60}, {0x45, 61}, {0x50, 64}, {0x60, 70}, {0x6f, 62}, {0x74, 79}, {0x75, 1735}} {
		file := "kernel/bpf/arraymap.c"
		if r.line == 1735 {
			file = "include/linux/bpf.h"
		}
		dst = append(dst, debuginfo.Row{Addr: place("send", r.offset), File: file, Line: r.line})
	}
	return dst
}

// The tour's failing check: lines 58 to 61 were not reached, so it is line 57
// that failed.
func TestPassage(t *testing.T) {
	in := func(offset uint64) uint64 { return place("send", offset) }
	tour := []event.Branch{ // newest first
		{From: in(0x74), To: place("__kretprobe_trampoline", 0)},
		{From: in(0x1d), To: in(0x6f)},
		{From: in(0x7a), To: in(0x18)},
		{From: in(0x13), To: in(0x75)},
		{From: place("bpf_trampoline_2", 0x14), To: in(0x5)},
		{From: place("caller", 0x10), To: place("bpf_trampoline_2", 0x4)},
	}
	const whole = "in send, kernel/bpf/arraymap.c: passed 53-57, 62, 79; not passed 58-61, 64-70"
	for _, c := range []struct {
		name     string
		branches []event.Branch
		all      bool
		want     []string // notes, behind the number of a branch
	}{
		{"tour", tour, true, []string{"[#00] " + whole}},
		{"not all branches", tour, false, nil},
		{"begin is not known", tour[:3], true, []string{"[#00] in send, kernel/bpf/arraymap.c: passed 57, 62, 79; not passed 58-61, 64-70"}},
		{"end is not known", tour[1:], true, []string{"[#00] in send, kernel/bpf/arraymap.c: passed 53-57, 62; not passed 58-61"}},
		{"twice", slices.Concat(tour[:5], tour[:5]), true, []string{"[#05] " + whole, "[#00] " + whole}},
		{"straight", []event.Branch{tour[0], {From: place("caller", 1), To: in(0x6f)}}, true,
			[]string{"[#00] in send, kernel/bpf/arraymap.c: passed 62, 79; not passed 64-70"}},
		{"nothing left out", []event.Branch{{From: in(0x1d), To: place("nf", 0)}, {From: place("caller", 1), To: in(0x5)}}, true, nil},
		{"no lines", []event.Branch{{From: place("nf", 9), To: place("_text", 1)}, {From: place("caller", 1), To: place("nf", 0)}}, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := branchView{resolver: testLiner{testFunctions}, all: c.all}
			var got []string
			number := ""
			for line := range strings.Lines(string(v.append(nil, c.branches, 0, ""))) {
				if strings.HasPrefix(line, "[#") {
					number = line[:5]
				} else if line = strings.TrimSpace(line); strings.HasPrefix(line, "in ") {
					got = append(got, fmt.Sprintf("%s %s", number, line))
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
