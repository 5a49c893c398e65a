// SPDX-License-Identifier: Apache-2.0

package code

import "encoding/binary"

// operationAt decodes the instruction at an address.
func (f *Function) operationAt(addr uint64) operationARM64 {
	text := f.codeAt(addr)
	if len(text) < 4 {
		return operationARM64{}
	}
	return operationOf(binary.LittleEndian.Uint32(text))
}

// executeARM64 executes an instruction on what is known of values. What it does not know makes
// all that it could change unknown.
func (w *walker) executeARM64(in *Instruction) {
	o := w.f.operationAt(in.Addr)
	if o.sets || o.do == doCompareIf {
		w.compare = w.comparisonARM64(in, &o)
	}
	switch o.do {
	case doAnything:
		w.reset()
	case doNothing, doCompareIf, doFlags:
	case doSign:
		w.words[linkARM64], w.words[16], w.words[17] = nil, nil, nil
	case doCall:
		if !w.f.tracerARM64(in.Addr) {
			w.call(in)
		}
	case doLoad, doStore, doExchange:
		w.accessARM64(in, &o)
	default:
		v := w.computedARM64(in, &o)
		if v == nil || v.Kind == Frame && o.size < 8 {
			v = w.fresh(in, Value{Kind: Opaque})
		}
		if o.d != stackARM64 && o.d != frameARM64 {
			w.escape(v)
		}
		w.setARM64(o.d, v)
	}
}

// tracerARM64 reports whether the call at an address is of the tracer of functions, which changes
// nothing: it is behind the first "mov x9, x30" of a function.
func (f *Function) tracerARM64(addr uint64) bool {
	const saved = 0xaa1e03e9
	text := f.codeAt(addr - 4)
	return addr-f.Parts[0].Addr <= 8 && len(text) >= 4 && binary.LittleEndian.Uint32(text) == saved
}

func (w *walker) setARM64(word int, v *Value) {
	if word != noWord {
		w.words[word] = v
	}
}

// registerARM64 returns what a register holds; nil if it is not known.
func (w *walker) registerARM64(in *Instruction, word int) *Value {
	if word == noWord {
		return w.fresh(in, Value{Kind: Constant})
	}
	return w.words[word]
}

// secondARM64 returns the second operand.
func (w *walker) secondARM64(in *Instruction, o *operationARM64) *Value {
	m := &o.m
	if m.immediate {
		return w.fresh(in, Value{Kind: Constant, N: int64(m.number)})
	}
	v := w.registerARM64(in, m.word)
	switch {
	case v == nil:
		return nil
	case v.Kind == Constant:
		return w.fresh(in, Value{Kind: Constant, N: int64(m.of(uint64(v.N), o.size))})
	case m.shift != 0:
		return nil
	case m.how >= zeroExtend1:
		return w.extendedARM64(in, v, m.how.bytes(), m.how >= signExtend1)
	}
	return v
}

// extendedARM64 returns a value of which the lowest bytes were made longer.
func (w *walker) extendedARM64(in *Instruction, v *Value, size int, signed bool) *Value {
	switch {
	case v == nil || v.Kind == Chosen || v.Kind == Memory && v.Size <= size:
		return v
	case v.Kind == Frame && size < 8:
		return nil
	case size >= 4:
		return v
	case signed:
		return nil
	}
	return w.fresh(in, Value{Kind: Masked, Base: v, N: 1<<(8*size) - 1})
}

// computedARM64 returns what an instruction makes of registers; nil if that has no form.
func (w *walker) computedARM64(in *Instruction, o *operationARM64) *Value {
	before, second := w.registerARM64(in, o.n), w.secondARM64(in, o)
	constant := second != nil && second.Kind == Constant
	if constant && before != nil && before.Kind == Constant || o.do == doSet || o.do == doField || o.do == doSigned || o.do == doInsert {
		if v := w.constantARM64(in, o); v != nil {
			return v
		}
	}
	switch {
	case o.do == doCompute || o.do == doInsert:
		return nil
	case o.do == doChoose:
		return w.fresh(in, Value{Kind: Chosen})
	case o.do == doOr && o.n == noWord && !o.not: // MOV
		return second
	case before == nil:
	case before.Kind == Chosen && (o.m.immediate || o.do == doField || o.do == doSigned):
		return before // which of two it is, has been decided
	case o.do == doAdd && constant:
		return before.plus(second.N)
	case o.do == doSubtract && constant:
		return before.plus(-second.N)
	case o.do == doAnd && constant && before.Kind != Masked && before.Kind != Frame:
		mask := uint64(second.N)
		if o.not {
			mask = low(^mask, o.size)
		}
		return w.fresh(in, Value{Kind: Masked, Base: before, N: int64(mask)})
	case (o.do == doField || o.do == doSigned) && o.rotate == 0 && (o.top == 7 || o.top == 15 || o.top == 31):
		return w.extendedARM64(in, before, (o.top+1)/8, o.do == doSigned)
	case o.do == doField && o.rotate == 0 && o.top < 31 && before.Kind != Masked && before.Kind != Frame:
		return w.fresh(in, Value{Kind: Masked, Base: before, N: 1<<(o.top+1) - 1})
	}
	return nil
}

