// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// TestTight: the options of a value that shares its line with others.
func TestTight(t *testing.T) {
	pointer := &btf.Pointer{Target: &btf.Void{}}
	number := func(size uint32, encoding btf.IntEncoding) *btf.Int {
		return &btf.Int{Name: "n", Size: size, Encoding: encoding}
	}
	address := &btf.Union{Size: 8, Members: []btf.Member{
		{Name: "kernel", Type: pointer}, {Name: "user", Type: pointer}, {Name: "low", Type: number(2, 0)}, {Name: "all", Type: number(8, 0)},
	}}
	sockptr := &btf.Struct{Name: "sockptr", Size: 16, Members: []btf.Member{
		{Type: address}, {Name: "is_kernel", Type: boolType(), Offset: 64, BitfieldSize: 1}, {Name: "mode", Type: number(4, 0), Offset: 65, BitfieldSize: 5},
	}}
	either := &btf.Struct{Name: "either", Size: 16, Members: []btf.Member{{Type: address}, {Name: "n", Type: number(8, 0), Offset: 64}}}
	twins := &btf.Union{Size: 8, Members: []btf.Member{{Name: "in", Type: pointer}, {Name: "out", Type: pointer}}}
	two := &btf.Struct{Name: "two", Size: 24, Members: []btf.Member{
		{Name: "a", Type: number(8, 0)}, {Name: "b", Type: number(8, btf.Signed), Offset: bytesAt(8)}, {Name: "mac", Type: arrayOf(u8Type(), 2), Offset: bytesAt(16)},
	}}
	words := func(w ...uint64) (raw []byte) {
		for _, x := range w {
			raw = binary.LittleEndian.AppendUint64(raw, x)
		}
		return raw
	}
	minus := func(n uint64) uint64 { return -n }
	for _, c := range []struct {
		name string
		typ  btf.Type
		raw  []byte
		o    ValueOptions
		want string
	}{
		{"as libbpf writes it", two, words(5, 6, 0x102), ValueOptions{}, "{.a = 5,.b = 6,.mac = [2,1,],}"},
		{"tight", two, words(5, 6, 0x102), ValueOptions{Tight: true}, "{.a=5,.b=6,.mac=[2,1]}"},
		{"tight and empty", two, words(0, 0, 0), ValueOptions{Tight: true}, "{}"},
		{"the last that is decimal", two, words(4<<20-1, 4<<20-1, 0), ValueOptions{Tight: true, HexFrom: 4 << 20}, "{.a=4194303,.b=4194303}"},
		{"the first that is not", two, words(4<<20, 4<<20, 0), ValueOptions{Tight: true, HexFrom: 4 << 20}, "{.a=0x400000,.b=0x400000}"},
		{"negative", two, words(minus(38), minus(38), 0), ValueOptions{Tight: true, HexFrom: 4 << 20}, "{.a=0xffffffffffffffda,.b=-38}"},
		{"one address, thrice", sockptr, words(0xabcd_1234_5678, 0), ValueOptions{Tight: true}, "{{.kernel=0xabcd12345678,.user=0xabcd12345678,.low=22136,.all=188897262065272}}"},
		// include/linux/sockptr.h
		{"of user space", sockptr, words(0xabcd_1234_5678, 0), ValueOptions{Tight: true, Once: true}, "{{.user=0xabcd12345678,.low=22136}}"},
		{"of the kernel", sockptr, words(0xabcd_1234_5678, 1), ValueOptions{Tight: true, Once: true}, "{{.kernel=0xabcd12345678,.low=22136},.is_kernel=0x1}"},
		{"it is not said whose", either, words(0xabcd_1234_5678, 1), ValueOptions{Tight: true, Once: true}, "{{.kernel=0xabcd12345678,.user=0xabcd12345678,.low=22136},.n=1}"},
		{"nor captured", sockptr, words(0xabcd_1234_5678), ValueOptions{Tight: true, Once: true}, "{{.kernel=0xabcd12345678,.user=0xabcd12345678,.low=22136},..."},
		{"one address, once", twins, words(0xabcd_1234_5678), ValueOptions{Tight: true, Once: true}, "{.in=0xabcd12345678}"},
		{"bitfields", sockptr, words(0, 1|21<<1), ValueOptions{Tight: true}, "{.is_kernel=0x1,.mode=0x15}"},
		{"bitfields with a bound", sockptr, words(0, 1|21<<1), ValueOptions{Tight: true, HexFrom: 16}, "{.is_kernel=1,.mode=0x15}"},
		{"members of a struct are not told apart", two, words(5, 5, 0), ValueOptions{Tight: true, Once: true}, "{.a=5,.b=5}"},
	} {
		c.o.Mode, c.o.Hide = Compact, HideTypes
		p, err := Compile(c.typ, binary.LittleEndian)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(p.AppendValue(nil, c.raw, &c.o)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
