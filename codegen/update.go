// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"math"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// Registers of the code that adds a value to a row.
const (
	rowReg    = asm.R1
	bucketReg = asm.R2
)

// add adds a call to its tables. Like sending, it leaves out calls of ksnoop itself.
func (a *assembler) add(updates []layout.Update) {
	a.unlessSelf()
	if len(updates) > 1 || a.target.Shared {
		a.keepContext()
	}
	for i := range updates {
		a.update(&updates[i])
	}
}

// unlessSelf leaves out calls of ksnoop itself, but not what an interrupt does meanwhile. Linux 7.0 and later have no call
// in it: they inline the helper. The engine's ks_in_interrupt does the same, but a program that calls another function
// takes 31 instructions more each time.
func (a *assembler) unlessSelf() {
	self := int32(a.target.Self)
	if self == 0 {
		return
	}
	a.say("a call of our own?")
	if a.target.SelfOffset == 0 {
		a.helper(asm.FnGetCurrentPidTgid)
		a.emit(asm.RSh.Imm(asm.R0, 32))
	} else {
		a.helper(asm.FnGetCurrentTaskBtf)
		a.emit(asm.LoadMem(asm.R0, asm.R0, int16(a.target.SelfOffset), asm.Word))
	}
	count := a.target.preemptCount()
	if count == nil {
		a.emit(asm.JEq.Imm(asm.R0, self, a.drop))
		return
	}
	own, others, drop, ctx := a.label("own"), a.label("others"), a.drop, a.ctx
	a.emit(asm.JEq.Imm(asm.R0, self, own))
	a.place(others)
	a.later = append(a.later, func() {
		const nmis = asm.R2
		a.ctx = ctx
		a.place(own)
		a.say("is it an interrupt's?")
		a.saveContext()
		a.emit(count...)
		a.restoreContext()
		a.emit(asm.JSet.Imm(asm.R0, servingSoftirq, others), asm.Mov.Reg(nmis, asm.R0))
		a.emit(asm.RSh.Imm(asm.R0, hardirqShift), asm.And.Imm(asm.R0, 15), asm.RSh.Imm(nmis, nmiShift), asm.And.Imm(nmis, 15))
		a.emit(asm.JGT.Reg(asm.R0, nmis, others), asm.Ja.Label(drop)) // a breakpoint counts as both
	})
}

// wholly decides whether a call is wanted, and adds it to its tables. With one table only the end has a
// lasting effect, so the guard is taken only if a load of a 0 needs a helper to tell it from a fault.
func (a *assembler) wholly(updates []layout.Update, preds []layout.Predicate) {
	if len(updates) == 1 {
		a.lightly(false, func() {
			a.predicates(preds)
			a.add(updates)
		})
		return
	}
	a.keepFor(updates, preds)
	a.lightly(callsHelpers(updates), func() { a.predicates(preds) })
	a.add(updates)
}

// keepFor keeps the context for updates where a predicate may take the guard and let it go again,
// which changes R1.
func (a *assembler) keepFor(updates []layout.Update, preds []layout.Predicate) {
	if len(updates) > 0 && slices.ContainsFunc(preds, func(p layout.Predicate) bool { return expr.ReadsMemory(p.Term) }) {
		a.keepContext()
	}
}

// callsHelpers reports whether updates read memory or take stacks, for which the program needs the
// guard. Nothing that is called to add to a row can be traced.
func callsHelpers(updates []layout.Update) bool {
	calls := func(t expr.Term) bool {
		return t != nil && (expr.ReadsMemory(t) || !expr.Walk(t, func(t expr.Term) bool {
			c, ok := t.(*expr.ContextTerm)
			return !ok || c.Var != expr.ContextStack && c.Var != expr.ContextUserStack && c.Var != expr.ContextCgroup
		}))
	}
	return slices.ContainsFunc(updates, func(u layout.Update) bool {
		return calls(u.Value) || slices.ContainsFunc(u.Key.Slots, func(s layout.Slot) bool {
			_, text := s.Term.(*expr.Text)
			return calls(s.Term) || text && expr.ReadsMemory(s.Term)
		})
	})
}

// update adds a call to one table. A value that cannot be read is counted as a fault.
func (a *assembler) update(u *layout.Update) {
	g := a.probe.Items[u.Item].Aggregation
	next, depth := a.label("added"), a.depth
	a.say(g.Label)
	aside := len(u.Key.Slots) > 0 || a.target.Tables.Sharded() // what finds the row changes R0
	if u.Value != nil {
		a.summand(u.Value, next)
		if aside {
			a.spill()
		}
	}
	if len(u.Key.Slots) > 0 {
		a.rowOfKey(u, next)
	} else {
		a.cpu()
		a.emit(a.target.Tables.AppendRow(nil, rowReg, u.Table)...)
	}
	if u.Value != nil && aside {
		a.unspill(asm.R0)
	}
	a.accumulate(g, u)
	a.place(next)
	a.depth = depth
}

