// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/suggest"
)

// maxBuffer is the most bytes that buf() captures.
const maxBuffer = 4096

// functions maps each function of the language to its number of arguments.
var functions = map[string]int{
	"entry": 1, "exit": 1, "diff": 1, "user": 1, "str": 1, "ustr": 1, "buf": 2,
	"hex": 1, "dec": 1, "sym": 1, "ip": 1, "mac": 1, "ntohs": 1, "ntohl": 1,
}

// arity reports a call with the wrong number of arguments.
func (c *checker) arity(x *Call, n int) bool {
	if len(x.Args) == n {
		return true
	}
	c.fault(CodeArgs, x.Pos, "", "%s() takes %d argument%s, not %d", x.Func.Name, n, map[bool]string{true: "s"}[n > 1], len(x.Args))
	return false
}

// otherNames are what other tools and people call functions of the language.
var otherNames = map[string]string{"mean": "avg", "average": "avg", "histogram": "hist", "percentile": "quantiles", "percentiles": "quantiles", "p50": "quantiles", "p90": "quantiles",
	"p95": "quantiles", "p99": "quantiles", "median": "quantiles", "strncmp": "str", "kstr": "str", "kstack": "$stack", "ustack": "$ustack", "nsecs": "$time", "ntop": "ip", "ksym": "sym"}

// functionHint says which function may have been meant.
func functionHint(name string) string {
	if ours, ok := otherNames[name]; ok {
		return suggest.DidYouMean(ours)
	}
	return suggest.Hint(name, slices.Values(append(sortedKeys(functions), sortedKeys(aggregators)...)))
}

// call checks a call of one of the language's functions. Functions that choose a
// notation return their operand unchanged, with its view set.
func (c *checker) call(x *Call, want *btf.Enum) (operand, bool) {
	if _, adds := aggregators[x.Func.Name]; adds {
		return c.fault(CodeType, x.Pos, "write it as an item of its own", "%s() adds calls up, it has no value in any of them", x.Func.Name)
	}
	if x.Func.Name == pathFunction {
		return c.fault(CodeType, x.Pos, "write it as an item of its own", "path() shows the way of a call, it has no value")
	}
	n, ok := functions[x.Func.Name]
	if !ok {
		return c.fault(CodeUnknownFunc, x.Func.Pos, functionHint(x.Func.Name), "the language has no function %q", x.Func.Name)
	}
	if !c.arity(x, n) {
		return operand{}, false
	}
	switch x.Func.Name {
	case "entry", "exit":
		if x.Func.Name == "exit" && c.scope.Point {
			return c.point(x.Pos)
		}
		return c.phase(x, want)
	case "diff":
		return c.fault(CodeType, x.Pos, "write it as an item of its own", "diff() shows a change, it has no value")
	case "buf":
		return c.buffer(x)
	case "hex", "dec", "sym":
		o, ok := c.value(x.Args[0], want)
		o.view = map[string]View{"hex": ViewHex, "dec": ViewDec, "sym": ViewSym}[x.Func.Name]
		return o, ok
	case "ip":
		return c.netAddress(x, ViewIP, 4, 16)
	case "mac":
		return c.netAddress(x, ViewMAC, 6)
	case "ntohs":
		return c.swap(x, numeric{2, false})
	case "ntohl":
		return c.swap(x, numeric{4, false})
	}
	o, ok := c.expr(x.Args[0], nil)
	if !ok {
		return o, false
	}
	return c.pointerCall(x, o)
}

// sortedKeys makes hints deterministic: suggest prefers the first of equally close names.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// phase checks entry(x) or exit(x).
func (c *checker) phase(x *Call, want *btf.Enum) (operand, bool) {
	if x.Func.Name == "exit" {
		return c.during(AtReturn, x.Args[0], want)
	}
	o, ok := c.during(AtEntry, x.Args[0], want)
	if ok && o.val != nil && PhaseOf(o.val) == AtReturn {
		return c.fault(CodeType, x.Pos, "", "this is known only at return")
	}
	return o, ok
}

// during checks x with all memory read at one end of the call. A parameter keeps the value
// that was passed, at return too; only what it points to is read at that end.
func (c *checker) during(at Phase, x Expr, want *btf.Enum) (operand, bool) {
	saved := c.at
	defer func() { c.at = saved }()
	c.at = at
	o, ok := c.expr(x, want)
	if !ok {
		return o, false
	}
	if _, scalar := number(o.t); scalar {
		o = c.load(o)
	}
	switch {
	case at == AtEntry:
	case o.val != nil:
		o.val = passed(o.val)
	case o.place.addr == nil: // a part of what was passed by value; a place in memory knows when it is read
		o.place.at = AtReturn
	}
	return o, true
}

