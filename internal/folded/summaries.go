// SPDX-License-Identifier: Apache-2.0

package folded

import (
	"errors"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// Check returns why tables have no folded stacks; nil if they have.
func Check(t *summary.Tables) error {
	switch {
	case len(t.List) != 1:
		return errors.New("folded stacks take one item that adds up by $stack or $ustack, as count()[$stack], and the same types in all functions")
	case t.List[0].Agg.Fn != expr.AggCount && t.List[0].Agg.Fn != expr.AggSum:
		return errors.New("folded stacks take count() or sum(x): they have one weight each")
	case !slices.ContainsFunc(t.List[0].Agg.Keys, isStack):
		return errors.New("folded stacks take $stack or $ustack as a key")
	}
	return nil
}

func isStack(k expr.Capture) bool {
	c, ok := k.Value.(*expr.ContextTerm)
	return ok && (c.Var == expr.ContextStack || c.Var == expr.ContextUserStack)
}

// AppendSummary adds the rows of a table, whose tables Check has seen, and appends nothing yet. A
// key that is no stack is a frame below all others.
func (p *Printer) AppendSummary(dst []byte, x *summary.Summary) ([]byte, error) {
	for i := range x.Tables {
		t := &x.Tables[i]
		keys, _, err := p.keys.Keys(t.Table)
		if err != nil {
			return dst, err
		}
		for j := range t.Rows {
			r := &t.Rows[j]
			n := r.Words[0]
			if t.Agg.Fn == expr.AggSum {
				n = summary.Sum(r.Words)
				if summary.Signed(t.Agg) && int64(n) < 0 {
					continue // it has no width
				}
			}
			p.line = p.appendKeys(p.line[:0], keys, t.Table, r, x.Stacks)
			p.addLine(n)
		}
	}
	return dst, nil
}

// appendKeys appends the frames of a row: its keys, then the process's stack, then the kernel's.
func (p *Printer) appendKeys(dst []byte, keys []output.Field, t *summary.Table, r *summary.Row, stacks summary.Stacks) []byte {
	e := output.KeyEvent(t, r)
	for _, k := range keys {
		if v, ok := k.KeyVar(); !ok || v == expr.ContextFunc {
			start := begin(&dst)
			dst = withoutSeparators(k.AppendKey(dst, p.run.Plan, e), start)
		}
	}
	for _, wanted := range [...]expr.ContextVar{expr.ContextUserStack, expr.ContextStack} {
		for _, k := range keys {
			if v, ok := k.KeyVar(); !ok || v != wanted {
				continue
			}
			scalar, _ := k.Slots()
			number, _ := e.Value(scalar)
			dst = p.appendNumbered(dst, t, number, wanted == expr.ContextUserStack, stacks)
		}
	}
	return dst
}

// appendNumbered appends the frames of a stack, outermost first.
func (p *Printer) appendNumbered(dst []byte, t *summary.Table, number uint64, user bool, stacks summary.Stacks) []byte {
	var s summary.Stack
	ok := false
	if stacks != nil {
		s, ok = stacks.Stack(number, user)
	}
	switch {
	case !ok:
		begin(&dst)
		return append(dst, "[no stack]"...)
	case user:
		addrs, process := p.tails.SummedUser(&s)
		for i, addr := range slices.Backward(addrs) {
			start := begin(&dst)
			dst = withoutSeparators(process.AppendFrame(dst, addr, i > 0), start)
		}
		return dst
	}
	p.frames = p.tails.AppendSummed(p.frames[:0], t, &s)
	slices.Reverse(p.frames)
	if len(p.frames) > 0 {
		begin(&dst)
	}
	return appendStack(dst, p.frames)
}

// begin begins another frame and returns where it is.
func begin(dst *[]byte) int {
	if len(*dst) > 0 {
		*dst = append(*dst, ';')
	}
	return len(*dst)
}
