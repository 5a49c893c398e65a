// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/qualifier"
)

// maxKeys is the most keys of one aggregation, maxKeyObject the most bytes of an object or of
// buf() in a key.
const (
	maxKeys      = 8
	maxKeyObject = 64
)

// aggregation returns the call and the keys of an item that adds calls up. The call is nil for
// any other item.
func aggregation(x Expr) (call *Call, keys []Expr) {
	switch x := x.(type) {
	case *Call:
		call = x
	case *Keyed:
		call, keys = x.X, x.Keys
	default:
		return nil, nil
	}
	if _, ok := aggregators[call.Func.Name]; !ok {
		return nil, nil
	}
	return call, keys
}

// aggregate checks an item that adds calls up.
func (c *checker) aggregate(call *Call, keys []Expr) (*Aggregation, bool) {
	f := aggregators[call.Func.Name]
	g := &Aggregation{Fn: f.fn, Label: c.textOf(call)}
	faults := len(c.errs)
	if n := len(call.Args); n < f.least || n > f.most {
		c.fault(CodeArgs, call.Pos, argumentsHint(f.fn), "%s", argumentsFault(call, f.least, f.most))
	} else {
		c.arguments(call, g)
	}
	for _, x := range keys {
		if key, ok := c.key(x); ok {
			g.Keys = append(g.Keys, key)
		}
	}
	if len(c.errs) == faults && len(keys) > 0 {
		c.limitKeys(g, Span{keys[0].Span().Start, keys[len(keys)-1].Span().End})
	}
	return g, len(c.errs) == faults
}

func argumentsFault(call *Call, least, most int) string {
	want := fmt.Sprint(least)
	switch {
	case most == 0:
		want = "no"
	case least != most:
		want += " or " + fmt.Sprint(most)
	}
	s := "s"
	if most == 1 {
		s = ""
	}
	return fmt.Sprintf("%s() takes %s argument%s, not %d", call.Func.Name, want, s, len(call.Args))
}

// argumentsHint shows how a function with several arguments, or none, is called.
func argumentsHint(fn AggregationFunc) string {
	return map[AggregationFunc]string{
		AggCount: "write count(), or count()[x] to count by x",
		AggHist:  "write hist(x), or hist(x, 4) for 4 buckets in each power of two",
		AggLHist: "write lhist(x, low, high, step), as in lhist(x, 0, 1000, 100)",
		AggTop:   "write top(10, x) for the 10 most frequent x",
	}[fn]
}

// arguments checks the arguments of a call whose number is right.
func (c *checker) arguments(call *Call, g *Aggregation) {
	args := call.Args
	switch g.Fn {
	case AggCount:
		return
	case AggTop:
		if n, ok := c.fixed(args[0]); ok {
			if n < 1 || n > MaxTop {
				c.fault(CodeLimit, args[0].Span(), "", "top() shows 1 to %d values, not %d", MaxTop, n)
			}
			g.N = int(n)
		}
		c.aggregated(call, args[1], g)
		return
	case AggHist:
		if len(args) == 2 {
			c.subdivision(args[1], g)
		}
	case AggQuantiles:
		g.Sub = QuantilesSub
	case AggLHist:
		c.linear(args, g)
	}
	c.aggregated(call, args[0], g)
}

// aggregated checks the value that is added up.
func (c *checker) aggregated(call *Call, x Expr, g *Aggregation) {
	o, ok := c.whole(x)
	if !ok {
		return
	}
	text := c.textOf(unparen(x))
	_, array := btf.UnderlyingType(o.t).(*btf.Array)
	switch {
	case o.text != nil || o.buffer != nil:
		c.fault(CodeType, x.Span(), "for each of them apart write count()["+shortened(text)+"]", "%s() takes a number, not a string", call.Func.Name)
		return
	case array && o.val == nil:
		c.fault(CodeType, x.Span(), "", "%s() takes a number, not %s", call.Func.Name, typeName(o.t))
		return
	}
	view := o.view
	if o, ok = c.scalar(o, x.Span()); !ok {
		return
	}
	if isPointer(o.t) && g.Fn != AggTop {
		c.fault(CodeType, x.Span(), "for how often each of them occurs write count()["+shortened(text)+"]", "%s() takes a number, not %s", call.Func.Name, typeName(o.t))
		return
	}
	if k, constant := o.val.(*Const); constant {
		n, _ := number(k.T)
		c.doubt(x.Span(), "to count calls write count()", "this is %s in every call", map[bool]string{true: fmt.Sprint(int64(k.V)), false: fmt.Sprint(k.V)}[n.signed])
	}
	g.Value, g.Of, g.View, g.Unit = o.val, text, view, unitOf(o)
}

