// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"cmp"
	"runtime"

	"github.com/cilium/ebpf/btf"
)

// A Param is a parameter of the traced function, a field of a tracepoint, or a register.
type Param struct {
	Name string // may be empty: BTF does not name every parameter
	Type btf.Type
	// Base is the address of the object that holds the value, Off bytes further on. Base is
	// nil for a value passed in registers or on the stack, which a Machine supplies.
	Base Term
	Off  int64
	// Form says how the field is encoded; Plain for anything but a tracepoint's dynamic
	// array.
	Form Form
	// Value computes the parameter if it is neither passed nor stored. Debug info may say
	// that a parameter is another one plus a constant, for example. Its type is Type, a
	// scalar.
	Value Term
	// Absent marks a parameter whose value is nowhere. Without Why, the compiler optimised
	// it out.
	Absent bool
	Why    string // "is passed in …"
	// Lost are the words of a value that cannot be read although others can: floating-point
	// registers have them.
	Lost Words
}

// Words is a set of the 64-bit words of a value: bit i stands for word i.
type Words uint8

// A Form is the encoding of a field in a tracepoint's record.
type Form uint8

const (
	Plain      Form = iota // the value itself
	Located                // __data_loc: 4 bytes, array length << 16 | offset from Base
	RelLocated             // __rel_loc: the same, with the offset counted from the end of these 4 bytes
)

// A Scope gives meaning to the names of a SPEC: one function, and the types of its kernel.
type Scope struct {
	Func   string // as error messages call it
	Params []Param
	Return btf.Type // result type; nil or void if nothing is returned
	// ReturnBase is the address of a result that is returned in memory, as large structs
	// are. ReturnWhy, if not empty, says why the result is not available. ReturnLost are words
	// of it that are not, as with parameters.
	ReturnBase Term
	ReturnWhy  string
	ReturnLost Words
	// Untyped marks a function that BTF does not describe. Params are then its argument
	// registers, and Return stands for the result register.
	Untyped bool
	// UntypedWhy, if not empty, says why no more is known of Params.
	UntypedWhy string
	// Point marks an instruction or a tracepoint: execution passes it and nothing returns.
	Point bool
	// PointHint says more of a Point where `return` is asked for.
	PointHint string
	// User marks a place in user space: whatever a pointer is made of, it leads to user memory.
	User bool
	// Arch is the architecture, as in GOARCH, which some constants of the headers differ by; empty for
	// that of this program.
	Arch   string
	Types  Types
	Macros Macros // may be nil
	// Doubt receives warnings: valid expressions that hardly mean what they say. May be
	// nil.
	Doubt func(*Error)
}

func (s *Scope) arch() string { return cmp.Or(s.Arch, runtime.GOARCH) }

// Types looks up types by name. A kernel's BTF implements it.
type Types interface {
	// TypesByName returns all types with this spelling: "struct sk_buff", "enum x", "u32".
	// An empty result is not an error.
	TypesByName(spelling string) ([]btf.Type, error)
	// Enumerators returns every enum that has an enumerator called name, with its value.
	Enumerators(name string) ([]Enumerator, error)
}

// An Enumerator is one enumerator of one enum.
type Enumerator struct {
	Enum  *btf.Enum
	Value uint64 // sign-extended if the enum is signed
}

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
