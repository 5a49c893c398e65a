// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/suggest"
)

// lookup resolves a name. In this order it tries: parameters, the enum it is compared with,
// C and UAPI constants, all enumerators of the kernel, macros.
func (c *checker) lookup(n *Name, want *btf.Enum) (operand, bool) {
	for i, p := range c.scope.Params {
		if p.Name == n.Name && p.Name != "" {
			return c.parameter(i, n.Pos)
		}
	}
	if want != nil {
		for _, v := range want.Values {
			if v.Name == n.Name {
				return enumConst(want, v.Value), true
			}
		}
	}
	if k, ok := constant(n.Name, c.scope.arch()); ok {
		return k, true
	}
	return c.enumerator(n, want)
}

// enumerator resolves a name among all enums. Several enums may have it if they agree on
// the value.
func (c *checker) enumerator(n *Name, want *btf.Enum) (operand, bool) {
	found, err := c.scope.Types.Enumerators(n.Name)
	if err != nil {
		return c.fault(CodeUnknownName, n.Pos, "", "looking up %q: %v", n.Name, err)
	}
	if len(found) == 0 {
		return c.macro(n, want)
	}
	for _, f := range found[1:] {
		if f.Value != found[0].Value {
			return c.fault(CodeAmbiguous, n.Pos, "cast it or write the number: "+enumValues(found), "several enums give %s different values", n.Name)
		}
	}
	return enumConst(found[0].Enum, found[0].Value), true
}

// enumConst returns an enumerator's value with the type that C gives it: int if it fits.
func enumConst(e *btf.Enum, v uint64) operand {
	t := btf.Type(typeInt)
	switch {
	case !e.Signed && v <= math.MaxInt32, e.Signed && int64(v) == int64(int32(v)):
	case v>>32 == 0:
		t = typeUint
	default:
		t = numeric{8, e.Signed}.typ()
	}
	return value(t, &Const{t, v})
}

// enumValues lists the values of an ambiguous name, each with its enum.
func enumValues(found []Enumerator) string {
	s := ""
	for i, f := range found {
		if i > 0 {
			s += ", "
		}
		if f.Enum.Signed {
			s += strconv.FormatInt(int64(f.Value), 10)
		} else {
			s += strconv.FormatUint(f.Value, 10)
		}
		s += " (" + typeName(f.Enum) + ")"
	}
	return s
}

// macro resolves a name as a macro. It is the last attempt: the name is unknown if this
// fails.
func (c *checker) macro(n *Name, want *btf.Enum) (operand, bool) {
	var found []Macro
	var unreadable error
	if c.scope.Macros != nil {
		found, unreadable = c.scope.Macros.Macros(n.Name)
	}
	switch len(found) {
	case 0:
		return c.fault(CodeUnknownName, n.Pos, c.nameHint(n.Name, want, unreadable), "%s has no parameter %q, and no enum has such a value", c.scope.Func, n.Name)
	case 1:
		return integer(found[0].Value), true
	}
	values := make([]string, len(found))
	for i, m := range found {
		values[i] = fmt.Sprintf("%#x (%s)", uint64(m.Value), m.Where)
	}
	return c.fault(CodeAmbiguous, n.Pos, "write the number: "+strings.Join(values, ", "), "tracepoints give %s different values", n.Name)
}

// nameHint says what the user may have meant. unreadable says why macros are not known.
func (c *checker) nameHint(name string, want *btf.Enum, unreadable error) string {
	if meant := c.otherwiseCalled(name); meant != "" {
		return suggest.DidYouMean(meant)
	}
	if _, known := functions[name]; known {
		return "it is a function: " + name + "(x)"
	}
	if f, known := aggregators[name]; known {
		return "it is a function: " + name + map[bool]string{true: "()", false: "(x)"}[f.most == 0]
	}
	if hint := cmp.Or(otherHints[name], c.argumentHint(name)); hint != "" {
		return hint
	}
	constant := constantName.MatchString(name)
	hint := suggest.Hint(name, func(yield func(string) bool) {
		if c.returns() && !yield("return") {
			return
		}
		for _, p := range c.scope.Params {
			if !yield(p.Name) {
				return
			}
		}
		if want != nil {
			for _, v := range want.Values {
				if !yield(v.Name) {
					return
				}
			}
		}
		for _, k := range constantNames(c.scope.arch()) {
			if (!constant || constantName.MatchString(k)) && !yield(k) {
				return
			}
		}
		if constant && c.scope.Macros != nil {
			slices.Values(c.scope.Macros.MacroNames())(yield)
		}
	})
	if constant {
		return constantHint(hint, unreadable)
	}
	if hint != "" || len(c.scope.Params) == 0 {
		return hint
	}
	if why := c.scope.UntypedWhy; why != "" {
		return why
	}
	if c.scope.Untyped && c.scope.User {
		return "what its parameters are called is not known: $arg1, $arg2 and so on are what its registers hold"
	}
	if c.scope.Untyped {
		return "its module has no BTF, or BTF does not describe it: $arg1, $arg2 and so on are what its registers hold"
	}
	hint = "its parameters are "
	for i := range c.scope.Params {
		if i > 0 {
			hint += ", "
		}
		hint += c.paramName(i)
	}
	return hint
}

// returnNames are common names for a return value, in C and in other tracers.
var returnNames = []string{"ret", "retval", "rval", "rv", "rc", "result", "retn", "$return", "$retval", "$ret"}

// tracerNames are what other tracers call context values. It is never changed.
var tracerNames = map[string]string{"nsecs": "$time", "curtask": taskVar}

// otherwiseCalled returns the language's word for a name that users of other tracers write:
// return for ret, $pid for pid. It returns "" if there is none.
func (c *checker) otherwiseCalled(name string) string {
	if c.returns() && slices.Contains(returnNames, name) {
		return "return"
	}
	if meant := tracerNames[strings.TrimPrefix(name, "$")]; meant != "" {
		return meant
	}
	context := "$" + name
	_, known := contextVars[context]
	for _, p := range c.scope.Params {
		known = known || p.Name == context // a register
	}
	if known || context == "$comm" || context == taskVar {
		return context
	}
	return ""
}

// argumentName matches the names of arguments by number in other tracers.
var argumentName = regexp.MustCompile(`^args?([0-9]*)$`)

// argumentHint tells how parameters are named here.
func (c *checker) argumentHint(name string) string {
	number := argumentName.FindStringSubmatch(name)
	if number == nil || len(c.scope.Params) == 0 {
		return ""
	}
	return "parameters stand by themselves: " + c.paramName(0) + " is the first one, and so is $arg1"
}

// returns reports whether `return` means something in this scope.
func (c *checker) returns() bool {
	_, ok := c.result()
	return ok && !c.scope.Point
}

// paramName returns the name by which a SPEC can refer to parameter i: $argN if BTF has no
// name.
func (c *checker) paramName(i int) string {
	if name := c.scope.Params[i].Name; name != "" {
		return name
	}
	return "$arg" + strconv.Itoa(i+1)
}
