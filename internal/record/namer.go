// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// A namer finds the symbols of all addresses that a print of records may name. Printing
// names whatever a pointer or a stack holds, so every 8 bytes of a record count that could
// be an address, wherever they begin.
type namer struct {
	view *kernel.View
	text []byte // lines of symbols that are not recorded yet
	// known has the addresses at which recorded symbols begin.
	known map[uint64]struct{}
	// recent has addresses that were looked up.
	recent [1 << recentBits]uint64
}

const recentBits = 12

// newNamer returns a namer. The first symbols are those of the places where p is attached.
func newNamer(view *kernel.View, p *plan.Plan) *namer {
	n := &namer{view: view, known: make(map[uint64]struct{})}
	for _, probe := range p.Probes {
		if s, ok := view.Symbol(probe.Func.Addr + probe.Hook.Offset); ok {
			n.keep(s)
		}
	}
	return n
}

// highest are the uppermost bytes of every address of code and data of the kernel and its
// modules: amd64 has them from 0xffffffff80000000 on, arm64 from 0xffff800000000000.
var highest = []byte{0xff, 0xff}

// scan looks for addresses in a record.
func (n *namer) scan(raw []byte) {
	const before = 8 - 2 // bytes of an address before the highest
	for at := before; at < len(raw); at++ {
		next := bytes.Index(raw[at:], highest)
		if next < 0 {
			return
		}
		at += next
		addr := binary.LittleEndian.Uint64(raw[at-before:])
		if slot := &n.recent[addr*0x9e3779b97f4a7c15>>(64-recentBits)]; *slot != addr {
			*slot = addr
			n.add(addr)
		}
	}
}

// add adds the symbol at an address. A return address may be where the next function
// begins; then the call, in the function before, is what is named.
func (n *namer) add(addr uint64) {
	s, ok := n.view.Symbol(addr)
	if !ok || s.Offset == 0 {
		if before, ok := n.view.Symbol(addr - 1); ok {
			n.keep(before)
		}
	}
	if ok {
		n.keep(s)
	}
}

// keep adds a symbol that is not recorded yet.
func (n *namer) keep(s kernel.Symbol) {
	if _, ok := n.known[s.Addr]; ok {
		return
	}
	n.known[s.Addr] = struct{}{}
	if _, ok := n.view.Symbol(s.Addr + 1); !ok {
		s.Size = 1 // a table of kallsyms, which names nothing behind its beginning
	}
	n.text = kernel.AppendSymbol(n.text, s)
}