// cpu sets R0 to the number of the CPU, if tables need it.
func (a *assembler) cpu() {
	if a.target.Tables.Sharded() {
		a.emit(asm.FnGetSmpProcessorId.Call())
	}
}

// summand computes a value into R0. A fault leads to next.
func (a *assembler) summand(t expr.Term, next string) {
	fault, faulted := a.fault, a.faulted
	a.fault, a.faulted = a.label("unreadable"), false
	a.value(t, useNumber)
	if a.faulted {
		a.placeNotAdded(next)
	}
	a.fault, a.faulted = fault, faulted
}

// placeNotAdded places the fault exit, where the call is counted as a fault of the SPEC and not added up.
func (a *assembler) placeNotAdded(next string) {
	fault, ctx, source := a.fault, a.ctx, a.source
	a.later = append(a.later, func() {
		a.ctx, a.source = ctx, source
		a.place(fault)
		a.emit(asm.Mov.Imm(asm.R1, int32(bpf.Fault)), call(bpf.FuncCount), asm.Ja.Label(next))
	})
}

// rowOfKey computes the key on the stack and finds its row. If there is none, it goes on at next. A short key
// that is in the first place for it, as most are, is found without a call.
func (a *assembler) rowOfKey(u *layout.Update, next string) {
	words := u.KeyWords()
	a.depth += words
	at := stackSpill - 8*(a.depth-1)
	dest, data, mask, stashing := a.dest, a.data, a.mask, a.stashing
	a.dest, a.data, a.mask, a.stashing = asm.RFP, at, at, true
	fault, faulted := a.fault, a.faulted
	if u.Unsure {
		a.emit(storeZero(asm.RFP, int16(at)))
		a.data += 8
	} else {
		a.maskless = next // a read that the layout relies on: of a parameter on the stack
	}
	for i := range u.Key.Slots {
		a.keyPart(u, i)
	}
	a.fault, a.faulted, a.maskless = fault, faulted, ""
	a.dest, a.data, a.mask, a.stashing = dest, data, mask, stashing
	a.say("the row of this key")
	search := func() {
		a.emit(asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(at)), asm.Mov.Imm(asm.R2, int32(u.Table)), call(bpf.FuncRow),
			asm.JEq.Imm(asm.R0, 0, next), asm.Mov.Reg(rowReg, asm.R0))
	}
	if words <= bpf.KnownWords {
		other := a.label("other_row")
		a.cpu()
		a.emit(a.target.Tables.AppendKnownRow(nil, rowReg, u.Table, words, int16(at), other)...)
		a.aside(other, search)
	} else {
		search()
	}
	a.depth -= words
}

// keyPart stores one part of a key. What is not stored, such as the bytes behind a string, is 0.
func (a *assembler) keyPart(u *layout.Update, i int) {
	s := u.Key.Slots[i]
	s.Size = layout.KeyBytes(&s)
	if s.Size != 8 || u.Unsure {
		for off := uint32(0); off < s.Size; off += 8 {
			a.emit(storeZero(asm.RFP, int16(a.data+int(s.Off+off))))
		}
	}
	if u.Kept[i] < 0 {
		a.store(&s)
		return
	}
	a.say("kept: " + a.slotText(&s))
	kept := &a.probe.Return.Record.Slots[u.Kept[i]]
	a.fault, a.faulted = a.label("fault"), false
	if expr.CanFault(kept.Term) {
		a.unlessFaulted(kept.Index)
	}
	for off := uint32(0); off < kept.Size; off += 8 {
		a.emit(asm.LoadMem(asm.R0, a.frame, int16(bpf.FrameData+int(kept.Off+off)-a.base), asm.DWord))
		a.put(int(s.Off + off))
	}
	a.placeFault(s.Index)
}