// constantARM64 returns what an instruction makes of constants; nil if they are none.
func (w *walker) constantARM64(in *Instruction, o *operationARM64) *Value {
	m := imagined{words: make([]known, len(w.words))}
	for _, word := range [...]int{o.d, o.n, o.m.word} {
		if word != noWord {
			m.words[word] = w.words[word].as(nil)
		}
	}
	if v := m.computedARM64(o); v.kind == number && v.size == 8 {
		return w.fresh(in, Value{Kind: Constant, N: int64(v.v)})
	}
	return nil
}

// accessARM64 executes a load or store.
func (w *walker) accessARM64(in *Instruction, o *operationARM64) {
	m := &o.mem
	var base *Value
	if m.base != noWord {
		base = w.words[m.base]
	}
	at := base.plus(m.offset)
	if m.index {
		at = nil
	}
	for i, word := range m.regs[:m.count] {
		place := at.plus(int64(i * m.size))
		switch {
		case o.do == doLoad:
			v := w.loadARM64(in, place, m)
			if !m.vectors {
				w.setARM64(word, v)
			}
		case o.do == doExchange, m.vectors:
			w.escape(w.heldARM64(in, word, m))
			w.store(place, m.size, nil)
		default:
			v := w.heldARM64(in, word, m)
			w.escape(v)
			w.store(place, m.size, v)
		}
	}
	w.setARM64(m.status, nil)
	if m.update != 0 {
		w.setARM64(m.base, base.plus(m.update))
	}
}

// heldARM64 returns what a register that is stored holds.
func (w *walker) heldARM64(in *Instruction, word int, m *memoryARM64) *Value {
	if m.vectors {
		return nil
	}
	return w.registerARM64(in, word)
}

// loadARM64 returns what is in memory.
func (w *walker) loadARM64(in *Instruction, at *Value, m *memoryARM64) *Value {
	var v *Value
	switch {
	case at == nil:
	case at.Kind == Frame:
		if v = w.loadStack(at, m.size); v != nil && v.Kind == Constant {
			v = w.fresh(in, Value{Kind: Constant, N: int64(m.extended(uint64(v.N)))})
		} else if m.size < 8 {
			v = w.extendedARM64(in, v, m.size, m.signed)
		}
	default:
		if v = at.load(0, m.size); v != nil {
			v.From, v.Step = in.Addr, w.step
		}
	}
	if v == nil {
		v = w.fresh(in, Value{Kind: Opaque})
	}
	return v
}

// comparisonARM64 says what the flags are about; nil if no relation of two values does.
func (w *walker) comparisonARM64(in *Instruction, o *operationARM64) *Comparison {
	c := &Comparison{Addr: in.Addr, Size: o.size, Left: w.sideARM64(in, o, o.n)}
	switch {
	case o.m.immediate:
		c.Right = Side{Operand: None, Value: w.secondARM64(in, o)}
	case o.m.how == shiftLeft && o.m.shift == 0:
		c.Right = w.sideARM64(in, o, o.m.word)
	default:
		c.Right = Side{Operand: None, Value: w.secondARM64(in, o)}
	}
	switch {
	case o.do == doSubtract:
	case o.do == doAdd && o.m.immediate && o.m.number != 0: // of a negative number
		c.Right.Value.N = -c.Right.Value.N
	case o.do == doAnd && !o.not:
		if c.Common = true; !o.m.immediate && o.n == o.m.word && o.m.shift == 0 {
			c.Common, c.Right = false, Side{Operand: None, Value: &Value{Kind: Constant}}
		}
	default: // CCMP among them: it compares two pairs
		return nil
	}
	return c
}

// sideARM64 returns a register that is compared. It is an operand if it is not changed.
func (w *walker) sideARM64(in *Instruction, o *operationARM64, word int) Side {
	s := Side{Operand: None, Value: w.registerARM64(in, word)}
	if word == noWord || word == o.d {
		return s
	}
	text := registerARM64(word, o.size).Text
	for i := range in.operands {
		if in.operands[i].Text == text {
			s.Operand, s.text = i, text
		}
	}
	return s
}