// fixed checks a number that must be constant.
func (c *checker) fixed(x Expr) (int64, bool) {
	o, ok := c.value(x, nil)
	if !ok {
		return 0, false
	}
	k, ok := o.val.(*Const)
	if !ok {
		c.fault(CodeType, x.Span(), "", "this must be a constant")
		return 0, false
	}
	if n, _ := number(k.T); !n.signed && int64(k.V) < 0 {
		c.fault(CodeLimit, x.Span(), "", "%d is more than %d", k.V, int64(1<<63-1))
		return 0, false
	}
	return int64(k.V), true
}

// subdivision checks into how many buckets hist() divides a power of two.
func (c *checker) subdivision(x Expr, g *Aggregation) {
	n, ok := c.fixed(x)
	if !ok {
		return
	}
	most := int64(1) << QuantilesSub
	if n < 1 || n > most || n&(n-1) != 0 {
		near := int64(1) << bits.Len64(uint64(min(max(n, 1), most)*2/3))
		c.fault(CodeLimit, x.Span(), fmt.Sprintf("write %d", min(near, most)), "hist() divides a power of two into 1, 2, 4, 8, 16 or 32 buckets, not %d", n)
		return
	}
	g.Sub = uint8(bits.TrailingZeros64(uint64(n)))
}

// linear checks the bounds and the step of lhist().
func (c *checker) linear(args []Expr, g *Aggregation) {
	low, okL := c.fixed(args[1])
	high, okH := c.fixed(args[2])
	step, okS := c.fixed(args[3])
	if !okL || !okH || !okS {
		return
	}
	g.Low, g.High, g.Step = low, high, step
	width := uint64(high) - uint64(low)
	switch n := uint64(step); {
	case low >= high:
		c.fault(CodeLimit, Span{args[1].Span().Start, args[2].Span().End}, "", "the lower bound %d is not below the upper one, %d", low, high)
	case step < 1:
		c.fault(CodeLimit, args[3].Span(), "", "a step is 1 at least, not %d", step)
	case width%n != 0:
		hint := fmt.Sprintf("write %d as the upper bound", high-int64(width%n))
		if more := high + int64(n-width%n); more > high && width/n < MaxLinear {
			hint = fmt.Sprintf("write %d as the upper bound", more)
		}
		c.fault(CodeLimit, args[3].Span(), hint, "%d to %d is no multiple of the step %d", low, high, step)
	case width/n > MaxLinear:
		c.fault(CodeLimit, args[3].Span(), fmt.Sprintf("write %d", enough(width)), "these are %d buckets, the limit is %d", width/n, MaxLinear)
	}
}

// enough returns the smallest step that divides a range into few enough buckets.
func enough(width uint64) uint64 {
	for n := uint64(MaxLinear); ; n-- {
		if width%n == 0 {
			return width / n
		}
	}
}

