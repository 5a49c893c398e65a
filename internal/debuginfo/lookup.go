// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"iter"
	"slices"
	"sync"
)

// A Frame is a function that was executing, called or inlined, and where.
// What is not known is empty.
type Frame struct {
	Func         string
	File         string
	Line, Column uint32
}

// streamUnits is how many units a stream of look-ups keeps at hand, 100 KB each
// on the average.
const streamUnits = 48

// Lookup appends the frames of an address: the innermost inlined function first,
// and last the function that holds it. It is made for addresses that come one by
// one and must not be called at the same time from several goroutines.
func (i *Info) Lookup(dst []Frame, addr uint64) []Frame {
	if i.relocate() != nil {
		return dst
	}
	addr -= i.options.Slide
	off, ok := i.units.find(addr)
	if !ok {
		return dst
	}
	return i.stream.lookup(dst, off, addr)
}

// LookupAll returns the frames of each address, as Lookup would. It reads no
// part of the debug info twice and uses two processors.
func (i *Info) LookupAll(addrs []uint64) [][]Frame { return i.lookupAll(addrs, 2) }

// A request is an address of a batch and the place of its result.
type request struct {
	unit, addr uint64
	index      int
}

func (i *Info) lookupAll(addrs []uint64, workers int) [][]Frame {
	results := make([][]Frame, len(addrs))
	if i.relocate() != nil {
		return results
	}
	jobs := make(chan []request, 64)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			// Units come in order, so none comes again.
			r := newReader(i, 1)
			for job := range jobs {
				for _, q := range job {
					results[q.index] = r.lookup(nil, q.unit, q.addr)
				}
			}
		})
	}
	for job := range i.byUnit(addrs) {
		jobs <- job
	}
	close(jobs)
	running.Wait()
	return results
}

// byUnit yields the addresses of one unit after the other.
func (i *Info) byUnit(addrs []uint64) iter.Seq[[]request] {
	requests := make([]request, 0, len(addrs))
	for n, addr := range addrs {
		addr -= i.options.Slide
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

// A reader looks addresses up, with memory that it uses again and again.
type reader struct {
	info  *Info
	units unitCache
	// Link-time optimisation and dwz leave the names of functions to other
	// units. They have a cache of their own so that none takes the place of
	// the unit that is being read.
	foreign unitCache
	chain   []entry
}

func newReader(i *Info, units int) *reader {
	return &reader{info: i, units: unitCache{capacity: units}, foreign: unitCache{capacity: 16}}
}

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
			dst = append(dst, r.frame(u, "", at))
		}
		return dst
	}
	r.chain = u.chain(r.chain[:0], fn, addr)
	dst = slices.Grow(dst, len(r.chain))
	for n := len(r.chain) - 1; n >= 0; n-- {
		e := &r.chain[n]
		dst = append(dst, r.frame(u, r.name(u, e), at))
		at = row{file: narrow(e.callFile.n, noFile), line: uint32(e.callLine.n), col: narrow(e.callAt.n, 0)}
	}
	return dst
}

func (r *reader) frame(u *unit, name string, at row) Frame {
	return Frame{Func: name, File: u.path(at.file, r.info.options.Relative), Line: at.line, Column: uint32(at.col)}
}

// name returns the name of a function, which the entry itself has or the one
// that it is an instance of.
func (r *reader) name(u *unit, e *entry) string {
	const most = 16 // a damaged file may have a circle
	next := *e
	for range most {
		if next.name.form != 0 {
			return string(u.str(next.name))
		}
		ref := next.origin
		if ref.form == 0 {
			ref = next.specified
		}
		off, ok := u.reference(ref)
		if !ok {
			return ""
		}
		if off < u.off || off >= u.end {
			where, ok := r.info.units.at(off)
			if !ok {
				return ""
			}
			if u = r.foreign.open(r.info.sections, where); u == nil {
				return ""
			}
		}
		c := u.cursor(off)
		a := u.abbrevs.find(c.uleb())
		if a == nil {
			return ""
		}
		next = u.entry(&c, a)
	}
	return ""
}

// A unitCache keeps the units that were used last, the newest first.
type unitCache struct {
	capacity int
	units    []*unit
}

// open returns the unit at off, or nil if it cannot be read.
func (c *unitCache) open(s *sections, off uint64) *unit {
	i := slices.IndexFunc(c.units, func(u *unit) bool { return u.off == off && u.opened })
	var u *unit
	switch {
	case i >= 0:
		u = c.units[i]
	case len(c.units) < c.capacity:
		u = &unit{}
		c.units = append(c.units, u)
		i = len(c.units) - 1
	default:
		i = len(c.units) - 1
		u = c.units[i]
	}
	copy(c.units[1:i+1], c.units[:i])
	c.units[0] = u
	if !u.opened || u.off != off {
		if u.opened = u.open(s, off); !u.opened {
			return nil
		}
	}
	return u
}
