// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/qualifier"
)

// A Param is a parameter of the traced function, a field of a tracepoint, or a register.
type Param struct {
	Name string // may be empty: BTF does not name every parameter
	Type btf.Type
	// Base is the address of the object that holds the value, Off bytes further on. Base is
	// nil for a value passed in registers or on the stack, which a Machine supplies.
	Base Term
	Off  int64
	// Form says how the field is encoded; Plain for anything but a tracepoint's dynamic
	// array.
	Form Form
	// Value computes the parameter if it is neither passed nor stored. Debug info may say
	// that a parameter is another one plus a constant, for example. Its type is Type, a
	// scalar.
	Value Term
	// Absent marks a parameter whose value is nowhere. Without Why, the compiler optimised
	// it out.
	Absent bool
	Why    string // "is passed in …"
}

// A Form is the encoding of a field in a tracepoint's record.
type Form uint8

const (
	Plain      Form = iota // the value itself
	Located                // __data_loc: 4 bytes, array length << 16 | offset from Base
	RelLocated             // __rel_loc: the same, with the offset counted from the end of these 4 bytes
)

// A Scope gives meaning to the names of a SPEC: one function, and the types of its kernel.
type Scope struct {
	Func   string // as error messages call it
	Params []Param
	Return btf.Type // result type; nil or void if nothing is returned
	// ReturnBase is the address of a result that is returned in memory, as large structs
	// are. ReturnWhy, if not empty, says why the result is not available.
	ReturnBase Term
	ReturnWhy  string
	// Untyped marks a function that BTF does not describe. Params are then its argument
	// registers, and Return stands for the result register.
	Untyped bool
	// Point marks an instruction or a tracepoint: execution passes it and nothing returns.
	Point bool
	// Inlined marks a Point that is an inlined call. It only changes the wording of errors.
	Inlined bool
	Types   Types
	Macros  Macros // may be nil
	// Doubt receives warnings: valid expressions that hardly mean what they say. May be
	// nil.
	Doubt func(*Error)
}

// Types looks up types by name. A kernel's BTF implements it.
type Types interface {
	// TypesByName returns all types with this spelling: "struct sk_buff", "enum x", "u32".
	// An empty result is not an error.
	TypesByName(spelling string) ([]btf.Type, error)
	// Enumerators returns every enum that has an enumerator called name, with its value.
	Enumerators(name string) ([]Enumerator, error)
}

// An Enumerator is one enumerator of one enum.
type Enumerator struct {
	Enum  *btf.Enum
	Value uint64 // sign-extended if the enum is signed
}

// A View is the notation that a function such as hex() asks for.
type View uint8

const (
	ViewDefault View = iota
	ViewHex          // hex(x)
	ViewDec          // dec(x)
	ViewSym          // sym(x)
	ViewIP           // ip(x)
	ViewMAC          // mac(x)
)

// An Item is a checked item of a SPEC: a predicate with the values it compares, or a
// capture.
type Item struct {
	Pos Span
	// Predicate is a scalar term that must not be 0. It is nil for a capture.
	Predicate Term
	// Phase says when the predicate can be decided. It is AtEntry for a capture.
	Phase Phase
	// Captures are the values that the item shows, in the order of the text.
	Captures []Capture
}

// A Capture is one value to show. Value, Target or both are set.
type Capture struct {
	Label string // the text it was written as
	// Value is the scalar to show. It is nil for an aggregate, a string or a buffer.
	Value Term
	// Target is the Object, Text or Buffer to show: the operand itself, or what the pointer
	// in Value points to.
	Target Term
	// After is the same operand read at return. Only diff(x) sets it.
	After *Capture
	View  View
}

// Phase returns the first moment at which all parts of the capture can be read.
func (c *Capture) Phase() Phase {
	if c.Value != nil && PhaseOf(c.Value) == AtReturn || c.Target != nil && PhaseOf(c.Target) == AtReturn {
		return AtReturn
	}
	return AtEntry
}

