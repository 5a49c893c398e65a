// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Check resolves the items of spec in scope and returns them in the order of the text. A
// SPEC without parentheses asks for all arguments and the return value. Check reports all
// faults; a non-nil error is an *ErrorList. It calls scope.Doubt only if there is no error.
func Check(spec *Spec, scope *Scope) ([]Item, error) {
	c := &checker{scope: scope, text: spec.Text, late: spec.Selector.Return}
	if c.late && scope.Point {
		c.point(spec.Selector.Span)
		return nil, &ErrorList{spec.Text, c.errs}
	}
	if c.late {
		c.at = AtReturn
	}
	var items []Item
	if !spec.Parens {
		items = c.everything(spec)
	}
	for _, x := range spec.Items {
		if it, ok := c.item(x); ok && c.available(x, &it) {
			items = append(items, it)
		}
	}
	c.onlyAggregations(items)
	if len(c.errs) > 0 {
		slices.SortStableFunc(c.errs, func(a, b *Error) int { return a.Span.Start - b.Span.Start })
		return nil, &ErrorList{spec.Text, c.errs}
	}
	for _, d := range c.doubts {
		scope.Doubt(d)
	}
	return items, nil
}

// ConstantOf computes an expression of numbers and enumerators, by the rules of the
// language. ok is false if the text has a fault or its value is not constant.
func ConstantOf(text string, types Types) (int64, bool) {
	spec, err := Parse("f(+(" + text + "))")
	if err != nil || len(spec.Items) != 1 {
		return 0, false
	}
	c := checker{scope: &Scope{Types: types}, text: spec.Text}
	o, ok := c.expr(spec.Items[0], nil)
	if !ok {
		return 0, false
	}
	k, ok := o.val.(*Const)
	if !ok {
		return 0, false
	}
	return int64(k.V), true
}

// A checker holds the state of one call of Check.
type checker struct {
	scope *Scope
	text  string
	at    Phase // set inside entry() or exit()
	late  bool  // the SPEC is about returns: its items are read and decided then
	errs  []*Error
	top   Expr // the item being checked
	// pathSeen says that path() is among the items before.
	pathSeen bool
	// several are structs and unions of one name that differ, by the type that stands for all.
	several map[btf.Type][]btf.Type
	// doubts are held back until the end: next to errors they would only distract.
	doubts []*Error
}

// fault records an error. It returns the zero operand and false, for the caller to return.
func (c *checker) fault(code Code, at Span, hint, format string, args ...any) (operand, bool) {
	c.errs = append(c.errs, &Error{code, at, fmt.Sprintf(format, args...), hint})
	return operand{}, false
}

// everything returns the items that a SPEC without parentheses stands for.
func (c *checker) everything(spec *Spec) []Item {
	var items []Item
	for i, p := range c.scope.Params {
		if c.late {
			break
		}
		label := p.Name
		if strings.HasPrefix(label, "$") && !strings.HasPrefix(c.scope.Params[0].Name, "$") {
			break // a kprobe on the first instruction offers registers too, but the parameters cover them
		}
		if label == "" {
			label = "$arg" + strconv.Itoa(i+1)
		}
		if p.Absent || p.Lost != 0 {
			continue
		}
		o := c.param(i)
		if c.scope.Untyped || strings.HasPrefix(p.Name, "$") {
			o.view = ViewHex
		}
		items = append(items, Item{Pos: spec.Selector.Span, Captures: []Capture{c.show(label, o)}})
	}
	if res, ok := c.result(); ok && !c.scope.Point && c.scope.ReturnWhy == "" && c.scope.ReturnLost == 0 {
		items = append(items, Item{Pos: spec.Selector.Span, Captures: []Capture{c.show("return", res)}})
	}
	return items
}

// item checks one item. Only the topmost operator decides whether it is a predicate.
func (c *checker) item(x Expr) (Item, bool) {
	it := Item{Pos: x.Span()}
	top := unparen(x)
	c.top = top
	if call, keys := aggregation(top); call != nil {
		g, ok := c.aggregate(call, keys)
		if ok {
			it.Aggregation, it.Phase = g, g.Phase()
			if c.late {
				it.Phase = AtReturn // what has no value, too: count()
			}
		}
		return it, ok
	}
	if call, ok := top.(*Call); ok && call.Func.Name == pathFunction {
		it.Path = c.path(call)
		return it, it.Path
	}
	if group, ok := c.group(top); ok {
		it.Captures = []Capture{group}
		return it, true
	}
	if !isPredicate(top) {
		if call, ok := top.(*Call); ok && call.Func.Name == "diff" {
			return c.diff(call)
		}
		op, ok := c.whole(x)
		if !ok {
			return it, false
		}
		it.Captures = []Capture{c.show(c.textOf(top), op)}
		return it, true
	}
	op, ok := c.whole(x)
	if !ok {
		return it, false
	}
	it.Predicate = c.truth(op)
	it.Phase = PhaseOf(it.Predicate)
	c.compared(top, &it)
	return it, true
}

