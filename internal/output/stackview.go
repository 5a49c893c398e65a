// SPDX-License-Identifier: Apache-2.0

package output

import (
	"strconv"

	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symname"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Columns of an error stack.
const (
	stackMarks = iota
	stackDuration
	stackResult
	stackFunction
	stackSource
	stackArgs
)

// A stackView prints a chain of calls as the stack that led to it, outermost first:
//
//	                 do_syscall_64+0x5c       (arch/x86/entry/common.c:81:7)
//	 73us [-ENOMEM]  __x64_sys_bpf+0x1a       (kernel/bpf/syscall.c:5067:1)
//	                 . map_create             (kernel/bpf/syscall.c:1106:8)
//	!50us [-ENOMEM]  array_map_alloc          max_entries=1
//
// `!` marks a call that is not in the kernel's stack because it had returned. `⌇` marks a
// failed call that its caller followed with others.
//
// With addresses, these come before the functions; `~` marks frames of the tracing itself.
type stackView struct {
	table     table
	merger    merger
	values    *valuePrinter
	addresses bool
	below     []byte // values of one call, for lines below it
}

func newStackView(o *SessionOptions, values *valuePrinter) *stackView {
	v := &stackView{merger: merger{resolver: o.Resolver, unfiltered: o.Unfiltered}, values: values, addresses: o.Addresses || o.Unfiltered}
	v.table.colour = o.Colour
	v.table.columns = []column{{least: 2}, {least: 6, right: true, gap: 1}, {gap: 2}, {gap: 2}, {gap: 2}, {}}
	return v
}

// append appends the stack of a chain. All rows are collected before the first is
// printed, since the columns depend on all of them.
func (v *stackView) append(dst []byte, c *session.Chain) ([]byte, error) {
	v.table.reset()
	rows := v.merger.merge(c)
	for i := range rows {
		if err := v.addRow(&rows[i]); err != nil {
			return dst, err
		}
	}
	v.table.most = v.values.room(v.table.at(stackArgs))
	for i := range rows {
		dst = v.table.appendRow(dst, i)
		if v.values.layout == ArgsCompact || rows[i].call == nil {
			continue
		}
		var err error
		if v.below, err = v.values.append(v.below[:0], &rows[i].call.Values, known(rows[i].call)); err != nil {
			return dst, err
		}
		dst = v.values.appendBelow(dst, v.below, v.table.at(stackFunction)+2)
	}
	return dst, nil
}

// addRow adds the cells of one row, and its values below if they do not fit on it.
func (v *stackView) addRow(r *stackRow) error {
	t := &v.table
	t.row()
	if r.call != nil {
		v.addCall(r.call, r.symbol == nil)
	}
	start := len(t.text)
	if v.addresses {
		t.text = appendAddress(t.text, r)
	}
	switch s := r.symbol; {
	case s == nil:
		name, module := r.call.Func.Named()
		t.text = symname.Append(t.text, name, module)
	case s.Inlined:
		t.text = s.AppendName(append(t.text, ". "...))
	default:
		t.text = s.AppendName(t.text)
	}
	t.set(stackFunction, start)
	if r.call != nil {
		t.paint(stackFunction, terminal.Strong)
	}
	if s := r.symbol; s != nil && s.File != "" {
		start = len(t.text)
		t.text = append(s.AppendSource(append(t.text, '(')), ')')
		t.set(stackSource, start)
		t.paint(stackSource, terminal.Faint)
	}
	if r.call == nil || v.values.layout != ArgsCompact {
		return nil
	}
	var err error
	if v.below, err = v.values.append(v.below[:0], &r.call.Values, known(r.call)); err != nil || len(v.below) == 0 {
		return err
	}
	start = len(t.text)
	t.text = append(t.text, v.below...)
	t.set(stackArgs, start)
	return nil
}

// addCall fills in the cells with what was recorded of a call.
func (v *stackView) addCall(c *session.Frame, absent bool) {
	t := &v.table
	start := len(t.text)
	if absent {
		t.text = append(t.text, '!')
	} else {
		t.text = append(t.text, ' ')
	}
	if c.Stitched {
		t.text = append(t.text, "⌇"...)
	}
	t.set(stackMarks, start)
	start = len(t.text)
	if c.Duration >= 1000e3 {
		t.text = append(t.text, ' ') // keeps a full column apart from the marks
	}
	t.text = append(strconv.AppendUint(t.text, c.Duration/1e3, 10), "us"...)
	t.set(stackDuration, start)
	start = len(t.text)
	if c.Finished {
		t.text = appendResult(t.text, c.Func, c.Result)
	} else {
		t.text = append(t.text, "[...]"...)
	}
	t.set(stackResult, start)
	if c.Failed {
		t.paint(stackResult, terminal.Bad)
	}
}

// addressWidth is the width of an address with its mark and a blank.
const addressWidth = 18

// appendAddress appends the address of a row. Calls that are not in the kernel's stack and
// inlined functions have none.
func appendAddress(dst []byte, r *stackRow) []byte {
	switch s := r.symbol; {
	case s == nil || s.Inlined:
		return appendBlanks(dst, addressWidth)
	case r.tracing:
		dst = append(dst, '~')
	default:
		dst = append(dst, ' ')
	}
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[r.symbol.Addr>>shift&15])
	}
	return append(dst, ' ')
}

// known says which values of a call can exist so far.
func known(c *session.Frame) moment {
	if c.Finished {
		return wholeCall
	}
	return atEntry
}
