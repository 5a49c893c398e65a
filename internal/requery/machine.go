// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"bytes"
	"encoding/binary"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/session"
)

// A machine is one recorded call, over which rewritten terms are computed. The memory that they
// read is that of recorded regions, at addresses that place returns.
type machine struct {
	arch          string
	sources       []source
	entry, ret    *event.Event  // the records of the call; one of them may be nil
	args          []session.Arg // and what -A has captured of it
	missing       bool          // a value is in the record that is nil, or of which only the head is there
	unsure        bool          // more was read than was recorded, or less could have been readable
	unreadableArg bool
	text          []byte  // of the last string among args
	word          [8]byte // and of the last number
}

var _ expr.Machine = (*machine)(nil)

// A machine reads the memory of the source that the term's space names, at an offset. The phase
// says what is read: bytes, or a string, which may end early.
const (
	asBytes expr.Phase = iota
	asText
)

// reset makes m the machine of another call.
func (m *machine) reset(entry, ret *event.Event) {
	m.entry, m.ret, m.args, m.missing, m.unsure, m.unreadableArg = entry, ret, nil, false, false, false
}

// eval computes a rewritten term.
func (m *machine) eval(t expr.Term) (uint64, error) {
	v, err := expr.Eval(t, m)
	if err == nil && (m.missing || m.unreadableArg) {
		err = expr.ErrUnreadable
	}
	return v, err
}

// raw returns the recorded bytes of a source. ok is false if they could not be read.
func (m *machine) raw(s *source) (b []byte, ok bool) {
	if s.part != nil {
		return m.argument(s)
	}
	phase := expr.AtEntry
	if s.late {
		phase = expr.AtReturn
	}
	e := m.at(phase)
	switch {
	case e == nil:
		return nil, false
	case e.Record == nil: // a call in a session, without values
		m.missing = true
		return nil, false
	}
	return e.Bytes(&s.slot)
}

// argument returns the bytes of a part, as raw does.
func (m *machine) argument(s *source) (b []byte, ok bool) {
	p := s.part
	if p.arg >= len(m.args) {
		m.missing = true
		return nil, false
	}
	a := &m.args[p.arg]
	switch {
	case len(a.Value) < 8:
		return nil, false
	case p.target && a.Target == nil, p.target && m.kernelHalf(binary.LittleEndian.Uint64(a.Value)) != (s.mem.space == expr.Kernel):
		return nil, false // -A reads what an address is of
	case p.target && a.Text:
		m.text = append(m.text[:0], a.Target...)
		if !a.Cut {
			m.text = append(m.text, 0)
		}
		return m.text, true
	case p.target:
		m.unsure = m.unsure || len(a.Target) < int(s.mem.size)
		return a.Target, len(a.Target) >= int(s.mem.size)
	case p.size == 0:
		return a.Value, len(a.Value) >= int(s.slot.Size)
	}
	v, unused := binary.LittleEndian.Uint64(a.Value), 64-8*p.size
	if p.signed {
		v = uint64(int64(v) << unused >> unused)
	} else {
		v = v << unused >> unused
	}
	binary.LittleEndian.PutUint64(m.word[:], v)
	return m.word[:], true
}

// Kept is part of expr.Machine: the value of a source.
func (m *machine) Kept(i int) (uint64, error) {
	b, ok := m.raw(&m.sources[i])
	if !ok {
		return 0, expr.ErrUnreadable
	}
	return binary.LittleEndian.Uint64(b), nil
}

// Read is part of expr.Machine. What it is given is explained at asBytes.
func (m *machine) Read(in expr.Space, as expr.Phase, off uint64, p []byte) bool {
	have, ok := m.memory(int(in))
	if !ok {
		return false
	}
	n := copy(p, have[min(off, uint64(len(have))):])
	if n == len(p) || as == asText && bytes.IndexByte(p[:n], 0) >= 0 {
		return true
	}
	m.unsure = true
	return false
}

// memory returns the bytes of a source's region.
func (m *machine) memory(i int) (b []byte, ok bool) {
	s := &m.sources[i]
	if b, ok = m.raw(s); !ok {
		m.unsure = m.unsure || !m.missing && !m.unreadable(s)
		return nil, false
	}
	switch r := s.mem; {
	case r.counted:
		n := binary.LittleEndian.Uint64(b)
		return b[r.skip:][:min(n, uint64(r.size))], true
	case r.text:
		if n := bytes.IndexByte(b, 0); n >= 0 {
			b = b[:n+1]
		}
		return b, true
	default:
		return b[:r.size], true
	}
}

