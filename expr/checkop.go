// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/glob"
)

// binary checks a binary operator. Comparisons with a string literal go to match.
func (c *checker) binary(x *Binary, want *btf.Enum) (operand, bool) {
	if s, ok := unparen(x.Y).(*String); ok {
		return c.match(x, x.X, s)
	}
	if s, ok := unparen(x.X).(*String); ok && x.Op != OpMatch {
		return c.match(x, x.Y, s)
	}
	if x.Op == OpMatch {
		return c.fault(CodeType, x.Y.Span(), `as in $comm ~ "nginx*"`, "the right side of ~ must be a string literal")
	}
	a, b, ok := c.pair(x, want)
	if !ok {
		return a, false
	}
	if x.Op.Comparison() && a.array != nil && b.array != nil {
		return c.twoArrays(x, a)
	}
	c.doubtBinary(x, a, b)
	switch ops[x.Op].class {
	case classLogic:
		return value(typeInt, c.logic(x.Op, c.truth(a), c.truth(b))), true
	case classShift:
		return c.shift(x, a, b)
	}
	if isPointer(a.t) || isPointer(b.t) {
		return c.pointers(x, a, b)
	}
	common := balance(promoted(a.val), promoted(b.val)).typ()
	res := common
	if x.Op.Comparison() {
		res = typeInt
	}
	return value(res, fold(&BinaryTerm{T: res, Op: x.Op, X: convert(a.val, common), Y: convert(b.val, common)})), true
}

// pair checks both operands, each exactly once: checking twice would take exponential time
// in nested expressions. If the left side is a name that is not a parameter, the right side
// goes first, because its enum may define the name.
func (c *checker) pair(x *Binary, want *btf.Enum) (a, b operand, ok bool) {
	if ops[x.Op].class == classLogic {
		want = nil
	}
	if n, isName := unparen(x.X).(*Name); isName && !c.isParam(n.Name) {
		b, okB := c.value(x.Y, want)
		if okB {
			want = enumOf(b.t, want)
		}
		a, okA := c.value(x.X, want)
		return a, b, okA && okB
	}
	a, okA := c.expr(x.X, want)
	n, isName := unparen(x.Y).(*Name)
	if okA && isName && a.text != nil && !c.isParam(n.Name) {
		_, ok = c.fault(CodeType, n.Pos, "a string is in quotes: "+strconv.Quote(n.Name), "%s is not a string", n.Name)
		return a, b, ok
	}
	if okA {
		if a, okA = c.scalar(a, x.X.Span()); okA {
			want = enumOf(a.t, want)
		}
	}
	errs := len(c.errs)
	b, okB := c.value(x.Y, want)
	if okA && !okB && isName && len(c.errs) > errs && stringLike(a) {
		c.errs[len(c.errs)-1].Hint = "a string is in quotes: " + strconv.Quote(n.Name)
	}
	return a, b, okA && okB
}

// stringLike reports whether a value can be compared with a string.
func stringLike(o operand) bool {
	t, ok := pointee(o.t)
	return o.array != nil && charLike(o.array.Type) || ok && charLike(t)
}

// isParam reports whether a name is a parameter. Parameters hide enumerators and
// constants.
func (c *checker) isParam(name string) bool {
	return slices.ContainsFunc(c.scope.Params, func(p Param) bool { return p.Name == name })
}

// enumOf returns the enum that t is, for looking up the names that x is compared with.
func enumOf(t btf.Type, otherwise *btf.Enum) *btf.Enum {
	if e, ok := btf.UnderlyingType(t).(*btf.Enum); ok {
		return e
	}
	return otherwise
}

// logic returns x && y or x || y. A constant x decides now, and y is dropped or remains
// alone.
func (c *checker) logic(op Op, a, b Term) Term {
	if k, ok := a.(*Const); ok {
		if (k.V != 0) == (op == OpOr) {
			return &Const{typeInt, k.V & 1}
		}
		return b
	}
	return &Logic{T: typeInt, Op: op, X: a, Y: b}
}

// shift promotes each operand by itself (C11 6.5.7). The result has the type of the left
// one.
func (c *checker) shift(x *Binary, a, b operand) (operand, bool) {
	for _, o := range []operand{a, b} {
		if isPointer(o.t) {
			return c.fault(CodeType, x.Span(), "", "a pointer cannot be shifted, nor shift")
		}
	}
	t := promoted(a.val).typ()
	return value(t, fold(&BinaryTerm{T: t, Op: x.Op,
		X: convert(a.val, t), Y: convert(b.val, promoted(b.val).typ())})), true
}

