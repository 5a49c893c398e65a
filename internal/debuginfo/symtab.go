// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A Symbol is a function of the file's symbol table.
type Symbol struct {
	Name string
	Addr uint64 // with the slide
	Size uint64
}

// A symbolTable holds the raw symbols. The first look-ups scan it, which takes a
// millisecond for a kernel; after some of them it is sorted.
type symbolTable struct {
	symbols, names []byte
	bases          []uint64 // of sections, in files whose symbols are relative to them
	lookups        atomic.Int32
	touch          func() // runs once, before the whole table is read
	sorted         func() []tableSymbol
}

type tableSymbol struct {
	addr, size uint64
	name       uint32
	// below is the number, from 1 on, of the last symbol before this one of the sorted table that extends beyond
	// its beginning, as far as the symbols between them tell; 0: there is none. See nest.
	below uint32
}

// covers reports whether the symbol contains an address.
func (s *tableSymbol) covers(addr uint64) bool { return s.addr <= addr && addr-s.addr < s.size }

// mostSymbols bounds the symbols that are read. A kernel has 200,000.
const mostSymbols = 1 << 24

// newSymbolTable finds the symbol table of a file, which may have none.
func newSymbolTable(f *elfFile, bases []uint64) (*symbolTable, error) {
	t := &symbolTable{touch: func() {}}
	t.sorted = sync.OnceValue(func() []tableSymbol {
		all := t.sort()
		nest(all)
		return all
	})
	// strip leaves the dynamic symbols.
	if !t.read(f, elf.SHT_SYMTAB) {
		t.read(f, elf.SHT_DYNSYM)
	}
	if f.Type == elf.ET_REL {
		t.bases = bases
	}
	if n := len(t.symbols) / symbolSize; n > mostSymbols {
		return nil, fmt.Errorf("%d symbols, the most are %d", n, mostSymbols)
	}
	return t, nil
}

// read takes the first readable table of this kind. Without a table, addresses have no
// names.
func (t *symbolTable) read(f *elfFile, kind elf.SectionType) bool {
	for _, s := range f.Sections {
		if s.Type != kind || int(s.Link) >= len(f.Sections) {
			continue
		}
		symbols, err := f.contents(s)
		if err != nil || len(symbols) <= symbolSize { // the first entry is not a symbol
			continue
		}
		names, err := f.contents(f.Sections[s.Link])
		if err != nil {
			continue
		}
		t.symbols, t.names = symbols, names
		t.touch = sync.OnceFunc(func() {
			touch(f.data, symbols)
			touch(f.data, names)
		})
		return true
	}
	return false
}

// each yields functions until yield returns false.
func (t *symbolTable) each(yield func(tableSymbol) bool) {
	t.touch()
	for b := t.symbols; len(b) >= symbolSize; b = b[symbolSize:] {
		// Labels in assembler code often have no type.
		kind := elf.ST_TYPE(b[4])
		if kind != elf.STT_FUNC && kind != elf.STT_NOTYPE {
			continue
		}
		s := tableSymbol{
			name: binary.LittleEndian.Uint32(b),
			addr: binary.LittleEndian.Uint64(b[8:]),
			size: binary.LittleEndian.Uint64(b[16:]),
		}
		section := binary.LittleEndian.Uint16(b[6:])
		if section == 0 || s.name == 0 {
			continue
		}
		if int(section) < len(t.bases) {
			s.addr += t.bases[section]
		}
		if !yield(s) {
			return
		}
	}
}

// sort returns the symbols sorted by address; those of one address keep their order. If
// addresses differ in their lower 32 bits only, as a kernel's do, it uses a radix sort,
// which is five times as fast as comparing.
func (t *symbolTable) sort() []tableSymbol {
	n := 0
	for s := range t.each {
		if s.size > 0 {
			n++
		}
	}
	all := make([]tableSymbol, 0, n)
	near := true
	for s := range t.each {
		if s.size > 0 {
			all = append(all, s)
			near = near && s.addr>>32 == all[0].addr>>32
		}
	}
	if !near {
		slices.SortStableFunc(all, func(a, b tableSymbol) int { return compare(a.addr, b.addr) })
		return all
	}
	const digit = 11 // bits
	other := make([]tableSymbol, len(all))
	for shift := 0; shift < 32; shift += digit {
		var next [1 << digit]int
		for i := range all {
			next[all[i].addr&(1<<32-1)>>shift&(1<<digit-1)]++
		}
		sum := 0
		for d, n := range next {
			next[d], sum = sum, sum+n
		}
		for i := range all {
			d := all[i].addr & (1<<32 - 1) >> shift & (1<<digit - 1)
			other[next[d]] = all[i]
			next[d]++
		}
		all, other = other, all
	}
	return all
}

