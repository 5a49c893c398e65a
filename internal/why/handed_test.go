// SPDX-License-Identifier: Apache-2.0

package why

import (
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// TestArguments: errors are in pointers and in signed numbers of at least four bytes. A structure
// that is passed by value cannot be converted to a number, nor has a parameter without a name a place.
func TestArguments(t *testing.T) {
	number := func(size uint32, e btf.IntEncoding) btf.Type { return &btf.Int{Size: size, Encoding: e} }
	f := kernel.Function{Name: "link_path_walk", Type: &btf.Func{Name: "link_path_walk", Type: &btf.FuncProto{Params: []btf.FuncParam{
		{Name: "name", Type: &btf.Pointer{Target: &btf.Const{Type: number(1, btf.Signed)}}}, {Name: "flags", Type: number(4, 0)}, {Name: "err", Type: &btf.Typedef{Name: "s32", Type: number(4, btf.Signed)}},
		{Name: "mode", Type: number(2, btf.Signed)}, {Name: "vec", Type: &btf.Struct{Name: "vec", Size: 8}}, {Name: "", Type: &btf.Pointer{Target: &btf.Void{}}}, {Name: "ret", Type: number(8, btf.Signed)}}}}}
	for _, tt := range []struct {
		f    kernel.Function
		want string
	}{
		{f, "link_path_walk((long)name, (long)err, (long)ret)"},
		{kernel.Function{Name: "mnt_lookup.isra.0"}, "mnt_lookup.isra.0"},
		{kernel.Function{Name: "nothing", Type: &btf.Func{Name: "nothing", Type: &btf.FuncProto{}}}, "nothing"},
	} {
		if got := specOf(tt.f.String(), arguments(tt.f)); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestHandedOn: kill(-1, 0) may fail with EPERM, which is 1. That -1 is the program's own.
func TestHandedOn(t *testing.T) {
	minusOne := ^uint64(0)
	for _, tt := range []struct {
		f    Failure
		n    uint64
		want bool
	}{
		{Failure{Errno: uint64(unix.EPERM)}, minusOne, true},
		{Failure{Errno: uint64(unix.EPERM), Args: [words]uint64{1<<32 - 1, 0}}, minusOne, false},
		{Failure{Errno: uint64(unix.ENOENT), Args: [words]uint64{1<<32 - 100}}, minusOne - 1, true},
		{Failure{Errno: uint64(unix.ENOENT)}, minusOne, false},
		{Failure{Errno: uint64(unix.ENOENT)}, uint64(unix.ENOENT), false},
		{Failure{Errno: uint64(unix.ENOENT)}, 1<<32 - 2, false}, // an unsigned number, or the low half of something
	} {
		if got := tt.f.handedOn(tt.n); got != tt.want {
			t.Errorf("errno %d, arguments %#x: %#x is %v", tt.f.Errno, tt.f.Args, tt.n, got)
		}
	}
}