// whole checks what stands in no other expression. If the SPEC is about returns it is read then.
func (c *checker) whole(x Expr) (operand, bool) {
	if c.late {
		return c.during(AtReturn, x, nil)
	}
	return c.expr(x, nil)
}

// diff checks diff(x): x at entry and x at return, of which only differences are shown.
func (c *checker) diff(call *Call) (Item, bool) {
	it := Item{Pos: call.Span()}
	if c.scope.Point {
		c.point(call.Pos)
		return it, false
	}
	if !c.arity(call, 1) {
		return it, false
	}
	x := call.Args[0]
	before, ok := c.during(AtEntry, x, nil)
	if !ok {
		return it, false
	}
	after, ok := c.during(AtReturn, x, nil)
	if !ok {
		return it, false
	}
	label := c.textOf(call)
	capture, later := c.show(label, before), c.show(label, after)
	switch {
	case capture.Phase() == AtReturn:
		c.fault(CodeType, x.Span(), "", "diff() compares entry with return, but this is known only at return")
		return it, false
	case later.Phase() == AtEntry:
		c.fault(CodeType, x.Span(), "", "diff() compares entry with return, but this is the same at both")
		return it, false
	}
	capture.After = &later
	it.Captures = []Capture{capture}
	return it, true
}

// isPredicate reports whether an item is a predicate, from its topmost operator alone.
// The types do not matter: a bool parameter by itself is a value to show.
func isPredicate(x Expr) bool {
	switch x := x.(type) {
	case *Unary:
		return x.Op.Predicate()
	case *Binary:
		return x.Op.Predicate()
	}
	return false
}

// compared adds the operands of a predicate's comparisons to the item's captures. Its
// callers have checked x, so a second check finds no new faults.
func (c *checker) compared(x Expr, it *Item) {
	switch x := x.(type) {
	case *Paren:
		c.compared(x.X, it)
		return
	case *Unary:
		if x.Op == OpNot {
			c.compared(x.X, it)
			return
		}
	case *Binary:
		if x.Op.Predicate() {
			c.compared(x.X, it)
			c.compared(x.Y, it)
			return
		}
	case *String:
		return
	}
	errs := len(c.errs)
	op, ok := c.whole(x)
	if !ok { // an enumerator that is only known next to the other operand
		c.errs = c.errs[:errs]
		return
	}
	capture := c.show(c.textOf(x), op)
	if _, constant := capture.Value.(*Const); constant {
		return
	}
	if _, object := capture.Target.(*Object); object && capture.Value != nil {
		capture.Target = nil // a pointer was compared, not what it points to
	}
	for _, have := range it.Captures {
		if have.Label == capture.Label {
			return
		}
	}
	it.Captures = append(it.Captures, capture)
}

func (c *checker) textOf(x Expr) string { return c.text[x.Span().Start:x.Span().End] }

// show decides what a captured operand shows: for a scalar its value, for a pointer also
// what it points to, for an aggregate its bytes.
func (c *checker) show(label string, op operand) Capture {
	capture := Capture{Label: label, View: op.view}
	if op.text != nil {
		capture.Target = op.text
		return capture
	}
	if op.buffer != nil {
		capture.Target = op.buffer
		return capture
	}
	if op.val == nil {
		if _, scalar := number(op.t); !scalar && !op.flexible() {
			capture.Target = op.object()
			return capture
		}
		at, view := op.place.at, op.view
		op = c.load(op)
		op.view = view
		if at == AtReturn && op.val != nil { // exit() is over, and has not seen this value
			op.val = passed(op.val)
		}
	}
	capture.Value = op.val
	if op.view != ViewDefault {
		return capture // hex(p) and the like ask for the pointer itself
	}
	if p, ok := btf.UnderlyingType(op.t).(*btf.Pointer); ok {
		capture.Target = c.target(p.Target, op)
	}
	return capture
}

// when returns the phase in which memory at addr is read. An address that only the return
// yields must be read then; any other follows entry() and exit().
func (c *checker) when(addr Term) Phase {
	if PhaseOf(addr) == AtReturn {
		return AtReturn
	}
	return c.at
}

// target returns a term for what a pointer points to, or nil if nothing can be shown of it.
func (c *checker) target(t btf.Type, op operand) Term {
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Fwd:
		t = c.complete(t, u)
	case *btf.Pointer, *btf.Void, *btf.FuncProto:
		return nil
	}
	if charLike(t) && isChar(t) {
		return &Text{T: op.t, Addr: op.val, Max: MaxText, Space: c.spaceBehind(op), At: c.when(op.val)}
	}
	if size, ok := sizeOf(t); !ok || size == 0 {
		return nil
	}
	return &Object{T: t, Addr: op.val, Space: c.spaceBehind(op), At: c.when(op.val)}
}

// complete returns the definition of a forward declaration, or t if there is not exactly
// one.
func (c *checker) complete(t btf.Type, fwd *btf.Fwd) btf.Type {
	kind := "struct "
	if fwd.Kind == btf.FwdUnion {
		kind = "union "
	}
	found, err := c.scope.Types.TypesByName(kind + fwd.Name)
	if err != nil || len(found) != 1 {
		return t
	}
	return found[0]
}