// accumulate adds the value in R0 to the row in rowReg.
func (a *assembler) accumulate(g *expr.Aggregation, u *layout.Update) {
	a.say(g.Label)
	switch g.Fn {
	case expr.AggCount:
		a.addOne(0)
	case expr.AggSum, expr.AggAvg:
		a.emit(bpf.AppendAdd(nil, rowReg, asm.R0, 1)...)
		a.addOne(0)
	case expr.AggMin, expr.AggMax:
		a.emit(asm.Mov.Reg(asm.R2, asm.R0))
		a.addOne(0)
		a.raise(g, 1, g.Fn == expr.AggMin)
	case expr.AggStats:
		a.emit(bpf.AppendAdd(nil, rowReg, asm.R0, 1)...)
		a.emit(asm.Mov.Reg(asm.R2, asm.R0))
		a.addOne(0)
		a.twice(func() { a.raise(g, 2, true) }, func() { a.raise(g, 3, false) })
	case expr.AggHist:
		if g.Sub == 0 {
			a.countPower(g)
			return
		}
		a.countBucket(g, 0)
	case expr.AggLHist:
		a.countBucket(g, 0)
	case expr.AggQuantiles:
		a.emit(asm.Mov.Reg(asm.R2, asm.R0))
		a.twice(func() { a.raise(g, 0, false) }, func() {
			a.emit(asm.Mov.Reg(asm.R0, asm.R2))
			a.countBucket(g, 1)
		})
	case expr.AggTop:
		words := int32(u.KeyWords())
		a.emit(asm.Mov.Reg(asm.R2, asm.R0), asm.Mov.Imm(asm.R3, int32(g.Candidates())), asm.Mov.Imm(asm.R4, words), call(bpf.FuncObserve))
	}
}

// addOne adds 1 to a word of the row. R0 changes.
func (a *assembler) addOne(word int) {
	a.emit(asm.Mov.Imm(asm.R0, 1))
	a.emit(bpf.AppendAdd(nil, rowReg, asm.R0, word)...)
}

// twice emits two steps that both take the row and, in R2, the value.
func (a *assembler) twice(first, second func()) {
	row := stackSpill - 8*a.depth
	a.emit(asm.StoreMem(asm.RFP, int16(row), rowReg, asm.DWord), asm.StoreMem(asm.RFP, int16(row-8), asm.R2, asm.DWord))
	first()
	a.emit(asm.LoadMem(rowReg, asm.RFP, int16(row), asm.DWord), asm.LoadMem(asm.R2, asm.RFP, int16(row-8), asm.DWord))
	second()
}

// raise sets a word of the row to the order of the value in R2, if that is more. For a minimum it
// takes the complement.
func (a *assembler) raise(g *expr.Aggregation, word int, complement bool) {
	if _, signed, _ := expr.Number(g.Value.Type()); signed {
		a.emit(asm.LoadImm(asm.R3, -1<<63, asm.DWord), asm.Xor.Reg(asm.R2, asm.R3))
	}
	if complement {
		a.emit(asm.Xor.Imm(asm.R2, -1))
	}
	if word != 0 {
		a.emit(asm.Add.Imm(rowReg, int32(8*word)))
	}
	a.emit(call(bpf.FuncRaise))
}

// countBucket adds 1 to the bucket of the value in R0. The buckets begin at a word of the row.
func (a *assembler) countBucket(g *expr.Aggregation, word int) {
	found, first := a.label("bucket"), 0
	if g.Fn == expr.AggLHist {
		a.linear(g, found)
	} else {
		first = a.exponential(g, found)
	}
	a.place(found)
	beyond := a.label("beyond")
	a.emit(asm.JGE.Imm(bucketReg, int32(g.Buckets()-first), beyond), // never: for the verifier
		asm.LSh.Imm(bucketReg, 3), asm.Add.Reg(rowReg, bucketReg))
	a.addOne(word + first)
	a.place(beyond)
}

// countPower adds 1 to the bucket of the value in R0, which is one of the powers of two. It searches among the
// bounds of the buckets: to compute the bucket, as for several in a power, takes 9 instructions more.
func (a *assembler) countPower(g *expr.Aggregation) {
	_, signed, _ := expr.Number(g.Value.Type())
	counted := a.label("counted")
	if signed {
		negative := a.label("negative")
		a.emit(asm.JSLT.Imm(asm.R0, 0, negative))
		a.later = append(a.later, func() {
			a.place(negative)
			a.addOne(0)
			a.emit(asm.Ja.Label(counted))
		})
	}
	a.searchPower(g, 1, usual(g), counted)
	a.place(counted)
}

// usual returns a weight for each bucket of hist() but that of numbers below 0: how soon the search for it should
// end. Most numbers are small. A call of less than a microsecond is made often, and the search is a part of what it
// takes; few are shorter than the two looks at the clock.
func usual(g *expr.Aggregation) []int {
	weights := make([]int, g.Buckets()-1)
	for i := range weights {
		low, _ := g.Bounds(i + 1)
		switch time := isDuration(g.Value); {
		case time && low >= 128 && low < 1024:
			weights[i] = 128
		case time && low >= 64 && low < 1<<16:
			weights[i] = 32
		case time && low >= 1<<16 && low < 1<<20:
			weights[i] = 8
		case !time && low < 1<<16:
			weights[i] = 16
		default:
			weights[i] = 1
		}
	}
	return weights
}

func isDuration(t expr.Term) bool {
	c, ok := t.(*expr.ContextTerm)
	return ok && c.Var == expr.ContextDuration
}

