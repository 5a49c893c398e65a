// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"slices"
	"testing"
)

func TestPathSteps(t *testing.T) {
	steps := []PathStep{{Site: 3, Word: 0x246, Value: [2]uint64{1, 2}, Unreadable: [2]bool{false, true}}, {Site: 1, Unreadable: [2]bool{true, false}}}
	got, gap, missing := AppendPath(nil, Section{Data: AppendSteps(nil, steps)})
	if !slices.Equal(got, steps) || gap != 2 || missing != 0 {
		t.Errorf("%+v, gap at %d, %d missing", got, gap, missing)
	}
	for n := range AppendSteps(nil, steps) {
		AppendPath(nil, Section{Data: AppendSteps(nil, steps)[:n]})
	}
}

// TestPathIsBounded: a damaged recording may claim to have kept more steps than there is room for.
func TestPathIsBounded(t *testing.T) {
	steps := make([]PathStep, 10*PathSteps)
	if got, _, missing := AppendPath(nil, Section{Data: AppendSteps(nil, steps)}); len(got)+missing != len(steps) || len(got) != PathSteps {
		t.Errorf("%d steps, %d missing", len(got), missing)
	}
}

// TestPathRing writes more steps than there is room for as path_step does: the first half of the
// room keeps the first, the other half is a ring.
func TestPathRing(t *testing.T) {
	for _, room := range []int{1, 2, 5, 8, 256} {
		for _, count := range []int{room - 1, room, room + 1, room + 3, 3*room + 1} {
			kept := make([]PathStep, min(room, count))
			for i := range count {
				at, half := i, room/2
				if at >= room && half > 0 {
					at = half + (at-half)%(room-half)
				}
				if at < room {
					kept[at] = PathStep{Site: i}
				}
			}
			data := AppendSteps(nil, kept)
			binary.LittleEndian.PutUint32(data, uint32(count))
			binary.LittleEndian.PutUint32(data[4:], uint32(room))
			steps, gap, missing := AppendPath(nil, Section{Data: data})
			if missing != max(count-room, 0) {
				t.Fatalf("%d of %d: %d missing", count, room, missing)
			}
			for i, s := range steps {
				want := i
				if i >= gap {
					want += missing
				}
				if room > 1 && s.Site != want {
					t.Fatalf("%d of %d: step %d is %d, want %d", count, room, i, s.Site, want)
				}
			}
		}
	}
}
