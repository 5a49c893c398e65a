// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Symbol says what an address belongs to.
type Symbol struct {
	Name   string
	Module string // "" for vmlinux
	Addr   uint64 // start of the symbol
	Offset uint64 // of the address in it, in bytes
	Size   uint64 // upper bound: up to the next symbol
}

// String returns the symbol in the form of the kernel's %pS: "ip_send_skb+0x10/0x50 [mod]".
func (s Symbol) String() string {
	text := fmt.Sprintf("%s+%#x/%#x", s.Name, s.Offset, s.Size)
	if s.Module != "" {
		text += " [" + s.Module + "]"
	}
	return text
}

const (
	// page is the unit in which the kernel allocates memory for code.
	page = 4096
	// lastSymbol bounds how far the last symbol before a gap extends beyond its page.
	// Otherwise memory without symbols, such as a trampoline, would get the name of code
	// far away.
	lastSymbol = 4 * page
	// errorPointers is where pointers begin that are error numbers, and name nothing.
	errorPointers = 1<<64 - page
)

// kallsymsFile is where the kernel lists its symbols.
const kallsymsFile = "proc/kallsyms"

// modulesFile is where the kernel lists its modules.
const modulesFile = "proc/modules"

// A symbolSource reads a table of symbols on first use.
type symbolSource struct {
	get     func() (*symbolTable, error)
	modules string // that were there just before; set when done
	done    atomic.Bool
}

var errHidden = errors.New("addresses are hidden")

// symbols returns the table of symbols. It is read on first use.
func (v *View) symbols() (*symbolTable, error) { return v.table.Load().get() }

// setSymbols makes read the source of the table of symbols.
func (v *View) setSymbols(read func() (*symbolTable, error)) {
	s := &symbolSource{}
	s.get = sync.OnceValues(func() (*symbolTable, error) {
		defer s.done.Store(true)
		s.modules = v.loadedModules()
		return read()
	})
	v.table.Store(s)
}

// functions returns a table that has all functions of vmlinux and of the modules: the one before
// Renew while no module has come or gone, else that of symbols. To read a table and to sort it by
// names takes longer than to attach many functions.
func (v *View) functions() (*symbolTable, error) {
	if old := v.before.Load(); v.hasFunctions(old) {
		return old.get()
	}
	return v.symbols()
}

// hasFunctions reports whether a table that was read has the functions of all modules that there are now.
func (v *View) hasFunctions(s *symbolSource) bool {
	if s == nil || s.modules == "" || s.modules != v.loadedModules() {
		return false
	}
	_, err := s.get()
	return err == nil
}

// loadedModules returns the names of the modules, their sizes and where they lie, as text. It is empty if that is not
// known. Sizes are those of whole pages, so this does not tell a module that was built anew with as many and is loaded
// where the old one was. Its build ID would, but that is in a file of each module, and a View keeps types of modules and
// the hooks of ftrace anyway: each command opens another.
func (v *View) loadedModules() string {
	if v.root == nil {
		return ""
	}
	text, err := fs.ReadFile(v.root, modulesFile)
	if err != nil {
		return ""
	}
	places := []byte("\n") // a kernel may have none
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) >= 6 { // name, size, uses, users, state, address
			for _, i := range []int{0, 1, 5} {
				places = append(append(places, f[i]...), ' ')
			}
			places = append(places, '\n')
		}
	}
	return string(places)
}

func (v *View) readSymbols() (*symbolTable, error) {
	if t, err := v.listSymbols(); err == nil {
		return t, nil
	}
	return v.readSymbolsWhere(nil)
}

// listSymbols has the search list all symbols, which takes a quarter of what reading the
// file takes: most of that is to print numbers and to parse them again.
func (v *View) listSymbols() (*symbolTable, error) {
	if v.search == nil {
		return nil, errors.ErrUnsupported
	}
	list, err := v.search.All()
	if err != nil {
		return nil, err
	}
	defer list.Close()
	return parseSymbolList(list)
}

