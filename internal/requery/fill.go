// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"bytes"
	"encoding/binary"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// A fill says how one slot of a new record is made of recorded ones.
type fill struct {
	slot layout.Slot
	how  how
	term expr.Term // rewritten: a scalar, or the length of a buffer
	// at says where the bytes are: in the memory of a source or, if the slot is copied, in its
	// slot.
	at spot
	// phase is that of the task's name.
	phase expr.Phase
}

// how a slot is made.
type how uint8

const (
	byTerm   how = iota // its value is computed
	bySlot              // bytes of a slot: of the same kind, or of what was passed by value
	byBytes             // bytes of a region
	byText              // a string in a region that may end before it does
	byBuffer            // as many bytes of a region as the term says
	byName              // the name of the task
	byFunc              // of a key: the number of the probe
	byStack             // and that of a stack
	byUserStack
)

// newFill returns how the slot of a new record with term t is made. ok is false if it does not
// follow from what was recorded.
func (r *recording) newFill(s layout.Slot, t expr.Term) (f fill, ok bool) {
	f = fill{slot: s}
	switch t := t.(type) {
	case *expr.Object:
		return r.fillObject(f, t)
	case *expr.Text:
		return r.fillText(f, t)
	case *expr.Buffer:
		return r.fillBuffer(f, t)
	}
	f.term, ok = r.rewrite(t)
	return f, ok
}

func (r *recording) fillObject(f fill, t *expr.Object) (fill, bool) {
	if t.Addr == nil {
		f.how = bySlot
		f.at.in = passedIn(r.sources, max(t.Arg, resultArg), uint32(t.Off), f.slot.Size)
		if f.at.in >= 0 {
			f.at.off = t.Off - int64(r.sources[f.at.in].argOff)
		}
		return f, f.at.in >= 0
	}
	var ok bool
	f.how = byBytes
	f.at, ok = r.locate(t.Addr, t.Off, f.slot.Size, t.Space, t.At, inBytes)
	return f, ok
}

func (r *recording) fillText(f fill, t *expr.Text) (_ fill, ok bool) {
	if t.Addr == nil {
		f.how, f.phase = byName, t.At
		_, ok = r.rewriteText(t, t.Max)
		return f, ok
	}
	if f.at.in = r.sameSlot(t, f.slot.Size); f.at.in >= 0 {
		f.how = bySlot
		return f, true
	}
	f.how = byText
	if !t.Terminated() {
		f.how = byBytes
	}
	f.at, ok = r.locateText(t, t.Max)
	return f, ok
}

func (r *recording) fillBuffer(f fill, t *expr.Buffer) (_ fill, ok bool) {
	if f.at.in = r.sameSlot(t, f.slot.Size); f.at.in >= 0 {
		f.how = bySlot
		return f, true
	}
	if f.term, ok = r.rewrite(t.N); !ok {
		return f, false
	}
	f.how = byBuffer
	f.at, ok = r.locate(t.Addr, 0, 1, t.Space, t.At, inTarget)
	return f, ok
}

// sameSlot returns the source that is what is asked for, or -1.
func (r *recording) sameSlot(t expr.Term, size uint32) int {
	c := canon(t)
	for i := range r.sources {
		if s := &r.sources[i]; s.slot.Size == size && !scalar(s.term) && expr.Same(s.term, c) {
			return i
		}
	}
	return -1
}

// into writes the slot's bytes to a record's data. ok is false if they could not be read.
func (f *fill) into(data []byte, m *machine) (ok bool) {
	dst := data[f.slot.Off:][:f.slot.Size]
	switch f.how {
	case byTerm:
		v, err := m.eval(f.term)
		binary.LittleEndian.PutUint64(dst, v)
		return err == nil
	case byName:
		copy(dst, m.comm(f.phase))
		return !m.missing
	case bySlot:
		b, ok := m.raw(&m.sources[f.at.in])
		return ok && copy(dst, b[f.at.off:]) == len(dst)
	}
	b, ok := m.from(f.at)
	if !ok {
		return false
	}
	switch f.how {
	case byText:
		return f.copyText(dst, b, m)
	case byBuffer:
		return f.copyBuffer(dst, b, m)
	}
	if copy(dst, b) < len(dst) {
		m.unsure = true
		return false
	}
	return true
}

// from returns the bytes of a region from a spot on.
func (m *machine) from(at spot) (b []byte, ok bool) {
	off := uint64(at.off)
	if at.index != nil {
		n, err := m.eval(at.index)
		if err != nil {
			return nil, false
		}
		off += n
	}
	if b, ok = m.memory(at.in); !ok {
		return nil, false
	}
	return b[min(off, uint64(len(b))):], true
}

// copyText copies a string up to its NUL. As in a record of the kernel, the last byte is a NUL
// if the string goes on.
func (f *fill) copyText(dst, b []byte, m *machine) bool {
	if n := bytes.IndexByte(b, 0); n >= 0 {
		b = b[:n]
	} else if len(b) < len(dst) {
		m.unsure = true
		return false
	}
	copy(dst[:len(dst)-1], b)
	return true
}

// copyBuffer copies as many bytes as were asked for, behind their number.
func (f *fill) copyBuffer(dst, b []byte, m *machine) bool {
	n, err := m.eval(f.term)
	if err != nil {
		return false
	}
	binary.LittleEndian.PutUint64(dst, n)
	n = min(n, uint64(len(dst)-8))
	if uint64(len(b)) < n {
		m.unsure = true
		return false
	}
	copy(dst[8:], b[:n])
	return true
}
