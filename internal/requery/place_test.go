// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/userfunc"
	"github.com/ksnoop/ksnoop/layout"
)

// TestPlace: of calls of a function of user space, the return of one is not taken for that of one within it that
// longjmp has ended: neither where a SPEC is decided by both, nor in what is shown of it.
func TestPlace(t *testing.T) {
	view := kernelOf(t)
	const function = "uprobe:../livetest/user/testdata/user_amd64:jump_within"
	for _, owner := range []layout.Owner{0, layout.OwnerUID} {
		recorded, _, err := plan.Resolve(view, parse(t, function+"(n, return)"), plan.Options{Arch: "amd64", Owner: owner, UserFile: userfunc.Opener("", "amd64")})
		if err != nil {
			t.Fatal(err)
		}
		record := func(kind bpf.Kind, place, value uint64) []byte {
			raw := bpf.AppendEvent(nil, &bpf.Event{PID: 7, TID: 7, Kind: kind})
			if owner != 0 {
				raw = bpf.AppendOwner(raw, bpf.Owner{UID: 1})
			}
			return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(raw, place), value)
		}
		var records iter.Seq2[[]byte, error] = func(yield func([]byte, error) bool) {
			for _, raw := range [][]byte{record(bpf.KindEntry, 0x9000, 4), record(bpf.KindEntry, 0x8000, 5), record(bpf.KindReturn, 0x9000, 4)} {
				if !yield(raw, nil) {
					return
				}
			}
		}
		file := recorded.Probes[0].Hook.File
		for asked, want := range map[string][]string{
			"(return, n)":         {"n = 4 return = 4", "n = 5"},
			"(n == return, n)":    {"n = 4 return = 4 n = 4"},
			"(n != return, n)":    nil,
			"(n == 4, n, return)": {"n = 4 n = 4 return = 4"},
			"":                    {"n = 4 return = 4", "n = 5"},
		} {
			a, err := New(recorded, view, Question{Specs: parse(t, "uprobe:"+file+":jump_within"+asked), Arch: "amd64"})
			if err != nil {
				t.Fatalf("%s: %s", asked, faults(err))
			}
			var got []string
			var j calls.Joiner
			for c, err := range j.Join(event.All(a.Plan(), a.Records(records))) {
				if err != nil {
					t.Fatalf("%s: %v", asked, err)
				}
				var values []string
				for _, e := range []*event.Event{c.Entry, c.Return} {
					if e == nil {
						continue
					}
					for i := range e.Record.Slots {
						if s := &e.Record.Slots[i]; s.Capture >= 0 {
							v, _ := e.Value(s)
							values = append(values, fmt.Sprintf("%s = %d", e.Probe.Items[s.Item].Captures[s.Capture].Label, v))
						}
					}
				}
				got = append(got, strings.Join(values, " "))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q: %q, want %q", asked, got, want)
			}
		}
	}
}
