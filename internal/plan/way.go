// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"github.com/ksnoop/ksnoop/internal/code"
)

// A Way is what it takes to tell which way calls of a function go: its code, as it was in memory,
// and where probes see them pass. It never changes.
type Way struct {
	Code code.Function
	// Refused are the instructions that take no probe.
	Refused []uint64 `json:",omitempty"`

	graph *code.Graph
	sites []code.Site
}

// NewWay finds the blocks of a function, and where to probe it.
func NewWay(f code.Function, refused []uint64) (*Way, error) {
	w := &Way{Code: f, Refused: refused}
	return w, w.Restore()
}

// Restore finds the blocks and sites of a way that was stored without them.
func (w *Way) Restore() (err error) {
	if w.graph != nil {
		return nil
	}
	if w.graph, err = code.NewGraph(&w.Code); err != nil {
		return err
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
