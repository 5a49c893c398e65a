// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// A Source tells the functions and source lines at an address of vmlinux
// (module "") or of a module, innermost first. *DebugInfo is one.
type Source interface {
	Lookup(dst []debuginfo.Frame, addr uint64, module string) []debuginfo.Frame
}

// A Resolver names addresses of one kernel. It remembers what it found and must
// not be used by several goroutines at a time.
type Resolver struct {
	kernel *kernel.View
	source Source
	level  Level

	cache   map[request][]Frame
	lookups []debuginfo.Frame
	misses  int // addresses without a symbol
	reload  int // the number of misses at which kallsyms is read again
}

// A request is an address and how it is to be read.
type request struct {
	addr       uint64
	isReturned bool
}

// mostCached is how many addresses are remembered, some 200 bytes each.
const mostCached = 1 << 16

// New returns a Resolver for the kernel of view. Without a source it tells
// symbols only.
func New(view *kernel.View, source Source, level Level) *Resolver {
	if source == nil {
		level = LevelNone
	}
	return &Resolver{kernel: view, source: source, level: level, cache: map[request][]Frame{}, reload: 1}
}

// Frames appends the functions at an address, the innermost inlined one first
// and last the one whose code it is, with its symbol and offset. There is always
// at least that one. The frames are the Resolver's: they must not be changed.
//
// A return address, as all addresses of a stack but the innermost are, is behind
// the call: it may be on another line, and after the last call of a function
// that never returns even in another function. What is told is then about the
// call, but offsets are those of the address.
func (r *Resolver) Frames(dst []Frame, addr uint64, returnAddress bool) []Frame {
	q := request{addr, returnAddress}
	found, ok := r.cache[q]
	if !ok {
		if len(r.cache) >= mostCached {
			clear(r.cache)
		}
		found = r.resolve(q)
		r.cache[q] = found
	}
	return append(dst, found...)
}

func (r *Resolver) resolve(q request) []Frame {
	at := q.addr
	if q.isReturned && at > 0 {
		at--
	}
	s, ok := r.symbol(at)
	if !ok {
		return []Frame{{Addr: q.addr}}
	}
	outer := Frame{Addr: q.addr, Name: s.Name, Module: s.Module, Offset: q.addr - s.Addr}
	if r.level == LevelNone {
		return []Frame{outer}
	}
	r.lookups = r.source.Lookup(r.lookups[:0], at, s.Module)
	if len(r.lookups) == 0 {
		return []Frame{outer}
	}
	if r.level == LevelLine {
		outer.setLine(&r.lookups[0])
		return []Frame{outer}
	}
	frames := make([]Frame, len(r.lookups))
	last := len(frames) - 1
	for i := range frames[:last] {
		frames[i] = Frame{Addr: q.addr, Name: r.lookups[i].Func, Module: s.Module, Inlined: true}
		frames[i].setLine(&r.lookups[i])
	}
	outer.setLine(&r.lookups[last])
	frames[last] = outer
	return frames
}

func (f *Frame) setLine(from *debuginfo.Frame) {
	f.File, f.Line, f.Column = from.File, int(from.Line), int(from.Column)
}

// symbol looks an address up in kallsyms, which grows while a kernel runs: BPF
// programs, trampolines and modules are added. It is read again at the first
// address that is in none of its symbols, and when there have been twice as many
// of these: reading it takes tens of milliseconds.
func (r *Resolver) symbol(addr uint64) (kernel.Symbol, bool) {
	if addr>>63 == 0 {
		return kernel.Symbol{}, false // of user space
	}
	s, ok := r.kernel.Symbol(addr)
	if ok {
		return s, true
	}
	if r.misses++; r.misses < r.reload || r.kernel.Symbols() != nil { // hidden addresses stay hidden
		return s, false
	}
	r.reload = 2 * r.misses
	if !r.kernel.Renew() {
		return s, false
	}
	return r.kernel.Symbol(addr)
}
