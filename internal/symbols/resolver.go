// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"maps"

	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// A Source tells functions and source lines at an address of vmlinux (module "") or of a
// module, innermost first. *DebugInfo implements it.
type Source interface {
	Lookup(dst []debuginfo.Frame, addr uint64, module string) []debuginfo.Frame
}

// A Resolver names addresses of one kernel. It caches results and is not safe for
// concurrent use.
type Resolver struct {
	kernel *kernel.View
	source Source
	level  Level

	cache      map[request][]Frame
	generation uint64 // of the kernel's modules, whose frames are in cache
	lookups    []debuginfo.Frame
	misses     int // addresses without a symbol
	reload     int // number of misses at which kallsyms is read again
}

// A request is an address and how to read it.
type request struct {
	addr       uint64
	isReturned bool
}

// mostCached bounds the cache, at some 200 bytes for each address.
const mostCached = 1 << 16

// New returns a Resolver for view's kernel. If source is nil, it only tells symbols.
func New(view *kernel.View, source Source, level Level) *Resolver {
	if source == nil {
		level = LevelNone
	}
	return &Resolver{kernel: view, source: source, level: level, cache: map[request][]Frame{}, reload: 1}
}

// Frames appends the functions at an address, innermost inlined one first. The last is the
// function whose code it is, with symbol and offset; it is always there. The caller must
// not change the frames.
//
// All addresses of a stack but the innermost are return addresses. A return address is
// after the call: it may be on another line or, after a function that never returns, even
// in another function. Lines and names are therefore those of the call, while offsets are
// those of the address.
func (r *Resolver) Frames(dst []Frame, addr uint64, returnAddress bool) []Frame {
	q := request{addr, returnAddress}
	found, ok := r.cache[q]
	if ok && passing(q, found) && r.renewed() {
		found, ok = r.cache[q]
	}
	if !ok {
		if len(r.cache) >= mostCached {
			clear(r.cache)
		}
		found = r.resolve(q)
		r.cache[q] = found
	}
	return append(dst, found...)
}

// passing reports whether what was found at an address may become another function: a module may be unloaded, and another one be loaded
// there.
func passing(q request, found []Frame) bool {
	return q.addr>>63 != 0 && (found[0].Module != "" || found[0].Name == "")
}

// renewed reports whether modules have come or gone. Then it forgets what may have changed.
func (r *Resolver) renewed() bool {
	now := r.kernel.Generation()
	if now == r.generation {
		return false
	}
	r.generation = now
	maps.DeleteFunc(r.cache, passing)
	if s, ok := r.source.(interface{ Renew() }); ok {
		s.Renew()
	}
	return true
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
	if s.Module != "" {
		r.renewed() // or its debug info may be of another place
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

// symbol looks up an address in kallsyms. kallsyms grows while the kernel runs, with BPF
// programs, trampolines and modules. Reading it takes tens of milliseconds, so it is read
// again only at the first address without a symbol, and each time the number of such
// addresses has doubled.
func (r *Resolver) symbol(addr uint64) (kernel.Symbol, bool) {
	if addr>>63 == 0 {
		return kernel.Symbol{}, false // a user address
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
	r.forgetNameless()
	return r.kernel.Symbol(addr)
}

// forgetNameless has kernel addresses that had no name looked up again: they may have one now.
func (r *Resolver) forgetNameless() {
	maps.DeleteFunc(r.cache, func(q request, found []Frame) bool { return q.addr>>63 != 0 && found[0].Name == "" })
}
