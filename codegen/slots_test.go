// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/layout"
)

// TestList: of `long f(struct file *file, long n)`, what needs no code.
func TestList(t *testing.T) {
	object := bpf.Slot{Kind: bpf.SlotBytes, Word: 0, Off: 8, Size: 24, Index: 1}
	pointer := bpf.Slot{Kind: bpf.SlotWord, Word: 0, Width: 8, Size: 8}
	for _, c := range []struct {
		spec       string
		entry, ret []bpf.Slot // nil: code is needed, or there is nothing
	}{
		{"f", []bpf.Slot{pointer, object, {Kind: bpf.SlotWord, Word: 1, Width: 8, Signed: true, Off: 32, Size: 8, Index: 2}},
			[]bpf.Slot{{Kind: bpf.SlotWord, Word: bpf.ResultWord, Width: 8, Signed: true, Size: 8}}},
		{"f(file)", []bpf.Slot{pointer, object}, nil},
		{"f(file->flags)", []bpf.Slot{{Kind: bpf.SlotLoad, Width: 4, Size: 8}}, nil},
		{"f(user(file)->flags)", []bpf.Slot{{Kind: bpf.SlotLoad, Width: 4, Size: 8, User: true}}, nil},
		{"f(file->pos)", nil, nil}, // not where the pointer points to
		{"f(n + 1)", nil, nil},
		{"f(n, $pid)", nil, nil},
		{"f(file, return < 0)", []bpf.Slot{pointer, object}, // in one record
			[]bpf.Slot{{Kind: bpf.SlotWord, Word: bpf.ResultWord, Width: 8, Signed: true, Off: 32, Size: 8, Index: 2}}},
		{"f(n, return < 0)", []bpf.Slot{{Kind: bpf.SlotWord, Word: 1, Width: 8, Signed: true, Size: 8}},
			[]bpf.Slot{{Kind: bpf.SlotWord, Word: bpf.ResultWord, Width: 8, Signed: true, Off: 8, Size: 8, Index: 1}}},
		{"f(n + 1, return < 0)", nil, []bpf.Slot{{Kind: bpf.SlotWord, Word: bpf.ResultWord, Width: 8, Signed: true, Off: 8, Size: 8, Index: 1}}},
	} {
		p := planned(t, c.spec, layout.MethodKprobe)
		for i, half := range []*layout.Half{p.Entry, p.Return} {
			want := [][]bpf.Slot{c.entry, c.ret}[i]
			list, ok := List(p, half, Options{Arch: "amd64", Shared: true})
			if ok != (want != nil) {
				t.Errorf("%s, half %d: a list: %t", c.spec, i, ok)
			}
			record := half
			if p.Joined {
				record = p.Return
			}
			if ok && list.Size != record.Record.Size {
				t.Errorf("%s: %d bytes, the record has %d", c.spec, list.Size, record.Record.Size)
			}
			if diff := cmp.Diff(want, list.Slots, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, half %d (-want +got):\n%s", c.spec, i, diff)
			}
			if _, ok := List(p, half, Options{Arch: "amd64"}); ok {
				t.Errorf("%s: a list for a program that is not shared", c.spec)
			}
		}
	}
}

// TestListPlace: the place of a call is in front of the values, and takes a slot of the list.
func TestListPlace(t *testing.T) {
	for _, owner := range []layout.Owner{0, layout.OwnerUID} {
		p := planned(t, "f(n, return)", layout.MethodKprobe)
		p.Method, p.Placed, p.Owner = layout.MethodUprobe, true, owner
		if err := p.Lay(); err != nil {
			t.Fatal(err)
		}
		front := uint32(0)
		if owner != 0 {
			front = layout.OwnerSize
		}
		for i, half := range []*layout.Half{p.Entry, p.Return} {
			want := []bpf.Slot{{Kind: bpf.SlotWord, Word: bpf.PlaceWord, Width: 8, Off: front, Size: 8},
				{Kind: bpf.SlotWord, Word: []int{1, bpf.ResultWord}[i], Width: 8, Signed: true, Off: front + 8, Size: 8}}
			list, ok := List(p, half, Options{Arch: "amd64", Shared: true})
			if diff := cmp.Diff(want, list.Slots); !ok || diff != "" || list.Size != half.Record.Size {
				t.Errorf("half %d: a list: %t, of %d bytes (-want +got):\n%s", i, ok, list.Size, diff)
			}
			for len(half.Stores) < bpf.MaxListed {
				half.Stores = append(half.Stores, half.Stores[0])
			}
			if _, ok := List(p, half, Options{Arch: "amd64", Shared: true}); ok {
				t.Errorf("half %d: a list of %d values and the place", i, len(half.Stores))
			}
		}
	}
}

// TestListOnStack: the engine reads words that a call is passed on the stack from the kernel's. Those of a
// function of user space are on another one.
func TestListOnStack(t *testing.T) {
	for method, want := range map[layout.Method]bool{layout.MethodKprobe: true, layout.MethodUprobe: false} {
		p := planned(t, "f(n)", layout.MethodKprobe)
		p.Method, p.Params[1].Loc = method, layout.Loc{Slots: 1, Slot: 6, Reg: -1, Stack: 8}
		if _, ok := List(p, p.Entry, Options{Arch: "amd64", Shared: true}); ok != want {
			t.Errorf("by %s: a list: %t", method, ok)
		}
	}
}

// TestListKey: what entry keeps for a key is stored by generated code unless it takes all of its room. The engine copies its buffer, and
// what is left there from another call would make two keys of one.
func TestListKey(t *testing.T) {
	for spec, want := range map[string]bool{"f(count()[file, return])": true, "f(count()[*file, return])": false, "f(count()[n, return])": true} {
		p := planned(t, spec, layout.MethodKprobe)
		if len(p.Entry.Stores) == 0 {
			t.Fatalf("%s: entry keeps nothing", spec)
		}
		if _, ok := List(p, p.Entry, Options{Arch: "amd64", Shared: true}); ok != want {
			t.Errorf("%s: a list: %t", spec, ok)
		}
	}
}
