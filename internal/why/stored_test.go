// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// TestPlaces: a function that returns a pointer may store its error in an int that a parameter points to, or in
// a member err of what it points to.
func TestPlaces(t *testing.T) {
	number, unsigned := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, &btf.Int{Name: "unsigned int", Size: 4}
	to := func(target btf.Type) btf.Type { return &btf.Pointer{Target: target} }
	arg := &btf.Struct{Name: "proto_accept_arg", Size: 12, Members: []btf.Member{{Name: "flags", Type: number}, {Name: "err", Type: &btf.Typedef{Name: "s32", Type: number}, Offset: 32}, {Name: "error", Type: unsigned, Offset: 64}}}
	params := []btf.FuncParam{{Name: "sk", Type: to(&btf.Struct{Name: "sock", Size: 8})}, {Name: "errp", Type: to(number)}, {Name: "", Type: to(number)}, {Name: "seq", Type: to(unsigned)}, {Name: "err", Type: number}, {Name: "arg", Type: to(&btf.Const{Type: arg})}}
	function := func(name string, result btf.Type) kernel.Function {
		return kernel.Function{Name: name, Type: &btf.Func{Name: name, Type: &btf.FuncProto{Return: result, Params: params}}}
	}
	for _, tt := range []struct {
		f    kernel.Function
		want []string
	}{
		{function("inet_csk_accept", to(&btf.Struct{Name: "sock", Size: 8})), []string{"*errp", "arg->err"}},
		{function("inet_accept", number), nil},                                  // it returns its error
		{function("lookup", to(&btf.Struct{Name: "dentry", Size: 8})), nil},     // its NULL is no error
		{function("put", &btf.Void{}), nil},                                     // it returns nothing
		{kernel.Function{Name: "qdisc_create.isra.0", Addr: 1}, nil},            // without types
		{kernel.Function{Name: "odd", Type: &btf.Func{Type: &btf.Void{}}}, nil}, // of hostile BTF
	} {
		if got := places(tt.f); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.f.Name, got, tt.want)
		}
	}
}

// TestFailed: by which predicates the last run finds a call again.
func TestFailed(t *testing.T) {
	proto := &btf.Func{Type: &btf.FuncProto{}}
	for _, tt := range []struct {
		l    Link
		want string
	}{
		{Link{Function: kernel.Function{Name: "f", Type: proto}}, "f((long)return == -2)"},
		{Link{Function: kernel.Function{Name: "f"}}, "f((int)return == -2)"},
		{Link{Function: kernel.Function{Name: "f", Type: proto}, stored: "*errp"}, "f(return == 0, exit(*errp) == -2)"},
	} {
		if got := waySpec(tt.l.Function, tt.l.failed(uint64(unix.ENOENT)), true, nil); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
