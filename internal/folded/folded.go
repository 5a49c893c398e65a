// SPDX-License-Identifier: Apache-2.0

// Package folded writes stacks as text that flame graphs are drawn from: a line for each
// stack, with its functions from the outermost to the innermost and its weight.
//
//	do_syscall_64;ksys_read;vfs_read 17
//
// flamegraph.pl, speedscope and inferno read it. A name cannot contain what ends it, so a
// semicolon of a name becomes a colon; control characters are escaped as everywhere.
package folded

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/samples"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/symname"
)

// A Weight is what is added up for each stack.
type Weight uint8

const (
	Calls  Weight = iota // how often the innermost function was called
	Time                 // ns in it, without what it called
	Errors               // failures that began in it
	OffCPU               // ns of Time in which a session's thread was off the CPU
)

var weights = [...]string{Calls: "calls", Time: "time", Errors: "errors", OffCPU: "off-cpu"}

func (w Weight) String() string { return weights[w] }

// ParseWeight parses the name of a weight.
func ParseWeight(s string) (Weight, error) {
	if i := slices.Index(weights[:], s); i >= 0 {
		return Weight(i), nil
	}
	return 0, fmt.Errorf("%q is none of calls, time, errors and off-cpu", s)
}

// defaultLimit bounds the memory for stacks, in bytes.
const defaultLimit = 64 << 20

// others stands for the stacks that were not kept apart because they took too much memory.
const others = "[other stacks: too many]"

// A Printer adds up stacks and writes them at the end.
type Printer struct {
	weight  Weight
	limit   int
	sampler *samples.Sampler
	sums    map[string]uint64
	size    int
	others  uint64 // weight of the stacks that were not kept
	merged  uint64 // samples of these
	line    []byte

	run    output.Run
	keys   *output.Fields // of tables
	tails  output.Tails
	frames []symbols.Frame
}

// New returns a Printer of a run.
func New(r output.Run, w Weight) *Printer {
	return &Printer{weight: w, limit: defaultLimit, sampler: samples.New(&r), sums: map[string]uint64{},
		run: r, keys: output.NewKeys(r.Names()), tails: output.SummaryTails(r)}
}

// AppendHeader appends nothing.
func (*Printer) AppendHeader(dst []byte) ([]byte, error) { return dst, nil }

// AppendCall adds a call and appends nothing yet.
func (p *Printer) AppendCall(dst []byte, c *calls.Call) ([]byte, error) {
	s, err := p.sampler.Call(c)
	if err != nil {
		return dst, err
	}
	p.add(s)
	return dst, nil
}

// AppendSession adds the calls of a session and appends nothing yet.
func (p *Printer) AppendSession(dst []byte, x *session.Session) ([]byte, error) {
	for s := range p.sampler.Session(x) {
		p.add(s)
	}
	return dst, nil
}

// AppendLoss appends nothing: what is missing has no stack.
func (*Printer) AppendLoss(dst []byte, _ event.Loss) []byte { return dst }

// entryCost is the memory of an entry of the map in bytes, besides its key.
const entryCost = 64

func (p *Printer) add(s *samples.Sample) {
	n := [...]uint64{Calls: s.Calls, Time: s.Time, Errors: s.Errors, OffCPU: s.OffCPU}[p.weight]
	p.line = appendStack(p.line[:0], s.Stack)
	p.addLine(n)
}

// addLine adds to the weight of the stack in p.line.
func (p *Printer) addLine(n uint64) {
	if n == 0 {
		return
	}
	if _, known := p.sums[string(p.line)]; !known {
		if p.size+len(p.line)+entryCost > p.limit {
			p.others += n
			p.merged++
			return
		}
		p.size += len(p.line) + entryCost
	}
	p.sums[string(p.line)] += n
}

// appendStack appends the functions of a stack.
func appendStack(dst []byte, stack []symbols.Frame) []byte {
	for i := range stack {
		if i > 0 {
			dst = append(dst, ';')
		}
		start := len(dst)
		dst = withoutSeparators(appendName(dst, &stack[i]), start)
	}
	return dst
}

// withoutSeparators makes a name from start on one frame.
func withoutSeparators(dst []byte, start int) []byte {
	for at := start; ; {
		n := bytes.IndexByte(dst[at:], ';')
		if n < 0 {
			return dst
		}
		dst[at+n] = ':'
		at += n
	}
}

func appendName(dst []byte, f *symbols.Frame) []byte {
	if f.Name == "" || f.Inlined {
		return f.AppendName(dst)
	}
	return symname.Append(dst, f.Name, f.Module) // stacks are the same wherever in a function they go on
}

// AppendEnd appends all stacks, in the order of their text.
func (p *Printer) AppendEnd(dst []byte, _ *output.Totals) ([]byte, error) {
	for _, stack := range slices.Sorted(maps.Keys(p.sums)) {
		dst = appendLine(dst, stack, p.sums[stack])
	}
	if p.merged > 0 {
		dst = appendLine(dst, others, p.others)
	}
	return dst, nil
}

// Merge adds up what was written of several runs.
func Merge(runs [][]byte) ([]byte, error) {
	all := Printer{limit: defaultLimit, sums: map[string]uint64{}}
	for _, text := range runs {
		for line := range bytes.Lines(text) {
			at := bytes.LastIndexByte(line, ' ')
			n, err := strconv.ParseUint(string(bytes.TrimSpace(line[at+1:])), 10, 64)
			if at < 0 || err != nil {
				return nil, fmt.Errorf("%q is no stack and its weight", line)
			}
			all.line = append(all.line[:0], line[:at]...)
			all.addLine(n)
		}
	}
	return all.AppendEnd(nil, nil)
}

func appendLine(dst []byte, stack string, n uint64) []byte {
	return append(strconv.AppendUint(append(append(dst, stack...), ' '), n, 10), '\n')
}
