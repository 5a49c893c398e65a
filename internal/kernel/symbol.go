// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"sort"
)

// A Symbol is what an address belongs to.
type Symbol struct {
	Name   string
	Module string // "" for vmlinux
	Addr   uint64 // where the symbol begins
	Offset uint64 // of the address within it
	Size   uint64 // an upper bound: what lies between it and the next symbol
}

// String returns the form of the kernel's %pS: "ip_send_skb+0x10/0x50 [mod]".
func (s Symbol) String() string {
	text := fmt.Sprintf("%s+%#x/%#x", s.Name, s.Offset, s.Size)
	if s.Module != "" {
		text += " [" + s.Module + "]"
	}
	return text
}

const (
	// page is the smallest unit in which the kernel hands out memory for code.
	page = 4096
	// lastSymbol is what the last symbol before a gap may at most span beyond
	// its page. Without a bound, memory that has no symbol, a trampoline for
	// example, would be given the name of code far away.
	lastSymbol = 4 * page
)

// Symbol tells what addr belongs to. It is false for an address outside of all
// symbols, and for every address if the kernel hides them; see Symbols.
func (v *View) Symbol(addr uint64) (Symbol, bool) {
	t, err := v.symbols()
	if err != nil {
		return Symbol{}, false
	}
	return t.find(addr)
}

// SymbolNamed returns the first symbol of that name, in vmlinux if it is there,
// or in the given module if that is not "". It is false if there is none, and if
// the kernel hides addresses; see Symbols.
func (v *View) SymbolNamed(name, module string) (Symbol, bool) {
	t, err := v.symbols()
	if err != nil {
		return Symbol{}, false
	}
	var found *symbol
	for i := range t.symbols {
		s := &t.symbols[i]
		if s.addr == 0 || int(s.size) != len(name) || t.name(s) != name || module != "" && t.module(s) != module {
			continue
		}
		if found == nil || s.module == 0 {
			found = s
		}
		if s.module == 0 || module != "" {
			break
		}
	}
	if found == nil {
		return Symbol{}, false
	}
	return Symbol{Name: name, Module: t.module(found), Addr: found.addr}, true
}

// Symbols says why Symbol finds nothing: nil if there are symbols with their
// addresses, else an *AccessError.
func (v *View) Symbols() error {
	t, err := v.symbols()
	if err != nil {
		return err
	}
	if t.hidden() {
		return &AccessError{File: kallsymsFile, Need: "run as root", Give: "addresses of functions", Err: errHidden}
	}
	return nil
}

func (t *symbolTable) find(addr uint64) (Symbol, bool) {
	order := t.sorted()
	next := sort.Search(len(order), func(i int) bool { return t.symbols[order[i]].addr > addr })
	if next == 0 {
		return Symbol{}, false
	}
	start := t.symbols[order[next-1]].addr
	first := sort.Search(next, func(i int) bool { return t.symbols[order[i]].addr >= start })
	s := &t.symbols[order[first]]
	end := (start + page) &^ (page - 1)
	if s.module == 0 || s.text() {
		end += lastSymbol // what follows a module's data may be a trampoline
	}
	if next < len(order) {
		n := &t.symbols[order[next]]
		// Inside of vmlinux one symbol follows the other.
		if n.addr < end || s.module == 0 && n.module == 0 {
			end = n.addr
		}
	}
	if addr >= end {
		return Symbol{}, false
	}
	return Symbol{Name: t.name(s), Module: t.module(s), Addr: start, Offset: addr - start, Size: end - start}, true
}
