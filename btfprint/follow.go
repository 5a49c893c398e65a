// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/cilium/ebpf/btf"
)

// maxText is how much of the text behind a `char *` is asked for.
const maxText = 256

// A pointee is the type that a pointer points to. It is compiled when a
// pointer is followed for the first time: through pointers every type of the
// kernel is within reach.
type pointee struct {
	target btf.Type
	state  atomic.Pointer[followed]
}

// followed is the result of compiling a pointee.
type followed struct {
	p    *Printer // nil where nothing can be shown
	text bool     // `char *`
}

func (t *pointee) compile(little bool) *followed {
	if done := t.state.Load(); done != nil {
		return done
	}
	done := &followed{}
	var order binary.ByteOrder = binary.BigEndian
	if little {
		order = binary.LittleEndian
	}
	if p, err := Compile(t.target, order); err == nil && p.Size() > 0 {
		done.p = p
		b := &p.bodies[p.root.body]
		done.text = b.kind == kindInt && b.size == 1 && b.isChar
	}
	t.state.Store(done)
	return done
}

// follow writes what lies at an address, ` -> (struct sock){ … }`, if it was
// captured. What is missing of it is marked, the text around it goes on.
func (w *valueWriter) follow(t *pointee, addr uint64) {
	to, raw := w.behind(t, addr)
	if to == nil {
		return
	}
	w.str(" -> ")
	inner := *w
	inner.enter(to, raw, addr)
	if to.text {
		inner.text(throughNUL(raw), len(raw)+1) // without a NUL there is more
	} else {
		if w.o.Hide&HideTypes == 0 {
			inner.span(to.p.root.cast)
		}
		inner.bytes(&to.p.root, &to.p.bodies[to.p.root.body], 0)
	}
	w.dst, w.line = inner.dst, inner.line
}

// closeNested closes a bracket behind a gap: only in memory that was followed,
// as a gap in the value itself ends the text.
func (w *valueWriter) closeNested(bracket byte) {
	if w.hops == 0 || len(w.dst) > w.limit {
		return
	}
	w.newline()
	w.depth--
	w.close(bracket)
}
