// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// A Way is what it takes to tell which way calls of a function go: its code, as it was in memory,
// and where probes see them pass. It never changes.
type Way struct {
	Code code.Function
	// Refused are the instructions that take no probe.
	Refused []uint64 `json:",omitempty"`
	// Callees are the functions that it calls, as far as something is known of them.
	Callees code.Callees `json:",omitempty"`
	// Syscall are the parameters of the system call that it serves, of which it gets the saved
	// registers.
	Syscall []kernel.Field `json:",omitempty"`
	// Notes are what debug info says of the instructions that decide, by address.
	Notes []Note `json:",omitempty"`

	graph *code.Graph
	sites []code.Site
}

// NewWay finds the blocks of a function, and where to probe it.
func NewWay(f code.Function, refused []uint64) (*Way, error) {
	w := &Way{Code: f, Refused: refused}
	return w, w.Restore()
}

var errUnsorted = errors.New("what is known of its code is not in order")

// A Note is what debug info says of an instruction that decides: a conditional jump, or one that
// makes a value by a condition.
type Note struct {
	Addr uint64
	// Lines are where it is in the source, innermost inlined call first.
	Lines []Line `json:",omitempty"`
	// Text is the first of these lines; "" if the source is not at hand.
	Text string `json:",omitempty"`
	// Names are what the source calls the operands of the site, by their index. What has no name
	// there has none here.
	Names []Name `json:",omitempty"`
}

// A Line is a place in the source.
type Line struct {
	Inlined string `json:",omitempty"` // the function, if it is inlined
	Place   string // kernel/bpf/arraymap.c:58:29
}

// A Name is what the source calls a value.
type Name struct {
	Text  string     `json:",omitempty"`
	Class code.Class `json:",omitzero"`
	Mask  uint64     `json:",omitempty"` // of a bit field: its bits
	At    uint32     `json:",omitempty"` // how many bytes of it lie before what was read
	// Others are what else may be meant: members of a union at the same place.
	Others []string `json:",omitempty"`
}

// ClassOf returns what matters of a type; nil is one that is not known.
func ClassOf(t btf.Type) (c code.Class) {
	if t == nil {
		return c
	}
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Pointer:
		return code.Class{Size: 8, Pointer: true}
	case *btf.Int:
		return code.Class{Size: int(t.Size), Signed: t.Encoding == btf.Signed, Bool: t.Encoding == btf.Bool}
	case *btf.Enum:
		return code.Class{Size: int(t.Size), Signed: t.Signed}
	}
	return c
}

// Note returns what is noted of an instruction; nil if nothing is.
func (w *Way) Note(addr uint64) *Note {
	i, ok := slices.BinarySearchFunc(w.Notes, addr, func(n Note, addr uint64) int { return cmp.Compare(n.Addr, addr) })
	if !ok {
		return nil
	}
	return &w.Notes[i]
}

// Refuse returns the way where some more instructions take no probe.
func (w *Way) Refuse(bad []uint64) (*Way, error) {
	r := &Way{Code: w.Code, Refused: slices.Concat(w.Refused, bad), Callees: w.Callees, Syscall: w.Syscall, Notes: w.Notes}
	return r, r.Restore()
}

// Annotated returns the way with notes, in any order.
func (w *Way) Annotated(notes []Note) *Way {
	a := *w
	a.Notes = slices.SortedFunc(slices.Values(notes), func(a, b Note) int { return cmp.Compare(a.Addr, b.Addr) })
	return &a
}

// Restore finds the blocks and sites of a way that was stored without them.
func (w *Way) Restore() (err error) {
	if w.graph != nil {
		return nil
	}
	if w.graph, err = code.NewGraph(&w.Code); err != nil {
		return err
	}
	if !slices.IsSortedFunc(w.Callees, func(a, b code.Callee) int { return cmp.Compare(a.Addr, b.Addr) }) ||
		!slices.IsSortedFunc(w.Notes, func(a, b Note) int { return cmp.Compare(a.Addr, b.Addr) }) {
		return errUnsorted
	}
	no := slices.Sorted(slices.Values(w.Refused))
	w.sites = w.graph.Sites(func(addr uint64) bool {
		_, found := slices.BinarySearch(no, addr)
		return found
	})
	slices.SortFunc(w.sites, func(a, b code.Site) int { return cmp.Compare(a.Addr, b.Addr) })
	return nil
}

// Graph returns the blocks.
func (w *Way) Graph() *code.Graph { return w.graph }

// Sites returns where the probes are. Records know them by their index here.
func (w *Way) Sites() []code.Site { return w.sites }
