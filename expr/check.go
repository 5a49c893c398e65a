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

// A Param is one parameter of the traced function, or a field of what is traced
// otherwise.
type Param struct {
	Name string // may be empty
	Type btf.Type
	// Base is the address of the memory that holds it, Off bytes further on.
	// It is nil for what is passed in registers or on the stack.
	Base Term
	Off  int64
	// Form tells what lies there.
	Form Form
	// Value computes it, where it is neither passed nor stored; it is in the
	// register form of Type, which is a scalar.
	Value Term
	// Absent says that nothing has the value: the compiler could do without,
	// unless Why says otherwise.
	Absent bool
	Why    string // "is passed in …"
}

// A Form is how a field lies in the record of a tracepoint.
type Form uint8

const (
	Plain      Form = iota // the value itself
	Located                // where an array of Type is: its length << 16 | its offset from Base
	RelLocated             // the same, but the offset is from the end of these four bytes
)

// A Scope is what the names of a SPEC mean: one function and the types of the
// kernel it is in.
type Scope struct {
	Func   string // for messages
	Params []Param
	Return btf.Type // nil or void: nothing is returned
	// ReturnBase is the address of a result that lies in memory. ReturnWhy says
	// why the result cannot be had.
	ReturnBase Term
	ReturnWhy  string
	// Untyped says that BTF does not describe the function: Params stands for
	// its registers and Return for the register a result would be in.
	Untyped bool
	// Point says that it is a place in the code that is passed, not a call
	// that will return.
	Point bool
	// Inlined says that the place is where a call of the function was inlined.
	Inlined bool
	Types   Types
	Macros  Macros // may be nil
	// Doubt, if it is not nil, is told of what a SPEC says and can hardly mean.
	Doubt func(*Error)
}

// Types looks types up by name. It is the part of a kernel's view that
// checking needs.
type Types interface {
	// TypesByName returns the types spelled so: "struct sk_buff", "enum x",
	// "u32". None is not an error.
	TypesByName(spelling string) ([]btf.Type, error)
	// Enumerators returns every enum that has an enumerator of that name.
	Enumerators(name string) ([]Enumerator, error)
}

// An Enumerator is one value of one enum.
type Enumerator struct {
	Enum  *btf.Enum
	Value uint64 // extended by sign if the enum is signed
}

// A View is how a captured value wants to be read.
type View uint8

const (
	ViewDefault View = iota
	ViewHex          // hex(x)
	ViewDec          // dec(x)
	ViewSym          // sym(x)
	ViewIP           // ip(x)
	ViewMAC          // mac(x)
)

// An Item is a checked item of a SPEC.
type Item struct {
	Pos Span
	// Predicate is nil for a capture.
	Predicate Term
	// Phase is when the predicate can be decided. Entry for captures.
	Phase Phase
	// Captures are what the item shows, in the order they were written.
	Captures []Capture
}

// A Capture is a value to be shown.
type Capture struct {
	Label string // the text it was written as
	// Value is a scalar, or nil if the capture is an Object, Text or Buffer only.
	Value Term
	// Target is the Object, Text or Buffer that is shown: the operand itself,
	// or what the pointer Value points to. May be nil.
	Target Term
	// After is the same read at return, where what has changed is asked for. diff(x)
	After *Capture
	View  View
}

// Phase returns when the capture can be read.
func (c *Capture) Phase() Phase {
	if c.Value != nil && PhaseOf(c.Value) == AtReturn || c.Target != nil && PhaseOf(c.Target) == AtReturn {
		return AtReturn
	}
	return AtEntry
}

// MaxText is how much of a string is shown or compared, in bytes, the NUL at its
// end included.
const MaxText = 256

// Check resolves the items of spec. A SPEC without parentheses asks for all
// arguments and the return value. The error, if any, is an *ErrorList.
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

type checker struct {
	scope *Scope
	text  string
	at    Phase // where entry() or exit() is around what is being checked
	errs  []*Error
	top   Expr // the item that is being checked
	// doubts are told when all is checked: with faults they are beside the point.
	doubts []*Error
}

// fault records an error; it returns the zero operand so that callers can
// return it at once.
func (c *checker) fault(code Code, at Span, hint, format string, args ...any) (operand, bool) {
	c.errs = append(c.errs, &Error{code, at, fmt.Sprintf(format, args...), hint})
	return operand{}, false
}

// everything is what a SPEC without parentheses stands for.
func (c *checker) everything(spec *Spec) []Item {
	var items []Item
	for i, p := range c.scope.Params {
		label := p.Name
		if strings.HasPrefix(label, "$") && !strings.HasPrefix(c.scope.Params[0].Name, "$") {
			break // at a function's first instruction, its parameters say what the registers hold
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

// diff is diff(x): what entry(x) and exit(x) show.
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

func isPredicate(x Expr) bool {
	switch x := x.(type) {
	case *Unary:
		return x.Op.Predicate()
	case *Binary:
		return x.Op.Predicate()
	}
	return false
}

func unparen(x Expr) Expr {
	for {
		p, ok := x.(*Paren)
		if !ok {
			return x
		}
		x = p.X
	}
}

// compared adds the values that a predicate looks at to what its item shows.
// They have been checked already, so checking them again adds no error.
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
	if !ok { // an enumerator that only the other operand's enum knows
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

// show decides what a captured operand shows: a scalar its value, a pointer
// also what it points to, an aggregate its bytes.
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
		return capture // the value was asked for, not what it points to
	}
	if p, ok := btf.UnderlyingType(op.t).(*btf.Pointer); ok {
		capture.Target = c.target(p.Target, op)
	}
	return capture
}

// when returns the phase in which memory at an address is read: at return if
// the address is not known before, else as entry() and exit() say.
func (c *checker) when(addr Term) Phase {
	if PhaseOf(addr) == AtReturn {
		return AtReturn
	}
	return c.at
}

// target returns what can be shown of what a pointer points to, or nil.
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

// isChar tells char and unsigned char from u8 and other typedefs of them,
// which are numbers more often than characters.
func isChar(t btf.Type) bool {
	i, ok := qualifier.Bare(t).(*btf.Int)
	return ok && (i.Name == "char" || i.Name == "unsigned char")
}

// complete returns the definition of a forward declaration, if there is one.
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
