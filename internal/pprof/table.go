// SPDX-License-Identifier: Apache-2.0

package pprof

import (
	"encoding/binary"
	"math"

	"github.com/google/pprof/profile"

	"github.com/ksnoop/ksnoop/internal/samples"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/symname"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// defaultLimit bounds the memory for a profile, in bytes.
const defaultLimit = 64 << 20

// others is the function of all samples whose stacks were not kept apart because they took
// too much memory.
const others = "[other stacks: too many]"

// A table holds the samples of a profile, each stack with each set of labels once, and the
// functions and locations that they share. Its memory is bounded.
type table struct {
	limit, size int

	samples   []*profile.Sample
	locations []*profile.Location
	functions []*profile.Function

	known       map[string]*profile.Sample   // by locations and labels
	atLocation  map[string]*profile.Location // by address and lines
	withName    map[functionKey]*profile.Function
	other       *profile.Sample // nil until a stack does not fit
	key, place  []byte
	stack       []*profile.Location
	lines       []profile.Line
	nameScratch []byte
}

type functionKey struct{ name, file string }

func newTable(limit int) table {
	return table{limit: limit, known: map[string]*profile.Sample{}, atLocation: map[string]*profile.Location{}, withName: map[functionKey]*profile.Function{}}
}

// Memory of the elements in bytes, with their share of the maps but without their strings
// and lists.
const (
	sampleCost   = 700 // has maps of labels
	locationCost = 250
	lineCost     = 40
	functionCost = 200
)

// reserve counts memory, if the limit allows it.
func (t *table) reserve(n int) bool {
	if t.size+n > t.limit {
		return false
	}
	t.size += n
	return true
}

// add adds a sample. It returns false if there is no room for its stack.
func (t *table) add(s *samples.Sample) bool {
	if !t.locate(s.Stack) {
		return false
	}
	t.key = t.key[:0]
	for _, l := range t.stack {
		t.key = binary.AppendUvarint(t.key, l.ID)
	}
	t.key = binary.LittleEndian.AppendUint32(append(t.key, 0), s.PID) // no ID is 0
	t.key = append(append(append(t.key, s.Comm...), 0), s.Errno...)
	known := t.known[string(t.key)]
	if known == nil {
		if !t.reserve(sampleCost + 2*len(t.key) + 8*len(t.stack)) {
			return false
		}
		known = &profile.Sample{Location: append([]*profile.Location(nil), t.stack...), Value: make([]int64, 3),
			Label: labels(s), NumLabel: map[string][]int64{"pid": {int64(s.PID)}}}
		t.known[string(t.key)] = known
		t.samples = append(t.samples, known)
	}
	count(known, s)
	return true
}

// labels returns the labels that are text.
func labels(s *samples.Sample) map[string][]string {
	l := map[string][]string{"function": {terminal.Name(s.Function())}}
	if s.Comm != "" {
		l["comm"] = []string{terminal.Name(s.Comm)}
	}
	if s.Errno != "" {
		l["errno"] = []string{s.Errno}
	}
	return l
}

// addOther adds a sample whose stack has no room to those of other stacks.
func (t *table) addOther(s *samples.Sample) {
	if t.other == nil {
		f := t.newFunction(functionKey{name: others})
		t.other = &profile.Sample{Location: []*profile.Location{t.newLocation(0, []profile.Line{{Function: f}})}, Value: make([]int64, 3)}
		t.samples = append(t.samples, t.other)
	}
	count(t.other, s)
}

// count adds the values of a sample.
func count(to *profile.Sample, s *samples.Sample) {
	for i, n := range [...]uint64{s.Calls, s.Time, s.Errors} {
		to.Value[i] += int64(min(n, uint64(math.MaxInt64-to.Value[i])))
	}
}

// locate finds or makes the locations of a stack, innermost first. A location is a function
// with those inlined into it.
func (t *table) locate(stack []symbols.Frame) bool {
	t.stack = t.stack[:0]
	for last := len(stack) - 1; last >= 0; last-- {
		first := last
		for first > 0 && stack[first].Inlined {
			first--
		}
		l := t.location(stack[first : last+1])
		if l == nil {
			return false
		}
		t.stack = append(t.stack, l)
		last = first
	}
	return true
}

// location finds or makes the location of a function and those inlined into it; nil if there
// is no room.
func (t *table) location(frames []symbols.Frame) *profile.Location {
	t.place, t.lines = binary.LittleEndian.AppendUint64(t.place[:0], frames[0].Addr), t.lines[:0]
	for i := len(frames) - 1; i >= 0; i-- { // innermost first
		f := t.function(&frames[i])
		if f == nil {
			return nil
		}
		t.place = binary.AppendUvarint(binary.AppendUvarint(t.place, f.ID), uint64(frames[i].Line))
		t.lines = append(t.lines, profile.Line{Function: f, Line: int64(frames[i].Line)})
	}
	if l := t.atLocation[string(t.place)]; l != nil {
		return l
	}
	if !t.reserve(locationCost + len(t.place) + lineCost*len(t.lines)) {
		return nil
	}
	l := t.newLocation(frames[0].Addr, append([]profile.Line(nil), t.lines...))
	t.atLocation[string(t.place)] = l
	return l
}

// newLocation makes a location. IDs count from 1.
func (t *table) newLocation(addr uint64, lines []profile.Line) *profile.Location {
	l := &profile.Location{ID: uint64(len(t.locations)) + 1, Address: addr, Line: lines}
	t.locations = append(t.locations, l)
	return l
}

// function finds or makes the function of a frame; nil if there is no room.
func (t *table) function(f *symbols.Frame) *profile.Function {
	if f.Name == "" || f.Inlined {
		t.nameScratch = f.AppendName(t.nameScratch[:0])
	} else {
		t.nameScratch = symname.Append(t.nameScratch[:0], f.Name, f.Module)
	}
	key := functionKey{name: string(t.nameScratch), file: terminal.Name(f.File)}
	if known := t.withName[key]; known != nil {
		return known
	}
	if !t.reserve(functionCost + len(key.name) + len(key.file)) {
		return nil
	}
	return t.newFunction(key)
}

func (t *table) newFunction(key functionKey) *profile.Function {
	f := &profile.Function{ID: uint64(len(t.functions)) + 1, Name: key.name, SystemName: key.name, Filename: key.file}
	t.functions = append(t.functions, f)
	t.withName[key] = f
	return f
}
