// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// symbolRanges are symbols as a recording has them: each with the addresses that it was
// found for, and only those that an address in the records belongs to. An address outside
// of them has no name, whatever lies around it.
type symbolRanges struct {
	mu sync.Mutex
	// runs are sorted by address, and each is at least twice as long as the next one.
	// Adding a symbol to n others takes log n steps, however they come.
	runs  [][]symbolRange
	count int
}

type symbolRange struct {
	start, size  uint64
	name, module string
}

// AddSymbols makes a view name addresses by the symbols in text, and those that were added
// before, instead of /proc/kallsyms. Each line is as AppendSymbol writes it. There may be
// MaxSymbols in all; they take some 60 bytes each, and text.
func (v *View) AddSymbols(text string) error {
	v.ranges.CompareAndSwap(nil, &symbolRanges{})
	r := v.ranges.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	var run []symbolRange
	for line := range strings.Lines(text) {
		s, ok := parseRange(strings.TrimSuffix(line, "\n"))
		switch {
		case !ok:
			return fmt.Errorf("not a symbol: %.100q", line)
		case r.count == MaxSymbols:
			return fmt.Errorf("it has more than %d symbols", MaxSymbols)
		}
		if known, ok := r.lookup(s.start); ok && *known == s {
			continue // another recording of the same run has it
		}
		run = append(run, s)
		r.count++
	}
	r.add(run)
	return nil
}

// AppendSymbol appends a line for AddSymbols: where a symbol begins and how long it is in
// hexadecimal digits, its name and its module.
//
//	ffffffff81a3c0f0 50 ip_send_skb
//	ffffffffc0a1e010 1f0 nf_nat_inet_fn	[nf_nat]
func AppendSymbol(dst []byte, s Symbol) []byte {
	dst = strconv.AppendUint(dst, s.Addr, 16)
	dst = strconv.AppendUint(append(dst, ' '), s.Size, 16)
	dst = append(append(dst, ' '), s.Name...)
	if s.Module != "" {
		dst = append(append(append(dst, "\t["...), s.Module...), ']')
	}
	return append(dst, '\n')
}

// parseRange is the inverse of AppendSymbol.
func parseRange(line string) (r symbolRange, ok bool) {
	start, line, _ := strings.Cut(line, " ")
	size, name, _ := strings.Cut(line, " ")
	name, module, inModule := strings.Cut(name, "\t")
	if inModule {
		if len(module) < 3 || module[0] != '[' || module[len(module)-1] != ']' {
			return r, false
		}
		module = module[1 : len(module)-1]
	}
	var err1, err2 error
	r.start, err1 = strconv.ParseUint(start, 16, 64)
	r.size, err2 = strconv.ParseUint(size, 16, 64)
	r.name, r.module = name, module
	return r, err1 == nil && err2 == nil && name != ""
}

func compareRanges(a, b symbolRange) int { return cmp.Compare(a.start, b.start) }

// add adds a run, of which nothing may be sorted. The caller holds the lock.
func (r *symbolRanges) add(run []symbolRange) {
	if len(run) == 0 { // all were known
		return
	}
	slices.SortStableFunc(run, compareRanges)
	for len(r.runs) > 0 {
		last := r.runs[len(r.runs)-1]
		if len(last) >= 2*len(run) {
			break
		}
		run = merge(last, run)
		r.runs = r.runs[:len(r.runs)-1]
	}
	r.runs = append(r.runs, run)
}

// merge merges sorted runs. Of the same address, a's comes first.
func merge(a, b []symbolRange) []symbolRange {
	out := make([]symbolRange, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compareRanges(a[0], b[0]) <= 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// find returns the symbol whose range an address lies in.
func (r *symbolRanges) find(addr uint64) (Symbol, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.lookup(addr)
	if !ok {
		return Symbol{}, false
	}
	return Symbol{Name: s.name, Module: s.module, Addr: s.start, Offset: addr - s.start, Size: s.size}, true
}

// lookup is find for a caller that holds the lock.
func (r *symbolRanges) lookup(addr uint64) (*symbolRange, bool) {
	for _, run := range r.runs {
		i, found := slices.BinarySearchFunc(run, addr, func(s symbolRange, addr uint64) int { return cmp.Compare(s.start, addr) })
		if !found {
			i--
		}
		if i >= 0 && addr-run[i].start < run[i].size {
			return &run[i], true
		}
	}
	return nil, false
}
