// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/layout"
)

// Some functions return NULL and store the error in memory: qdisc_create where its parameter errp points
// to, inet_csk_accept in the member err of a structure. What stands there when the function returns tells.

// storedNames are what members of structures are called that take an error.
var storedNames = []string{"err", "error"}

// places returns where a function that returns NULL may have stored its error: "*errp", "arg->err".
func places(f kernel.Function) (at []string) {
	if f.Type == nil {
		return nil
	}
	proto, ok := f.Type.Type.(*btf.FuncProto)
	if !ok || layout.ClassOf(f.Name, result(proto)) != layout.FailsPointer {
		return nil
	}
	for i := range proto.Params {
		p := &proto.Params[i]
		pointer, ok := btf.UnderlyingType(p.Type).(*btf.Pointer)
		if !ok || p.Name == "" {
			continue
		}
		switch target := btf.UnderlyingType(pointer.Target).(type) {
		case *btf.Int:
			if isInt(target) {
				at = append(at, "*"+p.Name)
			}
		case *btf.Struct:
			for _, m := range target.Members {
				if slices.Contains(storedNames, m.Name) && isInt(m.Type) {
					at = append(at, p.Name+"->"+m.Name)
				}
			}
		}
	}
	return at
}

// isInt reports whether a type is C's int, or one like it.
func isInt(t btf.Type) bool {
	i, ok := btf.UnderlyingType(t).(*btf.Int)
	return ok && i.Encoding == btf.Signed && i.Size == 4
}

// atReturn is the item of a SPEC that shows such a place as it is when the function returns.
func atReturn(place string) string { return "exit(" + place + ")" }

// stored returns the place where a function that has returned NULL has stored the error, by the values of the
// call; "" if there is none, or it was not read.
func stored(fields *output.Fields, f kernel.Function, e *event.Event, errno uint64) (string, error) {
	if e == nil {
		return "", nil
	}
	values, err := fields.Of(e)
	if err != nil {
		return "", err
	}
	for _, place := range places(f) {
		for _, v := range values {
			scalar, _ := v.Slots()
			if scalar == nil || v.Label() != atReturn(place) {
				continue
			}
			if n, ok := e.Value(scalar); ok && uint32(n) == -uint32(errno) {
				return place, nil
			}
		}
	}
	return "", nil
}