// pointers checks an operator that has a pointer on at least one side.
func (c *checker) pointers(x *Binary, a, b operand) (operand, bool) {
	switch class := ops[x.Op].class; {
	case class == classEquality, class == classRelation:
		return value(typeInt, fold(&BinaryTerm{T: typeInt, Op: x.Op,
			X: convert(a.val, typeUlong), Y: convert(b.val, typeUlong)})), true
	case x.Op == OpAdd && !isPointer(b.t), x.Op == OpSub && !isPointer(b.t):
		return c.advance(a, b, x.Op, x.X.Span())
	case x.Op == OpAdd && !isPointer(a.t):
		return c.advance(b, a, OpAdd, x.Y.Span())
	case x.Op == OpSub:
		return c.distance(x, a, b)
	case class == classBitwise:
		// Not valid C, but useful: kernel code keeps tags in the low bits of pointers.
		return value(typeUlong, fold(&BinaryTerm{T: typeUlong, Op: x.Op,
			X: convert(a.val, typeUlong), Y: convert(b.val, typeUlong)})), true
	}
	return c.fault(CodeType, x.Span(), "cast it to an integer first", "%s cannot be applied to %s and %s", x.Op, typeName(a.t), typeName(b.t))
}

// distance checks p - q. The result counts elements.
func (c *checker) distance(x *Binary, a, b operand) (operand, bool) {
	if !isPointer(a.t) || !isPointer(b.t) {
		return c.fault(CodeType, x.Span(), "", "a pointer cannot be subtracted from an integer")
	}
	ofA, size, ok := c.pointeeSize(a.t)
	ofB, other, okB := c.pointeeSize(b.t)
	if !c.settled(ofA, x.X.Span()) || !c.settled(ofB, x.Y.Span()) {
		return operand{}, false
	}
	if !ok || !okB || size != other || size == 0 {
		return c.fault(CodeType, x.Span(), "cast both to integers first", "%s and %s cannot be subtracted", typeName(a.t), typeName(b.t))
	}
	d := fold(&BinaryTerm{T: typeLong, Op: OpSub, X: convert(a.val, typeLong), Y: convert(b.val, typeLong)})
	if size != 1 {
		d = fold(&BinaryTerm{T: typeLong, Op: OpDiv, X: d, Y: &Const{typeLong, uint64(size)}})
	}
	return value(typeLong, d), true
}

// twoArrays refuses to compare two arrays. C would compare addresses, but the user means
// contents, and contents are what would be shown.
func (c *checker) twoArrays(x *Binary, a operand) (operand, bool) {
	hint := fmt.Sprintf("to compare where they lie write &%s %s &%s", c.textOf(x.X), x.Op, c.textOf(x.Y))
	if charLike(a.array.Type) {
		return c.fault(CodeType, x.Span(), hint, "two strings cannot be compared; compare each with == or ~ and a string literal")
	}
	return c.fault(CodeType, x.Span(), hint, "two arrays cannot be compared; compare their elements")
}

// match checks the comparison of a string with a literal. The limits on globs keep the
// generated code small: two stars at most.
func (c *checker) match(x *Binary, s Expr, pattern *String) (operand, bool) {
	if x.Op != OpEq && x.Op != OpNe && x.Op != OpMatch {
		return c.fault(CodeType, x.Span(), "use ==, != or ~", "strings cannot be compared with %s", x.Op)
	}
	if len(pattern.Value) > MaxText-1 {
		return c.fault(CodeLimit, pattern.Pos, "", "a string to compare with may have %d bytes at most", MaxText-1)
	}
	if strings.IndexByte(pattern.Value, 0) >= 0 {
		return c.fault(CodeSyntax, pattern.Pos, "", "a string cannot contain a NUL")
	}
	if x.Op == OpMatch && len(glob.Pieces(pattern.Value)) > 3 {
		return c.fault(CodeLimit, pattern.Pos, "write prefix*, *suffix, *part* or prefix*part*suffix", "a glob may have two stars at most")
	}
	o, ok := c.expr(s, nil)
	if !ok {
		return o, false
	}
	if other := regexpPart.FindString(pattern.Value); x.Op == OpMatch && other != "" {
		c.doubt(pattern.Pos, "a glob matches whole names, and only * and ? stand for other characters", "this matches names with %s in them", other)
	}
	c.doubtGlob(x, s, pattern)
	text, ok := c.asText(o)
	if !ok {
		return c.fault(CodeType, s.Span(), c.stringHint(s, o, pattern), "%s is not a string", typeName(o.t))
	}
	c.doubtLength(x, s, text, pattern.Value)
	return value(typeInt, &Match{T: typeInt, Op: x.Op, X: text, Pattern: pattern.Value}), true
}

