// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/cilium/ebpf/btf"
)

// maxText is how many bytes of text are read behind a `char *`.
const maxText = 256

// A pointee is the target type of a pointer. It is compiled when a pointer is first
// followed: through pointers, nearly every type of the kernel can be reached.
type pointee struct {
	target btf.Type
	state  atomic.Pointer[followed]
}

// followed is the result of compiling a pointee.
type followed struct {
	p    *Printer // nil if nothing can be shown
	text bool     // `char *`
}

// compile compiles the target on first use. Two goroutines may both do so; the results
// are equal, and either is kept.
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

// follow writes ` -> (struct sock){ … }` if the memory at addr was captured. A gap in it is
// marked, and the text around it continues.
func (w *valueWriter) follow(t *pointee, addr uint64) {
	to, raw := w.behind(t, addr)
	if to == nil {
		return
	}
	w.str(" -> ")
	inner := *w
	inner.enter(to, raw, addr)
	if to.text {
		inner.text(throughNUL(raw), len(raw)+1) // without a NUL, the string is longer
	} else {
		if w.o.Hide&HideTypes == 0 {
			inner.span(to.p.root.cast)
		}
		inner.bytes(&to.p.root, &to.p.bodies[to.p.root.body], 0)
	}
	w.dst, w.line = inner.dst, inner.line
}

// closeNested closes a bracket after a gap. Only followed memory needs this: a gap in the
// value itself ends the text.
func (w *valueWriter) closeNested(bracket byte) {
	if w.hops == 0 || len(w.dst) > w.limit {
		return
	}
	w.newline()
	w.depth--
	w.close(bracket)
}