// netAddress checks ip(x) or mac(x). x, or what x points to, must have one of the sizes
// given, in bytes.
func (c *checker) netAddress(x *Call, view View, sizes ...int64) (operand, bool) {
	arg := x.Args[0]
	o, ok := c.expr(arg, nil)
	if !ok {
		return o, false
	}
	if o.text != nil || o.buffer != nil {
		return c.fault(CodeType, arg.Span(), "", "%s() takes an address, not a string", x.Func.Name)
	}
	if p, isptr := btf.UnderlyingType(o.t).(*btf.Pointer); isptr {
		o = c.load(o)
		if charLike(p.Target) && view == ViewMAC {
			six := &Const{typeUlong, 6}
			return operand{t: o.t, view: view, buffer: &Buffer{T: o.t, Addr: o.val, N: six, Max: 6, Space: c.spaceBehind(o), At: c.when(o.val)}}, true
		}
		if o, ok = c.through(o, p.Target, arg.Span()); !ok {
			return o, false
		}
	}
	if ms, _ := members(o.t); len(ms) > 0 && strings.HasSuffix(ms[0].Name, "_family") {
		return c.fault(CodeType, arg.Span(), "write ip(((struct sockaddr_in *)p)->sin_addr), or struct sockaddr_in6 and sin6_addr", "%s has a family and a port before the address", typeName(o.t))
	}
	if size, known := sizeOf(o.t); !known || !slices.Contains(sizes, size) {
		hint := ""
		if arr, isArray := btf.UnderlyingType(o.t).(*btf.Array); isArray && charLike(arr.Type) && view == ViewMAC && size > 6 {
			hint = "for the first 6 bytes of an array write mac(&x[0])"
		}
		return c.fault(CodeType, arg.Span(), hint, "%s() takes an address of %s bytes, not %s", x.Func.Name, orList(sizes), typeName(o.t))
	}
	o.view = view
	return o, true
}

// orList writes "4 or 16".
func orList(sizes []int64) string {
	s := ""
	for i, n := range sizes {
		if i > 0 {
			s += " or "
		}
		s += strconv.FormatInt(n, 10)
	}
	return s
}

// swap checks ntohs(x) and ntohl(x). The argument is converted first, as the parameter
// of a C function would be.
func (c *checker) swap(x *Call, n numeric) (operand, bool) {
	o, ok := c.value(x.Args[0], nil)
	if !ok {
		return o, false
	}
	if isPointer(o.val.Type()) {
		return c.fault(CodeType, x.Args[0].Span(), "", "%s() takes a number, not %s", x.Func.Name, typeName(o.t))
	}
	t := n.typ()
	if n.size == 2 {
		t = &btf.Int{Name: "short unsigned int", Size: 2}
	}
	return value(t, fold(&Swap{T: t, Size: n.size, X: convert(o.val, t)})), true
}

// pointerCall checks user(p), str(p) or ustr(p).
func (c *checker) pointerCall(x *Call, o operand) (operand, bool) {
	arg := x.Args[0]
	if arr, ok := o.storedArray(); ok && x.Func.Name == "str" {
		return operand{t: o.t, text: o.textIn(arr)}, true
	}
	if o.text != nil && x.Func.Name == "str" {
		return o, true
	}
	o, ok := c.scalar(o, arg.Span())
	if !ok {
		return o, false
	}
	if n, _ := number(o.val.Type()); n.size != 8 {
		return c.fault(CodeType, arg.Span(), "", "%s is not a pointer", typeName(o.t))
	}
	if x.Func.Name != "str" {
		o.space = User
	}
	if x.Func.Name == "user" {
		return o, true
	}
	return operand{t: o.t, text: c.textAt(o)}, true
}

// buffer checks buf(p, n). A constant n also bounds the slot; any other n gets maxBuffer.
func (c *checker) buffer(x *Call) (operand, bool) {
	p, ok := c.value(x.Args[0], nil)
	n, okN := c.value(x.Args[1], nil)
	if !ok || !okN {
		return p, false
	}
	if size, _ := number(p.val.Type()); size.size != 8 {
		return c.fault(CodeType, x.Args[0].Span(), "", "%s is not a pointer", typeName(p.t))
	}
	limit := uint32(maxBuffer)
	if k, isConst := n.val.(*Const); isConst {
		if k.V == 0 || k.V > maxBuffer {
			return c.fault(CodeLimit, x.Args[1].Span(), "", "buf() takes 1 to %s bytes", strconv.Itoa(maxBuffer))
		}
		limit = uint32(k.V)
	}
	at := max(c.when(p.val), c.when(n.val))
	return operand{t: p.t, buffer: &Buffer{T: p.t, Addr: p.val, N: convert(n.val, typeUlong), Max: limit, Space: c.spaceBehind(p), At: at}}, true
}