// regexpPart matches what means something in a regular expression or a shell's glob, and itself here.
var regexpPart = regexp.MustCompile(`\[|\.\*|^\^|\$$`)

// stringHint says how to turn o, the value of x, into something that can be compared with a string.
func (c *checker) stringHint(x Expr, o operand, pattern *String) string {
	arr, isArray := btf.UnderlyingType(o.t).(*btf.Array)
	_, isErrno := errno.Number(strings.TrimPrefix(pattern.Value, "-"))
	ms, _ := members(o.t)
	texts := slices.IndexFunc(ms, func(m btf.Member) bool { return m.Name != "" && stringLike(operand{t: m.Type}) })
	switch {
	case isErrno && isResult(x):
		return "an error has no quotes: -" + strings.TrimPrefix(pattern.Value, "-")
	case texts >= 0:
		of := c.textOf(x)
		if _, prefixed := x.(*Unary); prefixed {
			of = "(" + of + ")"
		}
		return fmt.Sprintf("its member %[1]s is a string: write %[2]s.%[1]s", ms[texts].Name, of)
	case o.buffer != nil:
		return "these are bytes; a string is an array of char, or str(p)"
	case isPointer(o.t):
		return "for raw memory write str(p), for user space ustr(p)"
	case isArray && charLike(arr.Type):
		return "it was passed by value, and lies nowhere in memory; compare its elements, as in x[0] == 'a'"
	case charLike(o.t) && len(pattern.Value) == 1 && pattern.Value[0] < utf8.RuneSelf:
		return fmt.Sprintf("write %q", pattern.Value[0])
	}
	if _, err := strconv.ParseInt(pattern.Value, 0, 64); err == nil {
		return "a number has no quotes: " + pattern.Value
	}
	return ""
}

// asText returns an operand as a string if it is a char array, a pointer to char, or str().
func (c *checker) asText(o operand) (*Text, bool) {
	if o.text != nil {
		return o.text, true
	}
	if arr, ok := o.storedArray(); ok && charLike(arr.Type) {
		return o.textIn(arr), true
	}
	if target, ok := pointee(o.t); ok && charLike(target) {
		o = c.load(o)
		if o.val != nil {
			return c.textAt(o), true
		}
	}
	return nil, false
}

// storedArray returns the array that o is, if it lies in memory and has a length.
func (o *operand) storedArray() (arr *btf.Array, ok bool) {
	arr, ok = btf.UnderlyingType(o.t).(*btf.Array)
	return arr, ok && o.val == nil && o.place.addr != nil && arr.Nelems > 0
}

// flexible reports whether o is an array in memory whose length its type does not tell, as char name[]. Like what
// is behind a pointer, it ends where its contents say.
func (o *operand) flexible() bool {
	arr, ok := btf.UnderlyingType(o.t).(*btf.Array)
	return ok && o.val == nil && o.place.addr != nil && arr.Nelems == 0
}

// textIn returns the string in an array that is o.
func (o *operand) textIn(arr *btf.Array) *Text {
	return &Text{T: o.t, Addr: o.place.addr, Off: o.place.off, Max: min(arr.Nelems, MaxText), Space: o.space, At: o.place.at}
}

// textAt returns the string that a pointer operand points to.
func (c *checker) textAt(o operand) *Text {
	return &Text{T: o.t, Addr: o.val, Max: MaxText, Space: c.spaceBehind(o), At: c.when(o.val)}
}

// cast checks a cast. A pointer that was cast is no longer of the type that the verifier
// knows; see operand.cast.
func (c *checker) cast(x *Cast) (operand, bool) {
	t, okT := c.typeNamed(x.Type)
	o, ok := c.value(x.X, enumOf(t, nil))
	if !ok || !okT {
		return o, false
	}
	if _, ok := number(t); !ok {
		return c.fault(CodeType, x.Type.Pos, "cast to a pointer to it", "nothing can be converted to %s", typeName(t))
	}
	return operand{t: t, val: convert(o.val, t), space: o.space, cast: true}, true
}
