// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"iter"
	"runtime/debug"
	"slices"
	"sync"
)

// A Frame is a function that was executing, called or inlined, and its position. Unknown
// fields are empty.
type Frame struct {
	Func         string
	File         string
	Line, Column uint32
	Linkage      string // mangled name in C++ and Rust
}

// streamUnits is how many units Lookup keeps, at 100 KB each on average.
const streamUnits = 48

// Lookup appends the frames of an address: innermost inlined function first, the function
// that contains the code last. It is made for addresses that come one at a time, and is not
// safe for concurrent use.
func (i *Info) Lookup(dst []Frame, addr uint64) (frames []Frame) {
	defer i.recovered(debug.SetPanicOnFault(true))
	frames = dst // if the file cannot be read
	if !i.ready() {
		return dst
	}
	addr -= i.options.slide
	off, ok := i.units.find(addr)
	if !ok {
		return dst
	}
	return i.stream.lookup(dst, off, addr)
}

// LookupAll returns the frames of each address, as Lookup does. It reads no part of the
// debug info twice and uses two processors.
func (i *Info) LookupAll(addrs []uint64) [][]Frame { return i.lookupAll(addrs, 2) }

// A request is an address of a batch and the index of its result.
type request struct {
	unit, addr uint64
	index      int
}

// lookupAll is LookupAll with a given number of workers. Each worker takes whole units.
func (i *Info) lookupAll(addrs []uint64, workers int) (results [][]Frame) {
	defer i.recovered(debug.SetPanicOnFault(true))
	results = make([][]Frame, len(addrs))
	if !i.ready() {
		return results
	}
	byUnit := i.byUnit(addrs)
	jobs := make(chan []request, 64)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			// Units come in order, so none comes back.
			r := newReader(i, 1)
			defer r.release()
			for job := range jobs {
				r.lookupJob(job, results)
			}
		})
	}
	for job := range byUnit {
		jobs <- job
	}
	close(jobs)
	running.Wait()
	return results
}

// lookupJob looks up addresses of one unit. If the file cannot be read, it stops, and later
// calls do nothing.
func (r *reader) lookupJob(job []request, results [][]Frame) {
	defer r.info.recovered(debug.SetPanicOnFault(true))
	if r.info.Err() != nil {
		return
	}
	for _, q := range job {
		results[q.index] = r.lookup(nil, q.unit, q.addr)
	}
}

// byUnit yields the addresses grouped by unit.
func (i *Info) byUnit(addrs []uint64) iter.Seq[[]request] {
	requests := make([]request, 0, len(addrs))
	for n, addr := range addrs {
		addr -= i.options.slide
		if unit, ok := i.units.find(addr); ok {
			requests = append(requests, request{unit, addr, n})
		}
	}
	slices.SortFunc(requests, func(a, b request) int {
		if a.unit != b.unit {
			return compare(a.unit, b.unit)
		}
		return compare(a.addr, b.addr)
	})
	return func(yield func([]request) bool) {
		for rest := requests; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].unit == rest[0].unit {
				n++
			}
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

func newReader(i *Info, units int) *reader {
	return &reader{info: i, units: unitCache{capacity: units}, foreign: unitCache{capacity: 16}}
}

// lookup appends the frames of addr in the unit at off. The line table tells the
// position in the innermost function; each inlined call tells the position in its
// caller.
func (r *reader) lookup(dst []Frame, off, addr uint64) []Frame {
	u := r.units.open(r.info.sections, off)
	if u == nil {
		return dst
	}
	u.readLines()
	at, known := u.lines.find(addr)
	fn, ok := u.function(addr)
	if !ok {
		if known {
			dst = append(dst, r.frame(u, at))
		}
		return dst
	}
	r.chain = u.chain(r.chain[:0], fn, addr)
	dst = slices.Grow(dst, len(r.chain))
	for n := len(r.chain) - 1; n >= 0; n-- {
		e := &r.chain[n]
		frame := r.frame(u, at)
		frame.Func, frame.Linkage = r.names(u, e)
		dst = append(dst, frame)
		at = row{file: narrow(e.callFile.n, noFile), line: uint32(e.callLine.n), col: narrow(e.callAt.n, 0)}
	}
	return dst
}

func (r *reader) frame(u *unit, at row) Frame {
	return Frame{File: u.path(at.file, r.info.options.Relative), Line: at.line, Column: uint32(at.col)}
}

func (r *reader) name(u *unit, e *entry) string {
	name, _ := r.names(u, e)
	return name
}

// names returns a function's name in the source and for the linker. The entry has them, or
// the one that it is an instance of.
func (r *reader) names(u *unit, e *entry) (name, linkage string) {
	const most = 16 // a damaged file may have a cycle
	next := *e
	for range most {
		if name == "" {
			name = string(u.str(next.name))
		}
		if linkage == "" {
			linkage = string(u.str(next.linkage))
		}
		if name != "" && linkage != "" {
			return name, linkage
		}
		ref := next.origin
		if ref.form == 0 {
			ref = next.specified
		}
		off, ok := u.reference(ref)
		if !ok {
			return name, linkage
		}
		if u = r.unitOf(u, off); u == nil {
			return name, linkage
		}
		c := u.cursor(off)
		a := u.abbrevs.find(c.uleb())
		if a == nil {
			return name, linkage
		}
		next = u.entry(&c, a)
	}
	return name, linkage
}

// unitOf returns the unit of an entry that u refers to, or nil.
func (r *reader) unitOf(u *unit, off uint64) *unit {
	if u.holds(off) {
		return u
	}
	s, index := r.info.sections, r.info.units
	if off&supBit != 0 {
		if s, index = s.sup, r.info.supUnits; s == nil {
			return nil
		}
	}
	where, ok := index.at(off &^ supBit)
	if !ok {
		return nil
	}
	return r.foreign.open(s, where)
}
