// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A symbolTable is the contents of /proc/kallsyms. A kernel has 150,000 symbols, so all
// names are in one string, in the order of the file.
type symbolTable struct {
	names   string
	symbols []symbol
	modules []string        // modules[0] is "", for vmlinux
	sorted  func() []uint32 // indexes of symbols in memory, by address
	named   func() []uint32 // indexes of symbols by name

	searches atomic.Int32 // number of searches for names so far
}

// MaxSymbols bounds a table. A symbol takes some 40 bytes and its name. A kernel with
// everything configured has fewer than a million.
const MaxSymbols = 2 << 20

type symbol struct {
	addr   uint64 // 0 if addresses are hidden
	name   uint32 // offset in names
	size   uint16 // of the name, in bytes
	module uint16 // index in modules
	kind   byte   // letter as in nm(1)
}

func (t *symbolTable) name(s *symbol) string { return t.names[s.name:][:s.size] }

func (t *symbolTable) module(s *symbol) string { return t.modules[s.module] }

// loaded returns the modules that have symbols.
func (t *symbolTable) loaded() (names []string) {
	for _, m := range t.modules {
		if m != "" && !noModule(m) {
			names = append(names, m)
		}
	}
	return names
}

// hidden reports whether the file shows no addresses.
func (t *symbolTable) hidden() bool {
	return !slices.ContainsFunc(t.symbols, func(s symbol) bool { return s.addr != 0 && s.kind|0x20 != 'a' })
}

// text reports whether a symbol is code.
func (s *symbol) text() bool {
	switch s.kind {
	case 't', 'T', 'w', 'W':
		return true
	}
	return false
}

// parseSymbols parses lines such as
//
//	ffffffff81a3c0f0 T ip_send_skb
//	ffffffffc0a1e010 t nf_nat_inet_fn	[nf_nat]
//
// and keeps those whose names are wanted; nil means all.
func parseSymbols(r io.Reader, wanted func(name []byte) bool) (*symbolTable, error) {
	t := &symbolTable{modules: []string{""}}
	index := map[string]uint16{"": 0}
	var names strings.Builder
	in := bufio.NewReaderSize(r, 64<<10)
	for line := 1; ; line++ {
		text, err := in.ReadSlice('\n')
		if err != nil && (err != io.EOF || len(text) == 0) {
			if err == io.EOF {
				break
			}
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if wanted != nil && !wanted(symbolName(text)) {
			continue
		}
		s, name, module, ok := parseSymbol(text)
		if !ok {
			return nil, fmt.Errorf("line %d: not a symbol", line)
		}
		if names.Len()+len(name) > math.MaxUint32 || len(t.symbols) == MaxSymbols {
			return nil, errors.New("too many symbols")
		}
		m, known := index[string(module)] // without making a string of it
		if !known {
			if m, err = t.moduleIndex(index, string(module)); err != nil {
				return nil, err
			}
		}
		s.name, s.size, s.module = uint32(names.Len()), uint16(len(name)), m
		names.Write(name)
		t.symbols = append(t.symbols, s)
	}
	t.names = names.String()
	t.sorted, t.named = sync.OnceValue(t.byAddress), sync.OnceValue(t.byName)
	return t, nil
}

// What SymbolSearch.All lists.
const (
	ListedModule = 0x80 // in the letter of a kind
	ListedName   = 431  // the room for a name and its NUL; the kernel has 512
	listedHead   = 9    // before the name
)

// parseSymbolList makes a table of what SymbolSearch.All lists. The table's names are those
// in the list.
func parseSymbolList(r io.Reader) (*symbolTable, error) {
	var list strings.Builder
	list.Grow(8 << 20)
	if _, err := io.Copy(&list, r); err != nil {
		return nil, err
	}
	text := list.String()
	if len(text) > math.MaxUint32 {
		return nil, errors.New("too many symbols")
	}
	t := &symbolTable{modules: []string{""}, names: text, symbols: make([]symbol, 0, 1<<18)}
	index := map[string]uint16{}
	for at := 0; at < len(text); {
		rest := text[at:]
		n := -1
		if len(rest) > listedHead {
			n = strings.IndexByte(rest[listedHead:], 0)
		}
		if n < 1 || n >= ListedName-1 || len(t.symbols) == MaxSymbols {
			return nil, fmt.Errorf("symbol %d is cut off", len(t.symbols))
		}
		s := symbol{addr: binary.NativeEndian.Uint64([]byte(rest[:8])), name: uint32(at + listedHead), size: uint16(n), kind: rest[8] &^ ListedModule}
		at += listedHead + n + 1
		if rest[8]&ListedModule != 0 {
			module, _, ok := strings.Cut(text[at:], "\x00")
			if !ok || module == "" {
				return nil, fmt.Errorf("symbol %d is cut off", len(t.symbols))
			}
			at += len(module) + 1
			var err error
			if s.module, err = t.moduleIndex(index, module); err != nil {
				return nil, err
			}
		}
		t.symbols = append(t.symbols, s)
	}
	if len(t.symbols) == 0 {
		return nil, errors.New("no symbols")
	}
	t.sorted, t.named = sync.OnceValue(t.byAddress), sync.OnceValue(t.byName)
	return t, nil
}

// moduleIndex returns where a module is in t.modules, to which it adds a new one. index has
// those that are there.
func (t *symbolTable) moduleIndex(index map[string]uint16, module string) (uint16, error) {
	m, known := index[module]
	switch {
	case known:
		return m, nil
	case len(t.modules) > math.MaxUint16:
		return 0, errors.New("too many modules")
	}
	m = uint16(len(t.modules))
	t.modules = append(t.modules, module)
	index[module] = m
	return m, nil
}

// symbolName returns the name in a line, or nil if the line is malformed.
func symbolName(line []byte) []byte {
	digits := bytes.IndexByte(line, ' ')
	if digits < 0 || len(line) < digits+4 {
		return nil
	}
	name := bytes.TrimSuffix(line[digits+3:], []byte("\n"))
	if tab := bytes.IndexByte(name, '\t'); tab >= 0 {
		name = name[:tab]
	}
	return name
}

// parseSymbol splits a line. The parts share its memory.
func parseSymbol(line []byte) (s symbol, name, module []byte, ok bool) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	digits := bytes.IndexByte(line, ' ')
	if digits < 1 || digits > 16 || len(line) < digits+4 || line[digits+2] != ' ' {
		return s, nil, nil, false
	}
	for _, c := range line[:digits] {
		d, ok := hexDigit(c)
		if !ok {
			return s, nil, nil, false
		}
		s.addr = s.addr<<4 | d
	}
	s.kind = line[digits+1]
	name = line[digits+3:]
	if tab := bytes.IndexByte(name, '\t'); tab >= 0 {
		name, module = name[:tab], name[tab+1:]
		if len(module) < 3 || module[0] != '[' || module[len(module)-1] != ']' {
			return s, nil, nil, false
		}
		module = module[1 : len(module)-1]
	}
	return s, name, module, len(name) > 0 && len(name) <= math.MaxUint16
}