// unreadable reports whether all parts of a region that could not be read as a whole were
// unreadable, too: a scalar, what a null or error pointer points to, and what lies in the other
// address space.
func (m *machine) unreadable(s *source) bool {
	if scalar(s.term) {
		return true
	}
	if s.mem.pointer < 0 {
		return false
	}
	v, err := m.Kept(s.mem.pointer)
	if err != nil {
		return true
	}
	first := v + uint64(s.mem.off)
	last := first + uint64(s.mem.size)
	switch kernel := s.mem.space == expr.Kernel; {
	case kernel && last >= first:
		return s.mem.size > 0 && !m.kernelHalf(first) && !m.kernelHalf(last-1) || first >= firstErrno
	case kernel:
		return v >= firstErrno
	default:
		return last >= first && m.kernelHalf(first)
	}
}

const firstErrno = 1<<64 - 4095 // pointers from here on are error numbers

// kernelHalf reports whether an address is in the kernel's half, as kernel_half of bpf/args.h does.
func (m *machine) kernelHalf(addr uint64) bool {
	if m.arch == "arm64" {
		return addr>>55&1 != 0
	}
	return addr>>63 != 0
}

// Arg is part of expr.Machine.
func (m *machine) Arg(index int, off uint32, p []byte) { m.passed(index, off, p) }

// Result is part of expr.Machine.
func (m *machine) Result(off uint32, p []byte) { m.passed(resultArg, off, p) }

// passed fills p with bytes of an aggregate that was passed by value.
func (m *machine) passed(arg int, off uint32, p []byte) {
	i := passedIn(m.sources, arg, off, uint32(len(p)))
	if i < 0 {
		m.unreadableArg = true
		return
	}
	b, ok := m.raw(&m.sources[i])
	if !ok {
		m.unreadableArg = true
		return
	}
	copy(p, b[off-m.sources[i].argOff:])
}

// passedIn returns the source that has size bytes at off of a parameter's image, or -1.
func passedIn(all []source, arg int, off, size uint32) int {
	for i := range all {
		if s := &all[i]; s.byValue && s.arg == arg && off >= s.argOff && off-s.argOff+size <= s.slot.Size {
			return i
		}
	}
	return -1
}

// record returns the record that was sent at a phase; nil if it is not there.
func (m *machine) record(at expr.Phase) *event.Event {
	if at == expr.AtEntry {
		return m.entry
	}
	return m.ret
}

// at returns the same for a value that needs it.
func (m *machine) at(p expr.Phase) *event.Event {
	e := m.record(p)
	if e == nil {
		m.missing = true
	}
	return e
}

// any returns a record of the call.
func (m *machine) any() *event.Event {
	if m.entry != nil {
		return m.entry
	}
	return m.ret
}

// Context is part of expr.Machine.
func (m *machine) Context(v expr.ContextVar, at expr.Phase) uint64 {
	e := m.any()
	switch {
	case v == expr.ContextPID && e.Inner.Ours:
		return uint64(e.Inner.PID)
	case v == expr.ContextPID:
		return uint64(e.PID)
	case v == expr.ContextTID && e.Inner.Ours:
		return uint64(e.Inner.TID)
	case v == expr.ContextTID:
		return uint64(e.TID)
	case v == expr.ContextTime && at == expr.AtEntry:
		return m.began()
	case v == expr.ContextDuration:
		ret := m.at(expr.AtReturn)
		if ret == nil {
			return 0
		}
		return ret.Time - m.began()
	}
	if e = m.at(at); e == nil {
		return 0
	}
	switch v {
	case expr.ContextCPU:
		return uint64(e.CPU)
	case expr.ContextTime:
		return e.Time
	case expr.ContextUID:
		return uint64(e.Owner.UID)
	case expr.ContextCgroup:
		return e.Owner.Cgroup
	}
	m.missing = true
	return 0
}

// began returns when the function was entered.
func (m *machine) began() uint64 {
	switch {
	case m.entry != nil:
		return m.entry.Time
	case m.ret != nil && m.ret.EntryTime != 0:
		return m.ret.EntryTime
	}
	m.missing = true
	return 0
}

// Comm is part of expr.Machine.
func (m *machine) Comm(at expr.Phase) string {
	return string(m.comm(at))
}

// comm returns the name of the task as of a phase. If no record of that phase was sent, the name
// may have been captured.
func (m *machine) comm(at expr.Phase) []byte {
	var name []byte
	if e := m.record(at); e != nil {
		name = e.Comm[:]
	} else if i := commOf(m.sources, at); i >= 0 {
		name, _ = m.raw(&m.sources[i])
	} else {
		m.missing = true
	}
	name, _, _ = bytes.Cut(name, []byte{0})
	return name
}

// commOf returns the source that has $comm as of a phase, or -1.
func commOf(all []source, at expr.Phase) int {
	for i := range all {
		if s, ok := all[i].term.(*expr.Text); ok && s.Addr == nil && s.At == at {
			return i
		}
	}
	return -1
}
