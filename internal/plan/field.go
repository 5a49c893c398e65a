// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/ptregs"
	"github.com/ksnoop/ksnoop/layout"
)

// record is the address of what a program is handed.
var record = &expr.ContextTerm{T: &btf.Pointer{Target: &btf.Void{}}, Var: expr.ContextRecord}

// field makes a parameter from a field of a tracepoint or a system call. The kernel's size
// and sign are right; the declared C type may be missing from BTF. user says that pointers
// point to user memory.
func field(types expr.Types, f kernel.Field, user bool) expr.Param {
	p := expr.Param{Name: f.Name, Base: record, Off: int64(f.Offset)}
	t := declared(types, f.Decl, user)
	switch {
	case f.Located || f.RelLocated:
		p.Form = expr.Located
		if f.RelLocated {
			p.Form = expr.RelLocated
		}
		if p.Type = t; t == nil {
			p.Type = byteType
		}
	case f.Array:
		p.Type = array(t, f.Size)
	default:
		p.Type = scalar(t, f, user)
	}
	return p
}

var byteType = &btf.Int{Name: "u8", Size: 1}

// array returns an array of t that fills size bytes; if t does not fit, an array of bytes.
func array(t btf.Type, size uint32) btf.Type {
	n := 0
	if t != nil {
		n, _ = btf.Sizeof(t)
	}
	if n <= 0 || size%uint32(n) != 0 {
		t, n = byteType, 1
	}
	return &btf.Array{Type: t, Index: layout.Word(), Nelems: size / uint32(n)}
}

// scalar returns t if it agrees with the field's size and sign, or else an integer that
// does. Registers of a system call hold narrower numbers in 8 bytes.
func scalar(t btf.Type, f kernel.Field, register bool) btf.Type {
	size := -1
	if t != nil {
		size, _ = btf.Sizeof(t)
	}
	_, signed, number := expr.Number(t)
	switch {
	case t != nil && register && number:
		return t
	case t != nil && size == int(f.Size) && (!number || signed == f.Signed || !plainInt(t)):
		return t
	case f.Size == 1, f.Size == 2, f.Size == 4, f.Size == 8:
		i := &btf.Int{Name: f.Decl, Size: f.Size}
		if f.Signed {
			i.Encoding = btf.Signed
		}
		return i
	}
	return array(nil, f.Size)
}

// plainInt reports whether t is an integer type, whose sign must agree with the field's.
// The sign of an enum is the compiler's choice.
func plainInt(t btf.Type) bool {
	_, ok := btf.UnderlyingType(t).(*btf.Int)
	return ok
}

// declared returns the type that a C declaration spells, or nil if BTF has none. A pointer
// to an unknown type becomes void *.
func declared(types expr.Types, decl string, user bool) btf.Type {
	var name []string
	stars, constant := 0, false
	for _, word := range strings.Fields(strings.ReplaceAll(decl, "*", " * ")) {
		switch {
		case word == "*":
			stars++
		case word == "const" && stars == 0:
			constant = true
		case word != "const" && word != "volatile" && word != "__user":
			name = append(name, word)
		}
	}
	t, err := expr.LookupType(strings.Join(name, " "), types)
	if err != nil || t == nil {
		if stars == 0 {
			return nil
		}
		t = &btf.Void{}
	}
	if constant {
		t = &btf.Const{Type: t}
	}
	if p, ok := btf.UnderlyingType(t).(*btf.Pointer); ok && user && stars == 0 {
		return &btf.Pointer{Target: &btf.TypeTag{Value: "user", Type: p.Target}} // cap_user_header_t
	}
	for i := range stars {
		if user && i == stars-1 {
			t = &btf.TypeTag{Value: "user", Type: t}
		}
		t = &btf.Pointer{Target: t}
	}
	return t
}

// syscallParams returns the parameters of a system call, in the registers where user space
// passes them.
func syscallParams(view *kernel.View, fields []kernel.Field, arch string) []layout.Param {
	params := make([]layout.Param, 0, len(fields))
	for i, f := range fields[:min(len(fields), len(ptregs.SyscallArguments(arch)))] {
		p := field(kernelTypes{view, ""}, f, true)
		params = append(params, layout.Param{Param: expr.Param{Name: p.Name, Type: p.Type}, Loc: layout.Loc{Reg: i, Slots: 1}})
	}
	return params
}

// SyscallTypes returns the types of a system call's parameters. BTF has most of them; of the others the
// size is that of a register.
func SyscallTypes(view *kernel.View, fields []kernel.Field, arch string) []btf.Type {
	var types []btf.Type
	for _, p := range syscallParams(view, fields, arch) {
		types = append(types, p.Type)
	}
	return types
}