func hexDigit(c byte) (uint64, bool) {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0'), true
	case 'a' <= c && c <= 'f':
		return uint64(c-'a') + 10, true
	}
	return 0, false
}

// byAddress returns the indexes of symbols that have an address in memory, sorted by
// address. Symbols of one address keep their order: %pS in the kernel prints the first.
func (t *symbolTable) byAddress() []uint32 {
	order := make([]uint32, 0, len(t.symbols))
	for i := range t.symbols {
		// Absolute symbols are numbers, such as offsets in per-CPU memory.
		if s := &t.symbols[i]; s.addr != 0 && s.kind|0x20 != 'a' {
			order = append(order, uint32(i))
		}
	}
	slices.SortFunc(order, func(a, b uint32) int {
		if c := cmp.Compare(t.symbols[a].addr, t.symbols[b].addr); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	return order
}

// byName returns the indexes of the symbols, sorted by name and then by position.
func (t *symbolTable) byName() []uint32 {
	type named struct {
		start uint64 // of the name, as a big-endian number: most names differ in it
		i     uint32
	}
	names := make([]named, len(t.symbols))
	for i := range names {
		var start [8]byte
		copy(start[:], t.name(&t.symbols[i]))
		names[i] = named{binary.BigEndian.Uint64(start[:]), uint32(i)}
	}
	slices.SortFunc(names, func(a, b named) int {
		if c := cmp.Compare(a.start, b.start); c != 0 {
			return c
		}
		if c := strings.Compare(t.name(&t.symbols[a.i]), t.name(&t.symbols[b.i])); c != 0 {
			return c
		}
		return cmp.Compare(a.i, b.i)
	})
	order := make([]uint32, len(names))
	for i := range names {
		order[i] = names[i].i
	}
	return order
}

// code returns the symbols of code whose names have a prefix, in no order.
func (t *symbolTable) code(prefix string) []uint32 {
	return t.onlyCode(t.beginning(prefix, func(s string) bool { return strings.HasPrefix(s, prefix) }))
}

func (t *symbolTable) onlyCode(symbols []uint32) []uint32 {
	return slices.DeleteFunc(slices.Clone(symbols), func(i uint32) bool { return !t.symbols[i].text() })
}

// called returns the symbols of code with this name.
func (t *symbolTable) called(name string) []uint32 { return t.onlyCode(t.all(name)) }

// all returns the symbols with this name, of code or not.
func (t *symbolTable) all(name string) []uint32 {
	return t.beginning(name, func(s string) bool { return s == name })
}

// copiesOf returns the compiler's copies of a function.
func (t *symbolTable) copiesOf(name string) []uint32 {
	dot := name + "."
	return slices.DeleteFunc(t.code(dot), func(i uint32) bool {
		base, ok := copyOf(t.name(&t.symbols[i]))
		return !ok || base != name
	})
}

// fewNames is how many names are searched for in the unsorted table. Sorting costs as much
// as some sixty searches.
const fewNames = 32

// beginning returns the symbols, from name on in sorted order, for as long as meant returns
// true.
func (t *symbolTable) beginning(name string, meant func(string) bool) []uint32 {
	if t.searches.Add(1) <= fewNames {
		return t.search(meant)
	}
	order := t.named()
	first, _ := slices.BinarySearchFunc(order, name, func(i uint32, name string) int {
		return strings.Compare(t.name(&t.symbols[i]), name)
	})
	end := first
	for end < len(order) && meant(t.name(&t.symbols[order[end]])) {
		end++
	}
	return order[first:end]
}

// search returns the symbols for whose names meant returns true, in the order of the table.
func (t *symbolTable) search(meant func(string) bool) (found []uint32) {
	for i := range t.symbols {
		if meant(t.name(&t.symbols[i])) {
			found = append(found, uint32(i))
		}
	}
	return found
}

// at returns the symbols at an address.
func (t *symbolTable) at(addr uint64) []uint32 {
	order := t.sorted()
	first, _ := slices.BinarySearchFunc(order, addr, func(i uint32, addr uint64) int { return cmp.Compare(t.symbols[i].addr, addr) })
	end := first
	for end < len(order) && t.symbols[order[end]].addr == addr {
		end++
	}
	return order[first:end]
}

// function converts a symbol to a Function.
func (t *symbolTable) function(i uint32) Function {
	s := &t.symbols[i]
	return Function{Name: t.name(s), Module: t.module(s), Addr: s.addr}
}
