// SPDX-License-Identifier: Apache-2.0

package output_test

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// someStacks are stacks by their numbers.
type someStacks map[uint64]summary.Stack

func (s someStacks) Stack(number uint64, _ bool) (summary.Stack, bool) {
	found, ok := s[number]
	return found, ok
}

// TestAlike: rows whose stacks read the same are one, whatever the addresses of tracing itself are. All else
// that is shown keeps them apart: a frame, how deep it was taken, another key, that there is none.
func TestAlike(t *testing.T) {
	const read, open, syscall = formattest.Read, formattest.Open, formattest.Syscall
	k := formattest.New(t, "t_")
	k.Calls("t_read(sum(count)[$stack, quick])")
	s := k.Summed()
	for number, calls := range []int{495, 505, 1, 2, 3, 4} {
		s.Add(0, []any{number + 1, 0}, make([]uint64, calls)...)
	}
	s.Add(0, []any{2, 1}, 0, 0, 0)
	x := s.Summary()
	x.Stacks = someStacks{
		1: {Addresses: []uint64{read + 5, open + 0x50, syscall + 0x60}},
		2: {Addresses: []uint64{read + 9, open + 0x50, syscall + 0x60}},
		3: {Addresses: []uint64{read + 5, open + 0x51, syscall + 0x60}},
		4: {Addresses: []uint64{read + 5, open + 0x50}},
		5: {Addresses: []uint64{read + 5, open + 0x50, syscall + 0x60}, Cut: true},
	}
	tails := output.SummaryTails(k.Run)
	got := map[uint64]int{}
	for _, r := range tails.Alike(&x.Tables[0], x.Stacks).Rows {
		got[r.Words[0]]++
	}
	want := map[uint64]int{1000: 1, 1: 1, 2: 1, 3: 2, 4: 1}
	for n, rows := range want {
		if got[n] != rows {
			t.Errorf("%d rows of %d calls, want %d: %v", got[n], n, rows, got)
		}
	}
	text, err := output.NewSummaries(k.Run, func() int { return 60 }, false).AppendSummary(nil, x)
	if err != nil || strings.Count(string(text), "t_open+0x50") != 4 {
		t.Errorf("%v\n%s", err, text)
	}
	if same := tails.Alike(&x.Tables[0], nil); len(same.Rows) != len(x.Tables[0].Rows) {
		t.Errorf("without stacks %d rows are %d", len(x.Tables[0].Rows), len(same.Rows))
	}
}

// TestAlikeUser: a user stack that two CPUs kept at the same time is one row. Another process, other addresses and
// another depth keep rows apart; what the unwinder found outside user space does not.
func TestAlikeUser(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(sum(count)[$ustack])")
	s := k.Summed()
	for number, calls := range []int{742, 258, 1, 2, 3} {
		s.Add(0, []any{number + 1}, make([]uint64, calls)...)
	}
	x := s.Summary()
	process := bpf.Event{PID: 7}
	x.Stacks = someStacks{
		1: {Addresses: []uint64{0x4010, 0x4020}, Task: process},
		2: {Addresses: []uint64{0x4010, 0x4020, 1 << 63}, Task: process},
		3: {Addresses: []uint64{0x4010, 0x4020}, Task: bpf.Event{PID: 8}},
		4: {Addresses: []uint64{0x4010, 0x4021}, Task: process},
		5: {Addresses: []uint64{0x4010, 0x4020}, Task: process, Cut: true},
	}
	tails := output.SummaryTails(k.Run)
	got := map[uint64]int{}
	for _, r := range tails.Alike(&x.Tables[0], x.Stacks).Rows {
		got[r.Words[0]]++
	}
	for _, calls := range []uint64{1000, 1, 2, 3} {
		if got[calls] != 1 {
			t.Errorf("%d rows of %d calls, want 1: %v", got[calls], calls, got)
		}
	}
}

// TestContainers: cgroups of one container are one row, and one that is in none, or of which nothing is known, is told
// apart from those. The row says what people call the container.
func TestContainers(t *testing.T) {
	const uid = "068e8fa0-9213-11e7-a01f-507b9d4141fa"
	web, named := "/docker/"+strings.Repeat("8a", 32), "/kubepods/pod"+uid+"/crio-"+strings.Repeat("9b", 32)
	k := formattest.New(t, "t_")
	k.Run.Cgroup = func(id uint64) container.Group {
		return map[uint64]container.Group{1: {Path: web}, 2: {Path: web + "/system.slice"}, 3: {Path: "/user.slice"}, 4: {Path: "/init.scope"},
			5: {Path: named, Names: container.Names{Container: "app", Pod: "web-0", Namespace: "prod"}}}[id]
	}
	k.Calls("t_read(count()[$container, $pod])")
	s := k.Summed()
	for id, calls := range []int{0, 1, 2, 4, 8, 16, 32} {
		if id > 0 {
			s.Add(0, []any{id, id}, make([]uint64, calls)...)
		}
	}
	x := s.Summary()
	want := []string{"cgroup 6 cgroup 6 32", "prod/web-0/app prod/web-0 16", "- - 12", "8a8a8a8a8a8a - 3"}
	text, err := output.NewSummaries(k.Run, nil, false).AppendSummary(nil, x)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(text)) {
		if row := strings.Join(strings.Fields(line), " "); row != "" && !strings.HasPrefix(row, "---") {
			rows = append(rows, row)
		}
	}
	if got := strings.Join(rows[2:], "\n"); got != strings.Join(want, "\n") {
		t.Errorf("%s\nwant %q", got, want)
	}
}