// readSymbolsWhere reads the symbols whose names are wanted; nil means all.
func (v *View) readSymbolsWhere(wanted func(name []byte) bool) (*symbolTable, error) {
	f, err := v.open(kallsymsFile, "functions that BTF does not have", "the kernel must be built with CONFIG_KALLSYMS")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := parseSymbols(f, wanted)
	if err != nil {
		return nil, fmt.Errorf("reading /%s: %w", kallsymsFile, err)
	}
	return t, nil
}

// symbolsNamed returns a table with at least the symbols of some functions and of their
// copies. whole says that it has all symbols.
//
// The kernel takes some 2,000 instructions to print a symbol, and ksnoop as many to keep
// it. For a request of a few functions, that was most of the time. To look names up that
// have one symbol each takes next to nothing. A search goes through all symbols, but makes
// the kernel print few; a symbol that is not printed costs a tenth. A second search reads
// the whole table, which is cheaper from then on.
func (v *View) symbolsNamed(funcs []Function) (t *symbolTable, whole bool, err error) {
	if v.root == nil || v.pinned.Load() || v.table.Load().done.Load() || len(funcs) > fewFunctions {
		t, err = v.functions()
		return t, true, err
	}
	if t, err = v.soleSymbols(funcs); err == nil {
		return t, false, nil
	}
	if v.scanned.Swap(true) {
		t, err = v.functions()
		return t, true, err
	}
	names := map[string]bool{}
	for _, f := range funcs {
		names[f.Name] = true
		if base, ok := copyOf(f.Name); ok {
			names[base] = true
		}
	}
	wanted := func(name []byte) bool {
		if base, _, ok := bytes.Cut(name, []byte(".")); ok && names[string(base)] {
			return true
		}
		return names[string(name)]
	}
	if t, err = v.searchSymbols(slices.Sorted(maps.Keys(names)), wanted); err == nil {
		return t, false, nil
	}
	t, err = v.readSymbolsWhere(wanted)
	return t, false, err
}

// A SymbolSearch asks the running kernel for a few symbols.
type SymbolSearch interface {
	// Sole returns the symbols of some names, in their order. It fails unless each is the
	// only symbol of its name, and code of vmlinux that remains after boot.
	Sole(names []string) ([]Symbol, error)
	// All lists the symbols that /proc/kallsyms has, in its order. Of each there are the
	// address, in 8 bytes as the processor has them, the letter of its kind, and the name.
	// A letter with ListedModule is followed, behind the name, by the name of a module.
	// Names end with a NUL. A name that was cut off has ListedName bytes with it.
	All() (io.ReadCloser, error)
	// Beginning returns lines of /proc/kallsyms. All symbols whose names begin with one of
	// the texts are among them.
	Beginning(texts []string) (io.ReadCloser, error)
}

// SearchSymbols makes the view search for a few symbols instead of reading them all. If the
// search fails, the file is read.
func (v *View) SearchSymbols(search SymbolSearch) { v.search = search }

