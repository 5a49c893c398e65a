// SPDX-License-Identifier: Apache-2.0

package completion

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// postfixOnly are functions whose arguments no operator can follow: the result would be no pointer, or
// have another size. It is never changed.
var postfixOnly = []string{"str", "ustr", "user", "buf", "mac", "ip", "ntohs", "ntohl", "sizeof", "container_of", "diff", "$any"}

// operators adds what can follow the operand that ends before token n. apart says that a blank is
// there already.
func (c *completer) operators(n int, apart bool) {
	if c.typed() {
		c.found = append(c.found, c.behindType()...)
		return
	}
	x := c.postfix(n)
	t, ok := c.typeOf(x)
	if ok {
		c.selections(x, t, apart)
		_, whole := c.typeOf(c.text[c.expression()[0].at:])
		if b := c.top(); whole && !c.wantsPointer() && (!slices.Contains(postfixOnly, b.call) || b.call == "buf" && b.arg > 0) {
			c.binary(t, apart)
		}
	}
	if _, _, scalar := expr.Number(t); ok && c.wantsPointer() && !scalar && !isArray(t) {
		return // it is no pointer yet
	}
	c.closings()
}

// typed reports whether the expression at the cursor is the name of a type.
func (c *completer) typed() bool {
	tokens := c.expression()
	if len(tokens) == 0 || tokens[0].kind != word {
		return false
	}
	b := c.top()
	if b.call == "container_of" && b.arg == 1 {
		return true
	}
	return len(c.open) > 1 && isType(tokens) && typeWord.MatchString(tokens[0].text) && (b.call == "" || b.call == "sizeof" || b.call == "$any") &&
		!slices.ContainsFunc(c.scope.Params, func(p expr.Param) bool { return p.Name == tokens[0].text })
}

// behindType returns what can follow the name of a type.
func (c *completer) behindType() []Candidate {
	name := c.expression()
	stars := len(name) > 0 && name[len(name)-1].text == "*"
	if b := c.top(); b.call == "container_of" {
		return []Candidate{{", ", ",", "the member"}}
	}
	if slices.Contains(kinds[:], name[len(name)-1].text) {
		return nil // half a type
	}
	if stars || c.top().call == "sizeof" {
		return []Candidate{{")", ")", about[")"]}}
	}
	return []Candidate{{" *)", "*)", "a pointer"}, {")", ")", about[")"]}}
}

// selections adds what leads from a value to a part of it.
func (c *completer) selections(x string, t btf.Type, apart bool) {
	if apart || slices.Contains(c.aggregation(), x) {
		return
	}
	switch btf.UnderlyingType(t).(type) {
	case *btf.Struct, *btf.Union:
		if c.suits(t) {
			c.next(".")
		}
	case *btf.Array:
		if _, ok := c.typeOf(x + "[0]"); ok { // not of a string
			c.next("[")
		}
	case *btf.Pointer:
		of, ok := c.typeOf("*(" + x + ")")
		if !ok {
			return
		}
		if _, _, scalar := expr.Number(of); scalar {
			c.next("[")
		} else if hasMembers(of) && c.suits(of) {
			c.next("->")
		}
	}
}

func hasMembers(t btf.Type) bool {
	for range expr.Members(t) {
		return true
	}
	return false
}

func (c *completer) next(text string) { c.found = append(c.found, Candidate{text, text, about[text]}) }

// binary adds operators between two operands.
func (c *completer) binary(t btf.Type, apart bool) {
	_, _, number := expr.Number(t)
	_, pointer := btf.UnderlyingType(t).(*btf.Pointer)
	var operators []string
	switch {
	case isArray(t) && stringLike(t):
		operators = []string{"==", "!=", "~"}
	case pointer:
		operators = []string{"==", "!=", "&&", "||"}
	case number:
		operators = []string{"==", "!=", "<", "<=", ">", ">=", "&", "+", "-", "&&", "||"}
	}
	if pointer && stringLike(t) {
		operators = append(operators, "~")
	}
	for _, op := range operators {
		text := op + " "
		if !apart {
			text = " " + text
		}
		c.found = append(c.found, Candidate{text, op, about[op]})
	}
}

// aggregation returns the item at the cursor if that adds calls up.
func (c *completer) aggregation() []string {
	tokens := c.expression()
	if len(c.open) != 1 || len(tokens) < 3 || !aggregates(tokens[0].text) || tokens[1].text != "(" {
		return nil
	}
	return []string{strings.TrimSpace(c.text[tokens[0].at:])}
}

// closings adds what ends the expression: a comma before another one, or the closing bracket, and the
// keys of an aggregation.
func (c *completer) closings() {
	b := c.top()
	text := strings.TrimRight(c.text, " ")
	if item := c.aggregation(); item != nil && strings.HasSuffix(item[0], ")") {
		c.found = append(c.found, Candidate{"[", "[", "keys: a row for each"})
	}
	least, most := 1, 1
	f, called := builtin(b.call)
	switch {
	case called:
		least, most = f.Least, f.Most
	case b.call == "container_of":
		least, most = 3, 3
	case len(c.open) == 1 || b.keys:
		most = expr.MaxNesting
	}
	open := c.open[:len(c.open)-1]
	closer := closers(c.open[len(c.open)-1:])
	if b.arg+1 < most && (b.arg+1 < least || c.holds(text+closer+c.rest(open))) {
		c.found = append(c.found, Candidate{", ", ",", about[","]})
	}
	if b.arg+1 >= least && c.holds(text+closer+c.rest(open)) {
		c.next(closer)
	}
}

// rest returns text that finishes what is open: missing arguments as numbers, and brackets.
func (c *completer) rest(open []bracket) string {
	var b strings.Builder
	for i := len(open) - 1; i >= 0; i-- {
		if f, ok := builtin(open[i].call); ok {
			for n := open[i].arg + 1; n < f.Least; n++ {
				b.WriteString(", 1")
			}
		}
		b.WriteString(closers(open[i : i+1]))
	}
	return b.String()
}

// holds reports whether the items of a SPEC are without faults.
func (c *completer) holds(items string) bool {
	spec, err := expr.Parse("f" + items)
	if err != nil {
		return false
	}
	scope := *c.scope
	scope.Doubt = func(*expr.Error) {}
	_, err = expr.Check(spec, &scope)
	return err == nil
}
