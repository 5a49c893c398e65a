// SPDX-License-Identifier: Apache-2.0

package expr

import "github.com/cilium/ebpf/btf"

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
	// Withheld is the type of what is shown if it is not to be captured: Value is 0 then. Only
	// [Withhold] sets it.
	Withheld btf.Type
}

func (c *Capture) withheld() Capture {
	var value Term = &Const{T: &btf.Int{Name: "unsigned long", Size: 8}}
	if c.Phase() == AtReturn {
		value = &Passed{value}
	}
	of := c.Value
	if of == nil {
		of = c.Target
	}
	out := Capture{Label: c.Label, Value: value, Withheld: of.Type()}
	if c.After != nil {
		after := c.After.withheld()
		out.After = &after
	}
	return out
}

// Phase returns the first moment at which all parts of the capture can be read.
func (c *Capture) Phase() Phase {
	if c.Value != nil && PhaseOf(c.Value) == AtReturn || c.Target != nil && PhaseOf(c.Target) == AtReturn {
		return AtReturn
	}
	return AtEntry
}

// A View is the notation that a function such as hex() asks for.
type View uint8

const (
	ViewDefault   View = iota
	ViewHex            // hex(x)
	ViewDec            // dec(x)
	ViewSym            // sym(x)
	ViewIP             // ip(x)
	ViewMAC            // mac(x)
	ViewContainer      // $container: the value is the ID of a cgroup
	ViewPod            // $pod: the same
)

// MaxText is the most bytes of a string that are shown or compared, its final NUL included.
const MaxText = 256
