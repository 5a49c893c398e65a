// SPDX-License-Identifier: Apache-2.0

package output

import (
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/symname"
)

// AppendSummed appends the frames of a stack of the kernel that is a key of a table, innermost
// first: the traced function, if it is known which one that is, and those that led to it.
func (t *Tails) AppendSummed(dst []symbols.Frame, table *summary.Table, s *summary.Stack) []symbols.Frame {
	t.addrs = append(t.addrs[:0], s.Addresses...)
	if len(table.Probes) > 0 && isPoint(table.Probes[0]) {
		return t.appendAddresses(dst, t.pointCallers(t.addrs))
	}
	addrs, found := t.callers(t.addrs, table.Probes...)
	if found == nil && len(table.Probes) == 1 && table.Probes[0].Kind == expr.Function {
		found = table.Probes[0]
	}
	if found != nil {
		dst = append(dst, symbols.Frame{Addr: found.Func.Addr, Name: found.Func.Name, Module: found.Func.Module})
	}
	return t.appendAddresses(dst, addrs)
}

// SummedUser returns the addresses of a stack in user space that is a key of a table, innermost
// first, and the names of its process. They are valid until the next call.
func (t *Tails) SummedUser(s *summary.Stack) ([]uint64, Process) {
	t.addrs = append(t.addrs[:0], s.Addresses...)
	return t.userAddresses(), t.User(&s.Task, string(cString(s.Task.Comm[:])))
}

// AppendSummedNames appends the functions of a stack that is a key of a table, innermost first, each
// with end behind it. Of a stack that is not known there are none.
func (t *Tails) AppendSummedNames(dst []byte, table *summary.Table, stacks summary.Stacks, number uint64, user bool, end byte) []byte {
	if stacks == nil {
		return dst
	}
	s, ok := stacks.Stack(number, user)
	if !ok {
		return dst
	}
	if user {
		addrs, process := t.SummedUser(&s)
		for i, addr := range addrs {
			dst = append(process.AppendFrame(dst, addr, i > 0), end)
		}
		return dst
	}
	for _, f := range t.AppendSummed(nil, table, &s) {
		dst = append(f.AppendName(dst), end)
	}
	return dst
}

// appendStack appends the lines of a stack.
func (s *Summaries) appendStack(dst []byte, f *tableForm, number uint64, user bool, stacks summary.Stacks) []byte {
	var found summary.Stack
	ok := false
	if stacks != nil {
		found, ok = stacks.Stack(number, user)
	}
	switch {
	case !ok && user:
		return append(dst, stackIndent+"no user stack\n"...)
	case !ok:
		return append(dst, stackIndent+"no stack\n"...)
	case user:
		return s.appendUserStack(dst, &found)
	}
	t := &s.lines
	t.columns = append(t.columns[:0], column{gap: 2}, column{})
	t.reset()
	s.frames = s.tails.AppendSummed(s.frames[:0], f.table, &found)
	for i := range s.frames {
		t.row()
		if f := &s.frames[i]; i == 0 && f.Name != "" && f.Offset == 0 && !f.Inlined { // the traced function
			t.put(0, string(symname.Append(nil, f.Name, f.Module)))
			continue
		}
		t.setFrame(0, &s.frames[i])
	}
	for i := range s.frames {
		dst = t.appendRow(append(dst, stackIndent...), i)
	}
	return s.appendMore(dst, &found)
}

func (s *Summaries) appendUserStack(dst []byte, of *summary.Stack) []byte {
	addrs, process := s.tails.SummedUser(of)
	for i, addr := range addrs {
		dst = append(process.AppendFrame(append(dst, stackIndent...), addr, i > 0), '\n')
	}
	dst = s.appendMore(dst, of)
	if why := process.Missing(); why != "" {
		dst = append(append(append(dst, stackIndent+"/* "...), why...), " */\n"...)
	}
	return dst
}

// appendMore says that a stack is deeper than what was taken.
func (s *Summaries) appendMore(dst []byte, of *summary.Stack) []byte {
	if !of.Cut {
		return dst
	}
	return append(dst, stackIndent+"... and more, which were not taken\n"...)
}
