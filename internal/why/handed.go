// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
)

// Some functions take an error as an argument and return it: link_path_walk of Linux 7.3 is called
// with the name that open_last_lookups returns, which may be an error. Such a function is not recorded
// in further runs: then the chain leads to the call before it that returned the error or, if there is
// none, ends at their caller, which has made it itself.

// arguments are the items of a SPEC that show those arguments of a function in which an error may be: the
// pointers and signed numbers.
func arguments(f kernel.Function) (items []string) {
	if f.Type != nil {
		if proto, ok := f.Type.Type.(*btf.FuncProto); ok {
			for i := range proto.Params {
				if p := &proto.Params[i]; p.Name != "" && mayBeError(p.Type) {
					items = append(items, "(long)"+p.Name)
				}
			}
		}
	}
	return items
}

// specOf is the SPEC of a function with these items, its name alone if there are none.
func specOf(function string, items []string) string {
	if len(items) == 0 {
		return function
	}
	return function + "(" + strings.Join(items, ", ") + ")"
}

// mayBeError reports whether a type can hold an error.
func mayBeError(t btf.Type) bool {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Pointer:
		return true
	case *btf.Int:
		return t.Encoding == btf.Signed && t.Size >= 4
	}
	return false
}

// handed reports whether a call was made with an error, by what arguments has asked for.
func handed(fields *output.Fields, f *session.Frame, failure *Failure) (bool, error) {
	if f.Values.Event == nil {
		return false, nil
	}
	values, err := fields.Of(f.Values.Event)
	if err != nil {
		return false, err
	}
	for _, v := range values {
		if scalar, _ := v.Slots(); scalar != nil && !v.AtReturn() {
			if n, ok := f.Values.Event.Value(scalar); ok && failure.handedOn(n) {
				return true, nil
			}
		}
	}
	return false, nil
}

// handedOn reports whether an argument of a function is the error. A negative number that the program
// has passed to the system call is none.
func (f *Failure) handedOn(n uint64) bool {
	return n == -f.Errno && !slices.ContainsFunc(f.Args[:], func(arg uint64) bool { return uint32(arg) == uint32(n) })
}
