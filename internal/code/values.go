// SPDX-License-Identifier: Apache-2.0

package code

import "maps"

// What the walker does with values on all architectures.

// fresh returns a value that an instruction has made.
func (w *walker) fresh(in *Instruction, v Value) *Value {
	v.From, v.Step = in.Addr, w.step
	return &v
}

// forget makes all unknown but where the stack is.
func (w *walker) forget() {
	sp := w.words[w.machine.pointer]
	clear(w.words)
	clear(w.stack)
	w.words[w.machine.pointer] = sp
}

// disturb makes what others may have changed on the stack unknown.
func (w *walker) disturb() {
	maps.DeleteFunc(w.stack, func(at int64, h held) bool { return w.taken != nil && at+int64(h.size) > *w.taken })
}

// escape notes that an address on the stack is held elsewhere than in a register that points to
// the frame: whoever knows it may change what lies there, and above.
func (w *walker) escape(v *Value) {
	if v == nil || v.Kind != Frame {
		return
	}
	if w.taken == nil || v.N < *w.taken {
		w.taken = &v.N
	}
}

// mostSlots is how many places of a stack are known at once.
const mostSlots = 256

// store changes memory.
func (w *walker) store(at *Value, size int, v *Value) {
	if at == nil || at.Kind != Frame {
		w.disturb()
		return
	}
	maps.DeleteFunc(w.stack, func(other int64, h held) bool { return other < at.N+int64(size) && at.N < other+int64(h.size) })
	if len(w.stack) >= mostSlots {
		clear(w.stack)
	}
	if v != nil {
		w.stack[at.N] = held{v, size}
	}
}

// loadStack returns what is on the stack; nil if at is not a place there, or that is not known.
func (w *walker) loadStack(at *Value, size int) *Value {
	if at == nil || at.Kind != Frame || w.stack[at.N].size != size {
		return nil
	}
	return w.stack[at.N].Value
}

// call executes a call: what the called function may change is unknown then.
func (w *walker) call(in *Instruction) {
	if w.callees.keeps(in) {
		w.disturb()
		return
	}
	result := w.result(in)
	for _, word := range w.machine.changed {
		w.words[word] = nil
	}
	w.disturb()
	w.words[w.machine.result] = result
}
