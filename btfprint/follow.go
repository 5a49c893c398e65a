// SPDX-License-Identifier: Apache-2.0

package btfprint

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