// nest finds for each sorted symbol the one to look at next for an address that it does not contain, or not alone:
// functions of assembler code may be within others.
func nest(all []tableSymbol) {
	last := uint32(0)
	for i := range all {
		for last > 0 && !all[last-1].covers(all[i].addr) {
			last = all[last-1].below // it covers none of what follows either
		}
		all[i].below = last
		last = uint32(i + 1)
	}
}

// covering yields the functions that contain an address: those that begin last first, and those that begin at the same
// address in the order of the table.
func (t *symbolTable) covering(addr uint64) iter.Seq[tableSymbol] {
	return func(yield func(tableSymbol) bool) {
		const few = 2
		if t.lookups.Add(1) <= few {
			if found, all := t.scan(addr); all {
				for i := range found {
					if !yield(found[i]) {
						return
					}
				}
				return
			}
		}
		all := t.sorted()
		n, _ := slices.BinarySearchFunc(all, addr, func(s tableSymbol, addr uint64) int {
			if s.addr <= addr {
				return -1
			}
			return 1
		})
		for n > 0 {
			first := n
			for first > 1 && all[first-2].addr == all[n-1].addr {
				first--
			}
			for i := first - 1; i < n; i++ {
				if all[i].covers(addr) && !yield(all[i]) {
					return
				}
			}
			n = int(all[first-1].below)
		}
	}
}

// scan is covering in a table that is not sorted. It returns false if they are many.
func (t *symbolTable) scan(addr uint64) (found []tableSymbol, ok bool) {
	const many = 1 << 10
	for s := range t.each {
		if !s.covers(addr) {
			continue
		}
		if len(found) == many {
			return nil, false
		}
		found = append(found, s)
	}
	slices.SortStableFunc(found, func(a, b tableSymbol) int { return compare(b.addr, a.addr) })
	return found, true
}

func (t *symbolTable) name(s tableSymbol) string { return string(textAt(t.names, uint64(s.name))) }

// Outermost returns the symbol table's name for a function that debug info calls name, or
// "". The compiler's copies of a function have a suffix there, as in kallsyms:
// "ip_finish_output.part.0".
func (i *Info) Outermost(addr uint64, name string) (found string) {
	defer i.recovered(debug.SetPanicOnFault(true))
	found = name
	if i.Err() != nil {
		return name
	}
	addr -= i.options.slide
	for s := range i.symbols.covering(addr) {
		symbol := i.symbols.name(s)
		if symbol == name {
			return name
		}
		if name == "" && found == "" || name != "" && strings.HasPrefix(symbol, name+".") {
			found = symbol
		}
	}
	return found
}

// SymbolNamed returns the first symbol called name.
func (i *Info) SymbolNamed(name string) (symbol Symbol, ok bool) {
	defer i.recovered(debug.SetPanicOnFault(true))
	if i.Err() != nil {
		return Symbol{}, false
	}
	want := name + "\x00"
	names := i.symbols.names
	for s := range i.symbols.each {
		if int(s.name) < len(names) && len(names)-int(s.name) >= len(want) && string(names[s.name:][:len(want)]) == want {
			return Symbol{name, s.addr + i.options.slide, s.size}, true
		}
	}
	return Symbol{}, false
}

// FunctionsNamed returns the functions of the symbol table with one of the names, by
// address.
func (i *Info) FunctionsNamed(names map[string]bool) (found map[string][]Symbol) {
	defer i.recovered(debug.SetPanicOnFault(true))
	found = map[string][]Symbol{}
	if i.Err() != nil {
		return found
	}
	for s := range i.symbols.each {
		if name := textAt(i.symbols.names, uint64(s.name)); s.size > 0 && names[string(name)] {
			found[string(name)] = append(found[string(name)], Symbol{string(name), s.addr + i.options.slide, s.size})
		}
	}
	for _, symbols := range found {
		slices.SortFunc(symbols, func(a, b Symbol) int { return compare(a.Addr, b.Addr) })
	}
	return found
}

// SymbolAt returns the function of the symbol table that contains an address.
func (i *Info) SymbolAt(addr uint64) (symbol Symbol, ok bool) {
	defer i.recovered(debug.SetPanicOnFault(true))
	if i.Err() != nil {
		return Symbol{}, false
	}
	slide := i.options.slide
	for s := range i.symbols.covering(addr - slide) {
		return Symbol{i.symbols.name(s), s.addr + slide, s.size}, true
	}
	return Symbol{}, false
}

// SlideTo computes the slide from the address of _stext in the running kernel. It returns
// false if the file lacks that symbol.
func (i *Info) SlideTo(stext uint64) bool {
	i.options.slide = 0
	s, ok := i.SymbolNamed("_stext")
	if ok {
		i.options.slide = stext - s.Addr
	}
	return ok
}
