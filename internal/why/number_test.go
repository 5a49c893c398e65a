// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// TestNumbers: system calls read as in the C of include/linux/syscalls.h, with the kernel's types. The
// upper halves of registers with narrower types are arbitrary.
func TestNumbers(t *testing.T) {
	number := func(name string, size uint32, e btf.IntEncoding) btf.Type {
		return &btf.Int{Name: name, Size: size, Encoding: e}
	}
	types := map[string]btf.Type{
		"int": number("int", 4, btf.Signed), "unsigned int": number("unsigned int", 4, 0), "long": number("long", 8, btf.Signed), "unsigned long": number("unsigned long", 8, 0),
		"pid_t": &btf.Typedef{Name: "pid_t", Type: number("int", 4, btf.Signed)}, "uid_t": &btf.Typedef{Name: "uid_t", Type: number("unsigned int", 4, 0)},
		"key_serial_t": &btf.Typedef{Name: "key_serial_t", Type: number("int", 4, btf.Signed)}, "size_t": &btf.Typedef{Name: "size_t", Type: number("unsigned long", 8, 0)},
		"off_t": &btf.Typedef{Name: "off_t", Type: number("long", 8, btf.Signed)}, "timer_t": &btf.Typedef{Name: "timer_t", Type: number("int", 4, btf.Signed)}, "clockid_t": &btf.Typedef{Name: "clockid_t", Type: number("int", 4, btf.Signed)},
		"rwf_t": &btf.Typedef{Name: "rwf_t", Type: number("int", 4, btf.Signed)}, "aio_context_t": &btf.Typedef{Name: "aio_context_t", Type: number("unsigned long", 8, 0)},
	}
	all := ^uint64(0)
	for _, tt := range []struct {
		decl, name string
		value      uint64
		want       string
	}{
		{"pid_t", "pid", 99999, "99999"},
		{"pid_t", "pid", 0xdead0000fffffff6, "-10"},
		{"int", "sig", 15, "15"},
		{"unsigned int", "fd", 1<<32 - 1, "-1"},
		{"unsigned int", "fd", all, "-1"},
		{"unsigned int", "fd", 0x7fff00000003, "3"},
		{"int", "fd", 0xffffffff, "-1"},
		{"uid_t", "user", 0xffffffff, "-1"},
		{"uid_t", "user", 65534, "65534"},
		{"uid_t", "user", 4000000000, "4000000000"},
		{"key_serial_t", "ringid", 0xfffffffd, "-3"},
		{"clockid_t", "which_clock", 7, "7"},
		{"clockid_t", "which_clock", 0xfffffffa, "-6"},
		{"const clockid_t", "which_clock", 0xfffffffa, "-6"},
		{"timer_t", "timer_id", 0xffffffff, "-1"},
		{"const size_t", "size", 5 << 32, "21474836480"},
		{"size_t", "count", 1 << 20, "1048576"},
		{"unsigned long", "len", 8192, "8192"},
		{"unsigned long", "old_len", 8192, "8192"},
		{"unsigned long", "addr", 0x7f0000001000, "0x7f0000001000"},
		{"aio_context_t", "ctx_id", 0x7f0000001000, "0x7f0000001000"},
		{"unsigned long", "arg2", 999, "999"},
		{"off_t", "offset", all - 99, "-100"},
		{"off_t", "offset", 5 << 32, "21474836480"},
		{"long", "request", 0x4206, "0x4206"},
		{"int", "flags", 0x80000, "0x80000"},
		{"int", "flags", 2, "2"},
		{"int", "flags", 0x241, "0x241"},
		{"rwf_t", "flags", 0x80, "0x80"},
		{"unsigned long", "clone_flags", 0x10000000, "0x10000000"},
		{"unsigned int", "cmd", 0x5401, "0x5401"},
		{"unsigned int", "nr_args", 70000, "70000"},
		{"unsigned int", "fd_nr", 3, "3"},
	} {
		for _, f := range []Failure{
			{Params: []kernel.Field{{Name: tt.name, Decl: tt.decl, Size: 8}}, Types: []btf.Type{types[strings.TrimPrefix(tt.decl, "const ")]}},
			{Params: []kernel.Field{{Name: tt.name, Decl: tt.decl, Size: 8}}}, // without BTF
		} {
			f.Args[0] = tt.value
			if got := string(f.appendArg(nil, 0)); got != tt.want {
				t.Errorf("%s %s = %#x: %s, want %s", tt.decl, tt.name, tt.value, got, tt.want)
			}
		}
	}
}
