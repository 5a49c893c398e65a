// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// A Session is a fully resolved request for sessions: which functions open
// one, which are recorded in it, and what is wanted of their calls. Like a
// Plan, it and recorded bytes are all that is needed to decode and print
// elsewhere.
type Session struct {
	// Functions are all that are traced. The kernel tells them by their index.
	Functions []*Function
	// Plan has a probe for each function, in the same order.
	Plan *Plan
	// Conditional says that some SPEC has predicates: only sessions in which a
	// call has met those of its function are reported.
	Conditional bool
}

// A Function is a function that sessions look at.
type Function struct {
	ID     int // index in Session.Functions
	Func   kernel.Function
	Params []Param
	Result btf.Type // nil if the function returns nothing
	Class  ErrorClass
	Entry  bool // opens a session
	// Injected says that it is no function whose calls are recorded; Probe has
	// what it is.
	Injected Injection
	Probe    *Probe // has items if a SPEC asks for values or has predicates
	// Args are the arguments that are captured, with what they point to, in
	// the order of Params or, if that is not nil, of Syscall; nil if none are.
	Args []Arg
	// Syscall are the parameters of the system call that the function serves, nil
	// if it serves none, or they are not known. Params then is the registers.
	Syscall []kernel.Field
	// asked is the SPEC that asks for this very function, by its name; nil if
	// there is none.
	asked *expr.Spec
}

// complete gives every function its probe, and both their places.
func (s *Session) complete(view *kernel.View, args bool, o Options) error {
	for i, f := range s.Functions {
		if f.Probe == nil {
			f.Probe = &Probe{Func: f.Func, Params: f.Params, Result: f.Result, Method: MethodFentry}
			if !f.Probe.FentryPossible() {
				f.Probe.Method = MethodKprobe
			}
			if o.Method != nil {
				f.Probe.Method = o.Method(f.Probe)
			}
		}
		f.ID, f.Probe.ID, f.Probe.Session = i, i, f
		if err := f.Probe.layout(); err != nil {
			return err
		}
		switch {
		case !args || f.Injected != NotInjected:
		case f.Syscall != nil:
			f.Args = argsOf(syscallParams(view, f.Syscall, o.Arch), o.Arch)
		default:
			f.Args = argsOf(f.Params, o.Arch)
		}
		s.Conditional = s.Conditional || f.Conditional()
		s.Plan.Probes = append(s.Plan.Probes, f.Probe)
	}
	return nil
}

// injected says how p is a part of a session besides its calls.
func (p *Probe) injected() Injection {
	if p.Session == nil {
		return NotInjected
	}
	return p.Session.Injected
}

// HasItems reports whether a SPEC asks for values of the function's calls or
// has predicates on them.
func (f *Function) HasItems() bool { return len(f.Probe.Items) > 0 }

// Conditional reports whether calls of the function must meet predicates.
func (f *Function) Conditional() bool {
	for _, it := range f.Probe.Items {
		if it.Predicate != nil {
			return true
		}
	}
	return false
}

// An ErrorClass says which results of a function mean that it failed.
type ErrorClass uint8

const (
	NeverFails   ErrorClass = iota // void, bool, unsigned but for unsigned long, or narrower than 4 bytes
	FailsInt32                     // signed, 4 bytes: the low 32 bits are -4095…-1
	FailsInt64                     // signed, 8 bytes, unsigned long, or a pointer that may be NULL: -4095…-1
	FailsPointer                   // NULL or -4095…-1
)

// maxErrno is the kernel's MAX_ERRNO.
const maxErrno = 4095

// Failed reports whether a result, the whole of the return register, means
// that the function failed.
func (c ErrorClass) Failed(result uint64) bool {
	switch c {
	case FailsInt32:
		return uint32(result) >= -maxErrno&(1<<32-1)
	case FailsInt64:
		return result >= 1<<64-maxErrno
	case FailsPointer:
		return result == 0 || result >= 1<<64-maxErrno
	}
	return false
}

// answersNull has the structures of which a pointer that is NULL says that there is
// none, which is no failure: a look-up in a folder returns NULL when it has done its
// work (Documentation/filesystems/vfs.rst), a file need not have an access list, and
// vma_merge returns NULL where nothing can be merged.
// It is never changed.
var answersNull = [...]string{"dentry", "posix_acl", "vm_area_struct"}

// mayBeNull reports whether NULL is no failure of a function that returns a pointer
// to t. To one that allocates it, it is.
func mayBeNull(function string, t btf.Type) bool {
	s, ok := btf.UnderlyingType(t).(*btf.Struct)
	return ok && slices.Contains(answersNull[:], s.Name) && !strings.Contains(function, "alloc")
}

// unsignedLong are the names that compilers give to unsigned long, as which addresses are
// returned: do_mmap and get_unmapped_area return errors by it. It is never changed.
var unsignedLong = [...]string{"long unsigned int", "unsigned long"}

// classOf returns the error class of a function by its result type; nil is void.
func classOf(function string, t btf.Type) ErrorClass {
	if t == nil {
		return NeverFails
	}
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Pointer:
		if mayBeNull(function, t.Target) {
			return FailsInt64
		}
		return FailsPointer
	case *btf.Enum:
		if t.Size == 4 {
			return FailsInt32
		}
	case *btf.Int:
		switch {
		case slices.Contains(unsignedLong[:], t.Name):
			return FailsInt64
		case t.Encoding != btf.Signed:
		case t.Size == 4:
			return FailsInt32
		case t.Size == 8:
			return FailsInt64
		}
	}
	return NeverFails
}