// searchPower searches among buckets with these weights, of which the first has this number.
func (a *assembler) searchPower(g *expr.Aggregation, first int, weights []int, counted string) {
	if len(weights) == 1 {
		a.addOne(first)
		a.emit(asm.Ja.Label(counted))
		return
	}
	above, less := a.label("above"), balance(weights)
	low, _ := g.Bounds(first + less)
	if fitsImm(low - 1) {
		a.emit(asm.JGT.Imm(asm.R0, int32(low-1), above))
	} else {
		a.constant(asm.R2, low)
		a.emit(asm.JGE.Reg(asm.R0, asm.R2, above))
	}
	a.searchPower(g, first, weights[:less], counted)
	a.place(above)
	a.searchPower(g, first+less, weights[less:], counted)
}

// balance returns how many of at least two weights weigh most nearly half of all.
func balance(weights []int) int {
	all := 0
	for _, w := range weights {
		all += w
	}
	n, sum := 1, weights[0]
	for ; n < len(weights)-1 && 2*sum+weights[n] < all; n++ {
		sum += weights[n]
	}
	return n
}

// exponential sets bucketReg to the bucket of R0, as expr.Aggregation.Bucket does where a power of two has several
// buckets, less what it returns.
func (a *assembler) exponential(g *expr.Aggregation, found string) (less int) {
	size, signed, _ := expr.Number(g.Value.Type())
	sub, first := int32(g.Sub), int32(0)
	if signed {
		first = 1
		a.emit(asm.Mov.Imm(bucketReg, 0), asm.JSLT.Imm(asm.R0, 0, found))
	}
	small := a.label("small")
	a.emit(asm.JLT.Imm(asm.R0, 1<<sub, small))
	a.later = append(a.later, func() {
		a.place(small)
		a.emit(asm.Mov.Reg(bucketReg, asm.R0))
		if first > 0 {
			a.emit(asm.Add.Imm(bucketReg, first))
		}
		a.emit(asm.Ja.Label(found))
	})
	a.logarithm(size, -sub)
	a.emit(asm.RSh.Reg(asm.R0, bucketReg), // its highest bit counts as one more power
		asm.LSh.Imm(bucketReg, sub), asm.Add.Reg(bucketReg, asm.R0))
	if first > 0 {
		a.emit(asm.Add.Imm(bucketReg, first))
	}
	return 1 - int(first)
}

// logarithm sets bucketReg to the binary logarithm of R0, a number of so many bytes above 0, rounded
// down, plus start.
func (a *assembler) logarithm(size int, start int32) {
	const rest, high = asm.R3, asm.R4
	a.emit(asm.Mov.Reg(rest, asm.R0), asm.Mov.Imm(bucketReg, start))
	if size > 4 {
		large, less := a.label("large"), a.label("less")
		a.emit(asm.JGT.Imm(rest, math.MaxInt32, large))
		a.place(less)
		a.later = append(a.later, func() { // few numbers are
			a.place(large)
			a.emit(asm.Mov.Reg(high, rest), asm.RSh.Imm(high, 32), asm.JEq.Imm(high, 0, less),
				asm.Mov.Reg(rest, high), asm.Add.Imm(bucketReg, 32), asm.Ja.Label(less))
		})
	}
	for bits := min(4*int32(size), 16); bits > 1; bits /= 2 {
		less := a.label("less")
		a.emit(asm.JLT.Imm(rest, 1<<bits, less), asm.RSh.Imm(rest, bits), asm.Add.Imm(bucketReg, bits))
		a.place(less)
	}
	a.emit(asm.RSh.Imm(rest, 1), asm.Add.Reg(bucketReg, rest)) // 1 to 3 are left
}

// linear is exponential for lhist().
func (a *assembler) linear(g *expr.Aggregation, found string) {
	_, signed, _ := expr.Number(g.Value.Type())
	last := int32(g.Buckets() - 1)
	below, above := asm.JLT, asm.JGE
	if signed {
		below, above = asm.JSLT, asm.JSGE
	}
	if signed || g.Low > 0 {
		a.constant(asm.R3, uint64(g.Low))
		a.emit(asm.Mov.Imm(bucketReg, 0), below.Reg(asm.R0, asm.R3, found))
	}
	a.emit(asm.Mov.Imm(bucketReg, last))
	if !signed && g.High <= 0 {
		a.emit(asm.Ja.Label(found))
		return
	}
	a.constant(asm.R3, uint64(g.High))
	a.emit(above.Reg(asm.R0, asm.R3, found))
	a.constant(asm.R3, uint64(g.Low))
	a.emit(asm.Sub.Reg(asm.R0, asm.R3))
	a.constant(asm.R3, uint64(g.Step))
	a.emit(asm.Div.Reg(asm.R0, asm.R3), asm.Mov.Reg(bucketReg, asm.R0), asm.Add.Imm(bucketReg, 1))
}