// MaxText is the most bytes of a string that are shown or compared, its final NUL included.
const MaxText = 256

// Check resolves the items of spec in scope and returns them in the order of the text. A
// SPEC without parentheses asks for all arguments and the return value. Check reports all
// faults; a non-nil error is an *ErrorList. It calls scope.Doubt only if there is no error.
func Check(spec *Spec, scope *Scope) ([]Item, error) {
	c := &checker{scope: scope, text: spec.Text}
	var items []Item
	if !spec.Parens {
		items = c.everything(spec)
	}
	for _, x := range spec.Items {
		if it, ok := c.item(x); ok {
			items = append(items, it)
		}
	}
	if len(c.errs) > 0 {
		slices.SortStableFunc(c.errs, func(a, b *Error) int { return a.Span.Start - b.Span.Start })
		return nil, &ErrorList{spec.Text, c.errs}
	}
	for _, d := range c.doubts {
		scope.Doubt(d)
	}
	return items, nil
}

// A checker holds the state of one call of Check.
type checker struct {
	scope *Scope
	text  string
	at    Phase // set inside entry() or exit()
	errs  []*Error
	top   Expr // the item being checked
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
		label := p.Name
		if strings.HasPrefix(label, "$") && !strings.HasPrefix(c.scope.Params[0].Name, "$") {
			break // a kprobe on the first instruction offers registers too, but the parameters cover them
		}
		if label == "" {
			label = "$arg" + strconv.Itoa(i+1)
		}
		if p.Absent {
			continue
		}
		o := c.param(i)
		if c.scope.Untyped || strings.HasPrefix(label, "$") {
			o.view = ViewHex
		}
		items = append(items, Item{Pos: spec.Selector.Span, Captures: []Capture{c.show(label, o)}})
	}
	if res, ok := c.result(); ok && !c.scope.Point && c.scope.ReturnWhy == "" {
		items = append(items, Item{Pos: spec.Selector.Span, Captures: []Capture{c.show("return", res)}})
	}
	return items
}

// item checks one item. Only the topmost operator decides whether it is a predicate.
func (c *checker) item(x Expr) (Item, bool) {
	it := Item{Pos: x.Span()}
	top := unparen(x)
	c.top = top
	if !isPredicate(top) {
		if call, ok := top.(*Call); ok && call.Func.Name == "diff" {
			return c.diff(call)
		}
		op, ok := c.expr(x, nil)
		if !ok {
			return it, false
		}
		it.Captures = []Capture{c.show(c.textOf(top), op)}
		return it, true
	}
	op, ok := c.expr(x, nil)
	if !ok {
		return it, false
	}
	it.Predicate = c.truth(op)
	it.Phase = PhaseOf(it.Predicate)
	c.compared(top, &it)
	return it, true
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

// unparen strips parentheses. (x == 1) is a predicate just as x == 1 is.
func unparen(x Expr) Expr {
	for {
		p, ok := x.(*Paren)
		if !ok {
			return x
		}
		x = p.X
	}
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
	op, ok := c.expr(x, nil)
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
		if _, scalar := number(op.t); !scalar {
			capture.Target = op.object()
			return capture
		}
		view := op.view
		op = c.load(op)
		op.view = view
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
		return &Text{T: op.t, Addr: op.val, Max: MaxText, Space: op.space, At: c.when(op.val)}
	}
	if size, ok := sizeOf(t); !ok || size == 0 {
		return nil
	}
	return &Object{T: t, Addr: op.val, Space: op.space, At: c.when(op.val)}
}

// isChar reports whether t is char or unsigned char itself. u8 and other typedefs of them
// are numbers more often than text.
func isChar(t btf.Type) bool {
	i, ok := qualifier.Bare(t).(*btf.Int)
	return ok && (i.Name == "char" || i.Name == "unsigned char")
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