// key checks a value in brackets.
func (c *checker) key(x Expr) (Capture, bool) {
	top := unparen(x)
	if name, ok := top.(*Context); ok {
		if v, ok := keyVars[name.Name]; ok {
			return Capture{Label: name.Name, Value: &ContextTerm{typeUlong, v, c.at}}, true
		}
	}
	if group, ok := c.group(top); ok {
		return group, true
	}
	o, ok := c.whole(x)
	if !ok {
		return Capture{}, false
	}
	key := c.show(c.textOf(top), o)
	if arr, ok := o.storedArray(); ok && o.view == ViewDefault && isText(arr.Type) {
		key.Target = o.textIn(arr)
	}
	switch t := key.Target.(type) {
	case *Text:
		short := *t
		short.Max = min(t.Max, MaxKeyText)
		key.Value, key.Target = nil, &short
	case *Object:
		if key.Value != nil {
			key.Target = nil // of a pointer, the pointer is the key
			break
		}
		return key, c.smallKey(x.Span(), o.t)
	case *Buffer:
		if t.Max > maxKeyObject {
			c.fault(CodeLimit, x.Span(), fmt.Sprintf("write buf(p, %d)", maxKeyObject), "this may have %d bytes, and a key %d at most", t.Max, maxKeyObject)
			return key, false
		}
	}
	if k, constant := key.Value.(*Const); constant && k != nil {
		c.doubt(x.Span(), "", "this key is the same in every call")
	}
	return key, true
}

// smallKey reports an object that is too large for a key.
func (c *checker) smallKey(at Span, t btf.Type) bool {
	size, _ := sizeOf(t)
	if size > 0 && size <= maxKeyObject {
		return true
	}
	hint := ""
	if ms, ok := members(t); ok && len(ms) > 0 && ms[0].Name != "" {
		hint = `name one of its members, such as ".` + ms[0].Name + `"`
	}
	if arr, ok := btf.UnderlyingType(t).(*btf.Array); ok && charLike(arr.Type) {
		hint = "as a string write str(x), for the first bytes buf(&x[0], " + fmt.Sprint(maxKeyObject) + ")"
	}
	c.fault(CodeLimit, at, hint, "%s has %d bytes, and a key 1 to %d", typeName(t), size, maxKeyObject)
	return false
}

// limitKeys reports keys that are too many or too long.
func (c *checker) limitKeys(g *Aggregation, at Span) {
	if n := len(g.Keys); n > maxKeys {
		c.fault(CodeLimit, at, "", "these are %d keys, the limit is %d", n, maxKeys)
		return
	}
	if n := g.KeySize(); n > MaxKey {
		c.fault(CodeLimit, at, "", "the keys have %d bytes, the limit is %d", n, MaxKey)
	}
}

// unitOf returns what a number counts, as far as its text and its type tell.
func unitOf(o operand) Unit {
	if isTime(o.val) {
		return UnitNanos
	}
	t := o.t
	for range maxSpelled {
		def, ok := qualifier.Bare(t).(*btf.Typedef)
		if !ok {
			break
		}
		switch def.Name {
		case "size_t", "ssize_t", "loff_t":
			return UnitBytes
		}
		t = def.Type
	}
	return UnitNone
}

// isTime reports whether t is $time or $duration, or a sum or a difference of one.
func isTime(t Term) bool {
	switch t := t.(type) {
	case *ContextTerm:
		return t.Var == ContextTime || t.Var == ContextDuration
	case *Passed:
		return isTime(t.X)
	case *Convert:
		return isTime(t.X)
	case *UnaryTerm:
		return t.Op == OpNeg && isTime(t.X)
	case *BinaryTerm:
		return (t.Op == OpAdd || t.Op == OpSub) && (isTime(t.X) || isTime(t.Y))
	}
	return false
}

// onlyAggregations reports captures beside aggregations.
func (c *checker) onlyAggregations(items []Item) {
	first := ""
	for i := range items {
		if g := items[i].Aggregation; g != nil && first == "" {
			first = g.Label
		}
	}
	if first == "" {
		return
	}
	for i := range items {
		it := &items[i]
		if it.Predicate == nil && it.Aggregation == nil {
			hint := ""
			if text := c.text[it.Pos.Start:it.Pos.End]; !strings.HasPrefix(text, "diff") && !it.Path {
				hint = "put it in brackets as a key: " + shortened(first+"["+text+"]")
			}
			c.fault(CodeType, it.Pos, hint, "a SPEC that adds calls up shows no values of single calls")
		}
		it.Captures = nil
	}
}
