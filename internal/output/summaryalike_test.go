// SPDX-License-Identifier: Apache-2.0

package output_test

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// someStacks are stacks of the kernel by their numbers.
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
