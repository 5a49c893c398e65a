// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Macros looks up preprocessor macros, which BTF does not have. The print formats of
// tracepoints contain some, such as GFP_KERNEL.
type Macros interface {
	// Macros returns the distinct values that the kernel gives for a macro; several are a
	// conflict. The error says why no macros are known at all.
	Macros(name string) ([]Macro, error)
	// MacroNames returns all names, as candidates for a hint.
	MacroNames() []string
}

// A Macro is one value of a macro and where the kernel says so.
type Macro struct {
	Value int64  // typed as a literal in a header would be
	Where string // for messages: "tp:kmem:kmalloc"
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

// constantName matches names that can only be constants: upper case with an underscore.
var constantName = regexp.MustCompile(`^_*[A-Z][A-Z0-9]*_[A-Z0-9_]*$`)

// constantHint says which constants exist. near is a suggestion to put first; unreadable
// says why macros are not known.
func constantHint(near string, unreadable error) string {
	hint := "known are BTF's enumerators, UAPI constants, and macros in the print formats of tracepoints; write any other as a number"
	if unreadable != nil {
		hint += " (no macros: " + unreadable.Error() + ")"
	}
	if near != "" {
		return near + " K" + hint[1:]
	}
	return hint
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
