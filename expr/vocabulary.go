// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"iter"
	"runtime"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// This file tells what can be written, for those who complete what is being typed.

// TypeOf returns the type of an expression in a scope; of a string, such as $comm and str(p), an array of
// char. ok is false if the text has a fault.
func TypeOf(text string, scope *Scope) (t btf.Type, ok bool) {
	spec, err := Parse("f(" + text + ")")
	if err != nil || len(spec.Items) != 1 {
		return nil, false
	}
	c := checker{scope: scope, text: spec.Text}
	o, ok := c.expr(spec.Items[0], nil)
	if ok && o.text != nil {
		return &btf.Array{Index: typeInt, Type: typeChar, Nelems: o.text.Max}, true
	}
	return o.t, ok
}

// Members yields the members of a struct or union that a SPEC can name: those of anonymous members
// are among them.
func Members(t btf.Type) iter.Seq[btf.Member] {
	return func(yield func(btf.Member) bool) { eachMember(t, 0, yield) }
}

// A Builtin is a function of the language, with how many arguments it takes.
type Builtin struct {
	Name        string
	Least, Most int
	Aggregates  bool // it adds calls up
}

// Builtins returns all functions of the language. container_of and sizeof are operators.
func Builtins() []Builtin {
	var all []Builtin
	for _, name := range sortedKeys(functions) {
		all = append(all, Builtin{name, functions[name], functions[name], false})
	}
	all = append(all, Builtin{Name: pathFunction})
	for _, name := range sortedKeys(aggregators) {
		all = append(all, Builtin{name, aggregators[name].least, aggregators[name].most, true})
	}
	return all
}

// ContextNames returns the names of the context values, of those that are an item or a key by themselves, and of
// those that are keys and nothing else.
func ContextNames() (values, shown, keys []string) {
	values = append(sortedKeys(contextVars), "$comm", taskVar)
	slices.Sort(values)
	return values, sortedKeys(groupVars), sortedKeys(keyVars)
}

// ConstantNames returns the names that constants have in every kernel of this architecture.
func ConstantNames() []string { return constantNames(runtime.GOARCH) }

// BinaryPrecedence returns how strongly a binary operator binds, from 1; 0 if it is none.
func BinaryPrecedence(operator string) int { return ops[binaryOp(operator)].prec }