// soleSymbols returns a table of functions of vmlinux, if none of their names has another
// symbol. A copy of a function is left to a search: the original may be there, too.
func (v *View) soleSymbols(funcs []Function) (*symbolTable, error) {
	if v.search == nil {
		return nil, errors.ErrUnsupported
	}
	var names []string
	for _, f := range funcs {
		if _, isCopy := copyOf(f.Name); isCopy || f.Module != "" {
			return nil, errors.ErrUnsupported
		}
		if !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	symbols, err := v.search.Sole(names)
	if err != nil {
		return nil, err
	}
	var lines bytes.Buffer
	for _, s := range symbols {
		fmt.Fprintf(&lines, "%x t %s\n", s.Addr, s.Name)
	}
	return parseSymbols(&lines, nil)
}

// searchSymbols returns the symbols whose names begin with one of some texts.
func (v *View) searchSymbols(beginnings []string, wanted func(name []byte) bool) (*symbolTable, error) {
	if v.search == nil {
		return nil, errors.ErrUnsupported
	}
	found, err := v.search.Beginning(beginnings)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	return parseSymbols(found, wanted)
}

// fewFunctions is the largest number of functions for which the file is searched.
const fewFunctions = 16

// Renew makes the next request read the symbols again. kallsyms grows while a kernel runs.
// Attaching alone adds trampolines, and until these are known, their addresses get the name
// of what comes before them. Functions are looked up in the symbols that were read before,
// while the modules are the same. It reports whether there is anything to read again.
func (v *View) Renew() bool {
	if v.root == nil || v.pinned.Load() {
		return false
	}
	if now := v.table.Load(); now.done.Load() && !v.hasFunctions(v.before.Load()) { // else that is sorted already
		v.before.Store(now)
	}
	v.setSymbols(v.readSymbols)
	return true
}

// Pin makes text stand for /proc/kallsyms from now on, whatever the file becomes. The View
// keeps text.
func (v *View) Pin(text []byte) {
	v.pinned.Store(true)
	v.before.Store(nil)
	v.setSymbols(func() (*symbolTable, error) { return parseSymbols(bytes.NewReader(text), nil) })
}

// Symbol returns the symbol that addr belongs to. It returns false for an address outside
// of all symbols, and for every address if the kernel hides them; see Symbols.
func (v *View) Symbol(addr uint64) (Symbol, bool) {
	if r := v.ranges.Load(); r != nil {
		return r.find(addr)
	}
	s, ok, lasting := v.symbolNow(addr)
	if lasting {
		return s, ok
	}
	if before := v.generation.Load(); v.Generation() != before {
		s, ok, _ = v.symbolNow(addr)
	}
	return s, ok
}

// symbolNow is Symbol by what was read. lasting says that modules which come and go change nothing.
func (v *View) symbolNow(addr uint64) (s Symbol, ok, lasting bool) {
	if s, ok, certain := v.symbolBefore(addr); certain {
		return s, ok, true
	}
	t, err := v.symbols()
	if err != nil {
		return s, false, true
	}
	s, ok = t.find(addr)
	return s, ok, t.lasts(addr, s, ok)
}

// NamedSymbol is Symbol, if no other symbol of the kernel or the module has its name: then the kernel
// finds the address by it.
func (v *View) NamedSymbol(addr uint64) (Symbol, bool) {
	s, ok := v.Symbol(addr)
	if !ok {
		return Symbol{}, false
	}
	t, err := v.symbols()
	if err != nil {
		return Symbol{}, false
	}
	if within, _ := t.namesakes(s.Name, s.Module); within {
		return Symbol{}, false
	}
	return s, true
}

// symbolBefore looks an address up in the table that was there before Renew, while there is
// no newer one. certain says that a newer one would say the same: vmlinux stays where it is,
// and far from it there is no code. Most pointers lead to data there.
func (v *View) symbolBefore(addr uint64) (s Symbol, ok, certain bool) {
	old := v.before.Load()
	if old == nil || v.table.Load().done.Load() {
		return s, false, false
	}
	t, err := old.get()
	if err != nil {
		return s, false, false
	}
	s, ok = t.find(addr)
	return s, ok, t.lasts(addr, s, ok)
}

// SymbolNamed returns the first symbol called name, preferably in vmlinux; if module is not
// "", only in that module. It returns false if there is none, and if the kernel hides
// addresses; see Symbols.
func (v *View) SymbolNamed(name, module string) (Symbol, bool) {
	functions, err := v.functions()
	if err == nil {
		if s, ok := functions.symbolNamed(name, module); ok {
			return s, true
		}
	}
	t, err := v.symbols()
	if err != nil || t == functions {
		return Symbol{}, false
	}
	return t.symbolNamed(name, module)
}

// symbolNamed is SymbolNamed for one table.
func (t *symbolTable) symbolNamed(name, module string) (Symbol, bool) {
	var found *symbol
	// consider reports whether no other symbol can be better.
	consider := func(s *symbol) bool {
		if s.addr == 0 || module != "" && t.module(s) != module {
			return false
		}
		if found == nil || s.module == 0 {
			found = s
		}
		return s.module == 0 || module != ""
	}
	if t.searches.Add(1) <= fewNames {
		for i := range t.symbols {
			if s := &t.symbols[i]; int(s.size) == len(name) && t.name(s) == name && consider(s) {
				break
			}
		}
	} else {
		for _, i := range t.all(name) {
			if consider(&t.symbols[i]) {
				break
			}
		}
	}
	if found == nil {
		return Symbol{}, false
	}
	return Symbol{Name: name, Module: t.module(found), Addr: found.addr}, true
}

// Hidden returns why the kernel hides addresses from this process, as far as can be told
// without reading all symbols, or nil.
func (v *View) Hidden() error {
	restrict, err := v.line("proc/sys/kernel/kptr_restrict")
	if err != nil {
		return nil
	}
	hidden := &accessError{File: kallsymsFile, Give: "addresses of functions", Err: errHidden}
	p, err := v.Privileges()
	switch {
	case restrict == "2": // even from root
		hidden.Need = "as root, sysctl kernel.kptr_restrict=1"
	case err == nil && !p.has(unix.CAP_SYSLOG) && (restrict == "1" || v.paranoid()): // kallsyms_show_value
		hidden.Need = "run as root or with CAP_SYSLOG"
	default:
		return nil
	}
	return hidden
}

// paranoid reports whether perf_event_paranoid hides addresses from processes without
// CAP_SYSLOG, whatever kptr_restrict says.
func (v *View) paranoid() bool {
	text, err := v.line("proc/sys/kernel/perf_event_paranoid")
	level, notNumber := strconv.Atoi(text)
	return err == nil && notNumber == nil && level > 1
}

// Symbols returns nil if symbols have addresses. Otherwise it returns an *accessError that
// says why not.
func (v *View) Symbols() error {
	t, err := v.symbols()
	if err != nil {
		return err
	}
	if t.hidden() {
		if err := v.Hidden(); err != nil {
			return err
		}
		return &accessError{File: kallsymsFile, Need: "run as root or with CAP_SYSLOG", Give: "addresses of functions", Err: errHidden}
	}
	return nil
}

// reach is more than a call instruction reaches. The kernel puts all code that it allocates
// no farther from its own: modules, BPF programs, trampolines.
const reach = 4 << 30

// reaches reports whether there is a symbol so near to an address that there may be code.
func (t *symbolTable) reaches(addr uint64) bool {
	order := t.sorted()
	next := sort.Search(len(order), func(i int) bool { return t.symbols[order[i]].addr > addr })
	return next > 0 && addr-t.symbols[order[next-1]].addr < reach || next < len(order) && t.symbols[order[next]].addr-addr < reach
}

// lasts reports whether the symbol that was found at an address, if one was, stays the same as long as the kernel runs.
func (t *symbolTable) lasts(addr uint64, s Symbol, found bool) bool {
	return found && s.Module == "" || !found && !t.reaches(addr)
}

// find returns the symbol at an address: the nearest one at or below it, unless it ends
// before.
func (t *symbolTable) find(addr uint64) (Symbol, bool) {
	if addr >= errorPointers {
		return Symbol{}, false
	}
	order := t.sorted()
	next := sort.Search(len(order), func(i int) bool { return t.symbols[order[i]].addr > addr })
	if next == 0 {
		return Symbol{}, false
	}
	start := t.symbols[order[next-1]].addr
	first := sort.Search(next, func(i int) bool { return t.symbols[order[i]].addr >= start })
	s := &t.symbols[order[first]]
	if addr > start && !s.text() && strings.HasPrefix(t.name(s), "kallsyms_") {
		return Symbol{}, false // pointers lead to the string literals after these tables, not into them
	}
	end := (start + page) &^ (page - 1)
	if s.module == 0 || s.text() {
		end += lastSymbol // a trampoline may follow the data of a module
	}
	if end < start {
		end = errorPointers
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
