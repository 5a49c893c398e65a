// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Macros looks macros up. It is the part of a kernel's view that is asked last.
type Macros interface {
	// Macros returns the values that the kernel tells of a macro, each once. The
	// error says why it tells of no macros at all.
	Macros(name string) ([]Macro, error)
	// MacroNames returns the names of all of them.
	MacroNames() []string
}

// A Macro is what a kernel tells of a name that is none of its enumerators.
type Macro struct {
	Value int64  // as those of the UAPI headers are, of the type that a number has there
	Where string // for messages: "tp:kmem:kmalloc"
}

// macro finds the value of a macro: with it, looking up a name ends.
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

// constantName is what nothing but a constant is called.
var constantName = regexp.MustCompile(`^_*[A-Z][A-Z0-9]*_[A-Z0-9_]*$`)

// constantHint says which constants there are, after what may have been meant;
// unreadable is why there are no macros.
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

// ConstantOf computes an expression of numbers and enumerators by the rules of the
// language. It refuses what is longer or deeper than a SPEC may be.
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
