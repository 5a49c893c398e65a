// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
)

// Types that the tests build others of.
func intType() *btf.Int   { return &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed} }
func uintType() *btf.Int  { return &btf.Int{Name: "unsigned int", Size: 4} }
func ulongType() *btf.Int { return &btf.Int{Name: "long unsigned int", Size: 8} }
func charType() *btf.Int  { return &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed} }
func boolType() *btf.Int  { return &btf.Int{Name: "_Bool", Size: 1, Encoding: btf.Bool} }
func u8Type() *btf.Typedef {
	return &btf.Typedef{Name: "u8", Type: &btf.Int{Name: "unsigned char", Size: 1}}
}
func arrayOf(t btf.Type, n uint32) *btf.Array {
	return &btf.Array{Index: uintType(), Type: t, Nelems: n}
}
func bytesAt(n uint32) btf.Bits { return btf.Bits(n * 8) }

// named makes enumerators of pairs of a name and a number.
func named(pairs ...any) []btf.EnumValue {
	var list []btf.EnumValue
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, btf.EnumValue{Name: pairs[i].(string), Value: uint64(pairs[i+1].(int))})
	}
	return list
}

func innerType() *btf.Struct {
	return &btf.Struct{Name: "inner", Size: 12, Members: []btf.Member{
		{Name: "a", Type: intType()},
		{Name: "name", Type: arrayOf(charType(), 8), Offset: bytesAt(4)},
	}}
}

func colorType() *btf.Enum {
	return &btf.Enum{Name: "color", Size: 4, Values: named("RED", 0, "GREEN", 1, "BLUE", 2)}
}

func modeType() *btf.Enum {
	return &btf.Enum{Name: "mode", Size: 4, Values: named("M_R", 1, "M_W", 2, "M_X", 4, "M_S", 8)}
}

// signedModeType is enum mode { M_R = 1, M_W = 2, M_X = 4, M_TOP = 1 << 31 }: an int.
func signedModeType() *btf.Enum {
	return &btf.Enum{Name: "mode", Size: 4, Signed: true, Values: named("M_R", 1, "M_W", 2, "M_X", 4, "M_TOP", -1<<31)}
}

// outerType has one member of each kind.
func outerType() *btf.Struct {
	inner := innerType()
	return &btf.Struct{Name: "outer", Size: 120, Members: []btf.Member{
		{Name: "color", Type: colorType()},
		{Name: "bits", Type: uintType(), Offset: 32, BitfieldSize: 3},
		{Name: "sbits", Type: intType(), Offset: 35, BitfieldSize: 5},
		{Name: "on", Type: boolType(), Offset: bytesAt(6)},
		{Name: "mode", Type: modeType(), Offset: bytesAt(8)},
		{Name: "in", Type: inner, Offset: bytesAt(12)},
		{Name: "p", Type: &btf.Const{Type: &btf.Pointer{Target: &btf.Const{Type: inner}}}, Offset: bytesAt(24)},
		{Name: "fn", Type: &btf.Pointer{Target: &btf.FuncProto{Return: (*btf.Void)(nil), Params: []btf.FuncParam{
			{Type: &btf.Pointer{Target: inner}},
		}}}, Offset: bytesAt(32)},
		{Name: "mac", Type: arrayOf(u8Type(), 6), Offset: bytesAt(40)},
		{Type: &btf.Union{Size: 8, Members: []btf.Member{
			{Name: "num", Type: ulongType()},
			{Name: "ptr", Type: &btf.Pointer{Target: inner}},
		}}, Offset: bytesAt(48)},
		{Name: "f", Type: &btf.Float{Name: "float", Size: 4}, Offset: bytesAt(56)},
		{Name: "grid", Type: arrayOf(arrayOf(intType(), 2), 2), Offset: bytesAt(60)},
		{Name: "ins", Type: arrayOf(inner, 2), Offset: bytesAt(76)},
		{Name: "wide", Type: &btf.Int{Name: "__int128 unsigned", Size: 16}, Offset: bytesAt(104)},
	}}
}

func outerBytes() []byte {
	raw := make([]byte, 120)
	le := binary.LittleEndian
	le.PutUint32(raw[0:], 2)           // color
	raw[4] = 5 | 0x1e<<3               // bits 5, sbits -2
	raw[6] = 1                         // on
	le.PutUint32(raw[8:], 1|4)         // mode
	le.PutUint32(raw[12:], ^uint32(6)) // in.a = -7
	copy(raw[16:], "et\"h\n")
	le.PutUint64(raw[24:], 0xffff888000001000)
	le.PutUint64(raw[32:], 0xffffffff81000010)
	copy(raw[40:], []byte{1, 2, 0, 255})
	le.PutUint64(raw[48:], 0xffff888000002000)
	le.PutUint32(raw[56:], math.Float32bits(1.5))
	le.PutUint32(raw[64:], 3)     // grid[0][1]
	le.PutUint32(raw[76+12:], 42) // ins[1].a
	le.PutUint64(raw[112:], 1)    // wide
	return raw
}

func mustCompile(tb testing.TB, t btf.Type) *Printer {
	tb.Helper()
	p, err := Compile(t, binary.LittleEndian)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestAppendValueDefault(t *testing.T) {
	const want = `(struct outer){
	.color = (enum color)BLUE,
	.bits = (unsigned int)0x5,
	.sbits = (int)-2,
	.on = (_Bool)1,
	.mode = (enum mode)M_R|M_X,
	.in = (struct inner){
		.a = (int)-7,
		.name = (char[8])"et\"h\n",
	},
	.p = (struct inner *)0xffff888000001000,
	.fn = (void (*)(struct inner *))0xffffffff81000010,
	.mac = (u8[6])[
		1,
		2,
		0,
		255,
		0,
		0,
	],
	(union){
		.num = (long unsigned int)18446612682070040576,
		.ptr = (struct inner *)0xffff888000002000,
	},
	.f = (float)1.5,
	.grid = (int[2][2])[
		[
			0,
			3,
		],
		[
			0,
			0,
		],
	],
	.ins = (struct inner[2])[
		{
			.a = 0,
			.name = "",
		},
		{
			.a = 42,
			.name = "",
		},
	],
	.wide = (__int128 unsigned)0x10000000000000000,
}`
	got := string(mustCompile(t, outerType()).AppendValue([]byte("x"), outerBytes(), nil))
	if diff := cmp.Diff("x"+want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAppendValueOptions(t *testing.T) {
	name := func(dst []byte, addr uint64) []byte {
		if addr < 0xffffffff80000000 {
			return dst
		}
		return fmt.Appendf(dst, "do_it+0x%x", addr-0xffffffff81000000)
	}
	memory := func(addr uint64, size int) []byte {
		if addr != 0xffff888000001000 {
			return nil
		}
		raw := make([]byte, size)
		raw[0] = 9
		return raw[:4]
	}
	const compact = `(struct inner){.a = (int)-7,.name = (char[8])"et\"h\n",}`
	inner, innerBytes := innerType(), outerBytes()[12:24]
	pointers := &btf.Struct{Name: "pp", Size: 16, Members: outerType().Members[6:8]}
	pointers.Members[0].Offset, pointers.Members[1].Offset = 0, 64
	for _, tt := range []struct {
		name string
		typ  btf.Type
		raw  []byte
		o    ValueOptions
		want string
	}{
		{"compact", inner, innerBytes, ValueOptions{Mode: Compact}, compact},
		{"no types", inner, innerBytes, ValueOptions{Mode: Compact, Hide: HideTypes}, `{.a = -7,.name = "et\"h\n",}`},
		{"no names", inner, innerBytes, ValueOptions{Mode: Compact, Hide: HideTypes | HideNames}, `{-7,"et\"h\n",}`},
		{"names only", inner, innerBytes, ValueOptions{Mode: Compact, Hide: HideTypes | HideValues}, `{.a = ,.name = ,}`},
		{"plain", inner, innerBytes, ValueOptions{Mode: Compact, Plain: true},
			`(struct inner){.a = (int)-7,.name = (char[8])['e','t','"','h',10,],}`},
		{"plain, zeroes", inner, innerBytes, ValueOptions{Mode: Compact, Plain: true, ShowZeroes: true},
			`(struct inner){.a = (int)-7,.name = (char[8])['e','t','"','h',10,'\0',],}`},
		{"zeroes", inner, make([]byte, 12), ValueOptions{Mode: Compact, ShowZeroes: true}, `(struct inner){.a = (int)0,.name = (char[8])"",}`},
		{"all zero", inner, make([]byte, 12), ValueOptions{}, "(struct inner){\n}"},
		{"zero scalar", intType(), make([]byte, 4), ValueOptions{}, "(int)0"},
		{"indent", inner, innerBytes, ValueOptions{Indent: "  ", Level: 2}, "(struct inner){\n      .a = (int)-7,\n      .name = (char[8])\"et\\\"h\\n\",\n    }"},
		{"verbose", inner, innerBytes, ValueOptions{Mode: Verbose}, "(struct inner){\n\t.a = (int)-7, /* 0 4 */\n\t.name = (char[8])\"et\\\"h\\n\", /* 4 8 */\n}"},
		{"width, compact", inner, innerBytes, ValueOptions{Mode: Compact, MaxWidth: 25}, compact[:22] + "..."},
		{"width enough", inner, innerBytes, ValueOptions{Mode: Compact, MaxWidth: len(compact)}, compact},
		{"width, lines", inner, innerBytes, ValueOptions{MaxWidth: 15}, "(struct inner){\n\t.a = (int)-7,\n\t.name = (ch...,\n}"},
		{"depth", outerType(), outerBytes(), ValueOptions{Mode: Compact, MaxDepth: 1, Hide: HideTypes},
			`{.color = BLUE,.bits = 0x5,.sbits = -2,.on = 1,.mode = M_R|M_X,.in = {...},.p = 0xffff888000001000,.fn = 0xffffffff81000010,` +
				`.mac = [...],{...},.f = 1.5,.grid = [...],.ins = [...],.wide = 0x10000000000000000,}`},
		{"elements", arrayOf(intType(), 5), outerBytes(), ValueOptions{Mode: Compact, MaxElements: 2}, `(int[5])[2,65781,...]`},
		{"characters", inner, innerBytes, ValueOptions{Mode: Compact, Hide: HideTypes, MaxElements: 3}, `{.a = -7,.name = "et\""...,}`},
		{"text behind a NUL", sockaddrType(), addressBytes(), ValueOptions{Mode: Compact, Hide: HideTypes}, `{.sa_family = 2,.sa_data = "\x00P\x7f\x00\x00\x01",}`},
		{"text behind a NUL, plain", sockaddrType(), addressBytes(), ValueOptions{Mode: Compact, Hide: HideTypes, Plain: true}, `{.sa_family = 2,}`},
		{"likely", outerType().Members[9].Type, outerBytes()[48:], ValueOptions{Mode: Compact, Likely: true}, `(union){.ptr = (struct inner *)0xffff888000002000,}`},
		{"likely number", outerType().Members[9].Type, []byte{84, 0, 0, 0, 0, 0, 0, 0}, ValueOptions{Mode: Compact, Likely: true}, `(union){.num = (long unsigned int)84,}`},
		{"pointer names", pointers, outerBytes()[24:], ValueOptions{Hide: HideTypes, Mode: Compact, PointerName: name},
			`{.p = 0xffff888000001000,.fn = 0xffffffff81000010 <do_it+0x10>,}`},
		{"memory", pointers, outerBytes()[24:], ValueOptions{Memory: memory},
			"(struct pp){\n\t.p = (struct inner *)0xffff888000001000 -> (struct inner){\n\t\t.a = (int)9,\n\t\t...\n\t},\n\t.fn = (void (*)(struct inner *))0xffffffff81000010,\n}"},
		{"error", errorPointers(), errorBytes(), ValueOptions{Mode: Compact, Hide: HideTypes, PointerName: name, Memory: memory},
			`{.p = -ENOENT,.list = [-EPERM,NULL,0xfffffffffffff000 <do_it+0x7efff000>,],.fn = -ENOTSUPP,}`},
		{"error, plain", errorPointers(), errorBytes(), ValueOptions{Mode: Compact, Hide: HideTypes, Plain: true},
			`{.p = 0xfffffffffffffffe,.list = [0xffffffffffffffff,(nil),0xfffffffffffff000,],.fn = 0xfffffffffffffdf4,}`},
		{"null", &btf.Pointer{Target: inner}, make([]byte, 8), ValueOptions{}, "(struct inner *)NULL"},
		{"null, plain", &btf.Pointer{Target: inner}, make([]byte, 8), ValueOptions{Plain: true}, "(struct inner *)(nil)"},
		{"bits, plain", outerType(), outerBytes(), ValueOptions{Plain: true, Mode: Compact, MaxWidth: 89},
			"(struct outer){.color = (enum color)BLUE,.bits = (unsigned int)0x5,.sbits = (int)0x1e,..."},
		{"flags, plain", modeType(), []byte{5, 0, 0, 0}, ValueOptions{Plain: true}, "(enum mode)5"},
		{"flags, one unknown", modeType(), []byte{0x15, 0, 0, 0}, ValueOptions{}, "(enum mode)21"},
		{"flags, the highest a negative int", signedModeType(), []byte{1, 0, 0, 0x80}, ValueOptions{}, "(enum mode)M_R|M_TOP"},
		{"flags, the highest alone", signedModeType(), []byte{0, 0, 0, 0x80}, ValueOptions{}, "(enum mode)M_TOP"},
		{"flags, one of them unknown below a negative one", signedModeType(), []byte{0x11, 0, 0, 0x80}, ValueOptions{}, "(enum mode)-2147483631"},
		{"no flags", colorType(), []byte{3, 0, 0, 0}, ValueOptions{}, "(enum color)3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := mustCompile(t, tt.typ)
			got := string(p.AppendValue(nil, tt.raw[:p.Size()], &tt.o))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// sockaddrType is struct sockaddr of Linux before 6.2, addressBytes one of AF_INET
// with port 80 and 127.0.0.1, both in network order as ip(7) has them.
func sockaddrType() *btf.Struct {
	return &btf.Struct{Name: "sockaddr", Size: 16, Members: []btf.Member{
		{Name: "sa_family", Type: &btf.Typedef{Name: "sa_family_t", Type: &btf.Int{Name: "short unsigned int", Size: 2}}},
		{Name: "sa_data", Type: arrayOf(charType(), 14), Offset: bytesAt(2)},
	}}
}

func addressBytes() []byte {
	raw := make([]byte, 16)
	copy(raw, "\x02\x00\x00\x50\x7f\x00\x00\x01")
	return raw
}

// errorPointers has pointers to an object, to anything and to a function.
// include/linux/err.h has MAX_ERRNO 4095: all above -4096 is an error.
func errorPointers() *btf.Struct {
	void := &btf.Pointer{Target: (*btf.Void)(nil)}
	return &btf.Struct{Name: "s", Size: 40, Members: []btf.Member{
		{Name: "p", Type: &btf.Const{Type: &btf.Pointer{Target: innerType()}}},
		{Name: "list", Type: arrayOf(void, 3), Offset: bytesAt(8)},
		{Name: "fn", Type: outerType().Members[7].Type, Offset: bytesAt(32)},
	}}
}

func errorBytes() []byte {
	var raw []byte
	for _, v := range []int64{-2, -1, 0, -4096, -524} {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return raw
}

// TestText: the text of a char array gives back all its bytes but the NULs at
// its end. With too few bytes it is marked, unless it has ended before.
func TestText(t *testing.T) {
	p := mustCompile(t, arrayOf(charType(), 6))
	for raw, want := range map[string]string{
		"abcdef":                   `"abcdef"`,
		"abc\x00\x00\x00":          `"abc"`,
		"abc\x00\x00f":             `"abc\x00\x00f"`,
		"\x00\x00\x00\x00\x00\x00": `""`,
		"\x00\x00\x00\x00\x00\xff": `"\x00\x00\x00\x00\x00\xff"`,
		"\x00\n\"\\\x00\x00":       `"\x00\n\"\\"`,
		"abc":                      `"abc"...`,
		"abc\x00":                  `"abc"`,
		"abc\x00\x00":              `"abc"`,
		"a\x00c":                   `"a\x00c"...`,
		"a\x00c\x00":               `"a\x00c"...`,
	} {
		if got := string(p.AppendValue(nil, []byte(raw), &ValueOptions{Hide: HideTypes})); got != want {
			t.Errorf("%q: got %s, want %s", raw, got, want)
		}
	}
}

// TestFollowedText: what a `char *` points to ends at its NUL; without one
// there is more.
func TestFollowedText(t *testing.T) {
	p := mustCompile(t, &btf.Pointer{Target: charType()})
	for raw, want := range map[string]string{
		"abc\x00def":                            `"abc"`,
		"\x00def":                               `""`,
		"abc":                                   `"abc"...`,
		strings.Repeat("x", maxText):            `"` + strings.Repeat("x", maxText) + `"...`,
		strings.Repeat("x", maxText-1) + "\x00": `"` + strings.Repeat("x", maxText-1) + `"`,
	} {
		o := ValueOptions{Hide: HideTypes, Memory: func(uint64, int) []byte { return []byte(raw) }}
		address := []byte{1, 0, 0, 0, 0, 0, 0, 0xff}
		if got := string(p.AppendValue(nil, address, &o)); got != "0xff00000000000001 -> "+want {
			t.Errorf("%q: got %s", raw, got)
		}
		want = strings.Replace(want, `"...`, `..."`, 1)
		if got := string(p.AppendJSON(nil, address, &o)); got != `{"addr":"0xff00000000000001","value":`+want+`}` {
			t.Errorf("%q: JSON %s", raw, got)
		}
	}
}

// TestBytesAsText: an array declared as numbers is text if its bytes are
// printable up to a NUL and nothing is behind it.
func TestBytesAsText(t *testing.T) {
	unsigned := &btf.Int{Name: "unsigned char", Size: 1}
	signed := &btf.Int{Name: "signed char", Size: 1, Encoding: btf.Signed}
	for _, tt := range []struct {
		elem btf.Type
		raw  string
		want string
	}{
		{unsigned, "eth0\x00\x00", `"eth0"`},
		{u8Type(), "a\"b c\x00", `"a\"b c"`},
		{unsigned, "\u00e9t\u00e9\x00", `"été"`},
		{unsigned, "eth0\x00x", `[101,116,104,48,0,120,]`},
		{unsigned, "eth0ab", `[101,116,104,48,97,98,]`}, // no NUL
		{unsigned, "eth0\x00", `[101,116,104,48,0,...`}, // not known whether there is more
		{unsigned, "e\x07h0\x00\x00", `[101,7,104,48,0,0,]`},
		{unsigned, "e\nh0\x00\x00", `[101,10,104,48,0,0,]`},
		{unsigned, "e\xffh0\x00\x00", `[101,255,104,48,0,0,]`},
		{unsigned, "\x00\x00\x00\x00\x00\x00", `[0,0,0,0,0,0,]`},
		{signed, "eth0\x00\x00", `[101,116,104,48,0,0,]`},
		{boolType(), "eth0\x00\x00", `[101,116,104,48,0,0,]`},
	} {
		p := mustCompile(t, arrayOf(tt.elem, 6))
		o := ValueOptions{Mode: Compact, Hide: HideTypes}
		if got := string(p.AppendValue(nil, []byte(tt.raw), &o)); got != tt.want {
			t.Errorf("%v %q: got %s, want %s", tt.elem, tt.raw, got, tt.want)
		}
		// What kind of JSON a member is does not depend on its bytes.
		if got := string(p.AppendJSON(nil, []byte(tt.raw), nil)); got[0] != '[' {
			t.Errorf("%v %q: JSON %s", tt.elem, tt.raw, got)
		}
		o.Plain = true
		if got := string(p.AppendValue(nil, []byte(tt.raw), &o)); got[0] != '[' {
			t.Errorf("%v %q: plain %s", tt.elem, tt.raw, got)
		}
	}
	p := mustCompile(t, &btf.Struct{Name: "s", Size: 6, Members: []btf.Member{{Name: "name", Type: arrayOf(unsigned, 6)}}})
	for _, tt := range []struct{ before, after, want string }{
		{"eth0\x00\x00", "lo\x00\x00\x00\x00", ".name: \"eth0\" → \"lo\"\n"},
		{"\x00\x00\x00\x00\x00\x00", "lo\x00\x00\x00\x00", ".name: \"\" → \"lo\"\n"},
		{"lo\x00\x00\x00\x00", "lo\x00\x00\x00\x01", ".name[5]: 0 → 1\n"},
		{"\x00\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x01", ".name[5]: 0 → 1\n"},
	} {
		if got := string(p.AppendDiff(nil, []byte(tt.before), []byte(tt.after), nil)); got != tt.want {
			t.Errorf("%q, %q: got %s", tt.before, tt.after, got)
		}
	}
}

func TestEnums(t *testing.T) {
	e := func(size uint32, signed bool, values ...btf.EnumValue) *btf.Enum {
		return &btf.Enum{Name: "e", Size: size, Signed: signed, Values: values}
	}
	for _, tt := range []struct {
		typ  *btf.Enum
		raw  string
		want string
	}{
		{e(1, true, btf.EnumValue{Name: "NEG", Value: math.MaxUint64}), "\xff", "(enum e)NEG"},
		{e(1, false, btf.EnumValue{Name: "MAX", Value: 255}), "\xff", "(enum e)MAX"},
		{e(2, true), "\xfe\xff", "(enum e)-2"},
		{e(4, false), "\xfe\xff\xff\xff", "(enum e)4294967294"},
		{e(8, true), "\xfe\xff\xff\xff\xff\xff\xff\xff", "(enum e)-2LL"},
		{e(8, false), "\xfe\xff\xff\xff\xff\xff\xff\xff", "(enum e)18446744073709551614ULL"},
		{e(4, false, btf.EnumValue{Name: "FIRST", Value: 1}, btf.EnumValue{Name: "SECOND", Value: 1}), "\x01\x00\x00\x00", "(enum e)FIRST"},
	} {
		if got := string(mustCompile(t, tt.typ).AppendValue(nil, []byte(tt.raw), nil)); got != tt.want {
			t.Errorf("%x: got %s, want %s", tt.raw, got, tt.want)
		}
	}
}

func TestIsFlags(t *testing.T) {
	for _, tt := range []struct {
		values []uint64
		want   bool
	}{
		{[]uint64{1, 2, 4, 8}, true},
		{[]uint64{0, 1, 2, 4}, true},
		{[]uint64{1, 2, 4, 8, 3, 12}, true},
		{[]uint64{1 << 20, 1 << 31, 1 << 40}, true},
		{[]uint64{0, 1, 2}, false},          // may as well be a count
		{[]uint64{0, 1, 2, 3, 4}, false},    // a count
		{[]uint64{1, 2, 3, 4}, false},       // a count from 1
		{[]uint64{1, 2, 4, 24}, false},      // bits that have no name
		{[]uint64{10, 20, 30, 40}, false},   // no bits
		{[]uint64{1, 2, 4, 5, 6, 7}, false}, // as many combinations as bits
		{nil, false},
	} {
		e := &btf.Enum{Size: 8}
		for _, v := range tt.values {
			e.Values = append(e.Values, btf.EnumValue{Name: "X", Value: v})
		}
		if got := isFlags(e); got != tt.want {
			t.Errorf("isFlags(%v) = %v", tt.values, got)
		}
	}
}

// TestBitfields reads bitfields of every width at every bit, in both byte
// orders, and compares with the bits one by one.
func TestBitfields(t *testing.T) {
	raw := testBytes(7, 18, false)
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for width := 1; width <= 64; width++ {
			for start := 0; start < 72; start++ {
				typ := &btf.Struct{Name: "s", Size: 18, Members: []btf.Member{
					{Name: "b", Type: ulongType(), Offset: btf.Bits(start), BitfieldSize: btf.Bits(width)},
				}}
				p, err := Compile(typ, order)
				if err != nil {
					t.Fatal(err)
				}
				var want uint64
				for i := range width {
					at := start + i
					if order == binary.LittleEndian {
						want |= uint64(raw[at/8]>>(at%8)&1) << i
					} else {
						want = want<<1 | uint64(raw[at/8]>>(7-at%8)&1)
					}
				}
				got := string(p.AppendValue(nil, raw, &ValueOptions{Mode: Compact, Hide: HideTypes, ShowZeroes: true}))
				if w := fmt.Sprintf("{.b = 0x%x,}", want); got != w {
					t.Fatalf("%v: %d bits at %d: got %s, want %s", order, width, start, got, w)
				}
			}
		}
	}
}

func TestBigEndian(t *testing.T) {
	typ := &btf.Struct{Name: "s", Size: 32, Members: []btf.Member{
		{Name: "i", Type: intType()},
		{Name: "e", Type: colorType(), Offset: bytesAt(4)},
		{Name: "p", Type: &btf.Pointer{Target: (*btf.Void)(nil)}, Offset: bytesAt(8)},
		{Name: "w", Type: &btf.Int{Name: "__int128", Size: 16}, Offset: bytesAt(16)},
	}}
	p, err := Compile(typ, binary.BigEndian)
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, 32)
	copy(raw, "\xff\xff\xff\xfe\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00\x00\x05\x01")
	const want = `(struct s){.i = (int)-2,.e = (enum color)GREEN,.p = (void *)0xffff000000000005,.w = (__int128)0x1000000000000000000000000000000,}`
	if got := string(p.AppendValue(nil, raw, &ValueOptions{Mode: Compact})); got != want {
		t.Errorf("got %s", got)
	}
}

func TestFloats(t *testing.T) {
	double := mustCompile(t, &btf.Float{Name: "double", Size: 8})
	for _, tt := range []struct {
		v                 float64
		text, plain, json string // plain as printf of C has it
	}{
		{1.0 / 3, "(double)0.3333333333333333", "(double)0.333333", "0.3333333333333333"},
		{1e-10, "(double)1e-10", "(double)0.000000", "1e-10"},
		{-2e10, "(double)-2e+10", "(double)-20000000000.000000", "-2e+10"},
		{math.Inf(-1), "(double)-inf", "(double)-inf", `"-inf"`},
		{math.Inf(1), "(double)inf", "(double)inf", `"inf"`},
		{math.NaN(), "(double)nan", "(double)nan", `"nan"`},
		{math.Copysign(0, -1), "(double)-0", "(double)-0.000000", "-0"},
	} {
		raw := binary.LittleEndian.AppendUint64(nil, math.Float64bits(tt.v))
		if got := string(double.AppendValue(nil, raw, nil)); got != tt.text {
			t.Errorf("%g: got %s, want %s", tt.v, got, tt.text)
		}
		if got := string(double.AppendValue(nil, raw, &ValueOptions{Plain: true})); got != tt.plain {
			t.Errorf("%g, plain: got %s, want %s", tt.v, got, tt.plain)
		}
		if got := string(double.AppendJSON(nil, raw, nil)); got != tt.json {
			t.Errorf("%g: got %s, want %s", tt.v, got, tt.json)
		}
	}
	float := mustCompile(t, &btf.Float{Name: "float", Size: 4})
	if got := string(float.AppendValue(nil, binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.1)), nil)); got != "(float)0.1" {
		t.Errorf("float: %s", got)
	}
	vector := mustCompile(t, &btf.Float{Name: "vector", Size: 16}) // of no format that is known
	if got := string(vector.AppendValue(nil, append(make([]byte, 9), 0x3f, 0, 0, 0, 0, 0, 0), nil)); got != "(vector)0x3f000000000000000000" {
		t.Errorf("vector: %s", got)
	}
}

func TestLongDoubles(t *testing.T) {
	long, quad := &btf.Float{Name: "long double", Size: 16}, &btf.Float{Name: "_Float128", Size: 16}
	x87 := func(top uint16, m uint64) []byte { // with garbage as padding
		return append(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint64(nil, m), top), 0x9e, 0x24, 0, 0, 0, 1)
	}
	binary128 := func(high uint64) []byte {
		return binary.LittleEndian.AppendUint64(make([]byte, 8), high)
	}
	for _, c := range []struct {
		t          *btf.Float
		raw        []byte
		text, json string
	}{
		{long, x87(0x4000, 0xa000000000000000), "(long double)2.5", "2.5"},
		{long, x87(0x3ffe, 0xffffffffffffffff), "(long double)0.99999999999999999995", "0.99999999999999999995"},
		{long, x87(0x7ffe, 0x8000000000000000), "(long double)5.9486574767861588254e+4931", `"5.9486574767861588254e+4931"`},
		{long, x87(1, 0x8000000000000000), "(long double)3.3621031431120935063e-4932", `"3.3621031431120935063e-4932"`},
		{long, x87(0x8000, 0), "(long double)-0", "-0"},
		{long, x87(0xffff, 0x8000000000000000), "(long double)-inf", `"-inf"`},
		{long, x87(0x7fff, 0xc000000000000000), "(long double)nan", `"nan"`},
		{quad, binary128(0xc000400000000000), "(_Float128)-2.5", "-2.5"},
	} {
		p := mustCompile(t, c.t)
		if got := string(p.AppendValue(nil, c.raw, nil)); got != c.text {
			t.Errorf("%x: got %s, want %s", c.raw, got, c.text)
		}
		if got := string(p.AppendJSON(nil, c.raw, nil)); got != c.json {
			t.Errorf("%x: got %s, want %s", c.raw, got, c.json)
		}
	}
	// A member is zero whatever its padding has.
	s := mustCompile(t, &btf.Struct{Name: "s", Size: 32, Members: []btf.Member{{Name: "zero", Type: long}, {Name: "one", Type: long, Offset: 128}}})
	raw := append(x87(0, 0), x87(0x3fff, 0x8000000000000000)...)
	if got := string(s.AppendValue(nil, raw, &ValueOptions{Mode: Compact})); got != "(struct s){.one = (long double)1,}" {
		t.Errorf("struct: %s", got)
	}
	padded := bytes.Clone(raw)
	padded[15]++
	changed := bytes.Clone(padded)
	changed[31]++ // padding of the second one
	copy(changed[16:], x87(0x4000, 0x8000000000000000))
	for want, after := range map[string][]byte{"": raw, "/* only bytes of no member differ */\n": padded, ".one: 1 → 2\n": changed} {
		if got := string(s.AppendDiff(nil, raw, after, nil)); got != want {
			t.Errorf("%x and %x: %s, want %s", raw, after, got, want)
		}
	}
	// A number by itself has no members.
	if got := string(mustCompile(t, long).AppendDiff(nil, raw[:16], padded[:16], nil)); got != "" {
		t.Errorf("a number with other padding: %s", got)
	}
}

func flexibleType(elem btf.Type) *btf.Struct {
	return &btf.Struct{Name: "flex", Size: 8, Members: []btf.Member{
		{Name: "n", Type: intType()},
		{Name: "none", Type: arrayOf(intType(), 0), Offset: bytesAt(4)},
		{Name: "c", Type: charType(), Offset: bytesAt(4)},
		{Name: "data", Type: arrayOf(elem, 0), Offset: bytesAt(5)},
	}}
}

func TestFlexibleArrays(t *testing.T) {
	raw := []byte("\x01\x00\x00\x00Abc\x00\x05\x06")
	for _, tt := range []struct {
		elem btf.Type
		n    int
		want string
	}{
		{charType(), 8, `{.n = 1,.c = 65,}`}, // padding is no element
		{charType(), 10, `{.n = 1,.c = 65,.data = "bc\x00\x05\x06",}`},
		{u8Type(), 10, `{.n = 1,.c = 65,.data = [98,99,0,5,6,],}`},
		{&btf.Int{Name: "short", Size: 2}, 10, `{.n = 1,.c = 65,.data = [25442,1280,...`},
		{innerType(), 10, `{.n = 1,.c = 65,.data = [{.a = 83911522,.name = "\x06"...`},
	} {
		p := mustCompile(t, flexibleType(tt.elem))
		if got := string(p.AppendValue(nil, raw[:tt.n], &ValueOptions{Mode: Compact, Hide: HideTypes})); got != tt.want {
			t.Errorf("%v, %d bytes: got %s, want %s", tt.elem, tt.n, got, tt.want)
		}
	}
}

// TestTruncated cuts a value after every byte: the text then is the beginning
// of the whole text, and `...`.
func TestTruncated(t *testing.T) {
	p := mustCompile(t, outerType())
	raw := outerBytes()
	for _, o := range []ValueOptions{{}, {Mode: Compact}, {ShowZeroes: true}, {Plain: true}, {Hide: HideNames | HideTypes}} {
		whole := string(p.AppendValue(nil, raw, &o))
		for n := range raw {
			got, found := strings.CutSuffix(string(p.AppendValue(nil, raw[:n], &o)), "...")
			if !found {
				t.Fatalf("%d bytes, %+v: no mark: %s", n, o, got)
			}
			got = strings.TrimSuffix(strings.TrimRight(got, "\t"), `"`)
			if !strings.HasPrefix(whole, got) {
				t.Fatalf("%d bytes, %+v: not the beginning of the whole: %s", n, o, firstDifference(got, whole))
			}
		}
	}
}

func TestCompileErrors(t *testing.T) {
	void := (*btf.Void)(nil)
	self := &btf.Struct{Name: "self", Size: 4}
	self.Members = []btf.Member{{Name: "m", Type: self}}
	loop := &btf.Typedef{Name: "loop"}
	loop.Type = loop
	ring := &btf.Array{Index: intType(), Nelems: 1}
	ring.Type = ring
	one := func(m btf.Member) *btf.Struct {
		return &btf.Struct{Name: "s", Size: 4, Members: []btf.Member{m}}
	}
	double := btf.Type(intType())
	for range 40 {
		double = &btf.Struct{Name: "two", Size: 4, Members: []btf.Member{{Name: "a", Type: double}, {Name: "b", Type: double}}}
	}
	anonymous := btf.Type(intType())
	for range 40 {
		anonymous = &btf.Struct{Size: 4, Members: []btf.Member{{Type: anonymous}, {Type: anonymous}}}
	}
	for _, tt := range []struct {
		typ  btf.Type
		want string
	}{
		{void, "compile void: a type without values"},
		{&btf.Fwd{Name: "f"}, "compile struct f: a type without values"},
		{&btf.FuncProto{Return: void}, "compile void(void): a type without values"},
		{self, "nested too deeply"},
		{loop, "compile loop: nested too deeply"},
		{ring, "nested too deeply"},
		{arrayOf(arrayOf(intType(), 1<<31), 1<<31), "too large"},
		{arrayOf(intType(), 1<<30), "too large"},
		{double, "too large"},
		{anonymous, "too large"},
		{one(btf.Member{Name: "m", Type: ulongType()}), `compile struct s: member 0 "m": outside of its type`},
		{one(btf.Member{Name: "m", Type: intType(), Offset: 1 << 31}), "outside of its type"},
		{one(btf.Member{Name: "m", Type: intType(), Offset: 3}), "not at a byte"},
		{one(btf.Member{Name: "m", Type: innerType(), BitfieldSize: 3}), "bitfield of 3 bits in a type that has none"},
		{one(btf.Member{Name: "m", Type: intType(), BitfieldSize: 100}), "bitfield of 100 bits"},
		{&btf.Int{Name: "i", Size: 9}, "integer of 9 bytes"},
		{&btf.Int{Name: "i", Size: 0}, "integer of 0 bytes"},
		{&btf.Float{Name: "f", Size: 7}, "float of 7 bytes"},
		{&btf.Enum{Name: "e", Size: 3}, "enum of 3 bytes"},
	} {
		p, err := Compile(tt.typ, binary.LittleEndian)
		if err == nil {
			t.Errorf("%v: no error, %d bytes", tt.typ, p.Size())
			continue
		}
		if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %q, want %q", clip(err.Error(), 200), tt.want)
		}
	}
}

// TestHostileNames gives names that a terminal would act on, or show in another
// order. Those of JSON are read back as they were.
func TestHostileNames(t *testing.T) {
	const hostile = "\x1b[2J\x07\n\u009b\u202e\u2066\U000e0001\xff\x7f"
	const shown = `\x1b[2J\x07\n\xc2\x9b\xe2\x80\xae\xe2\x81\xa6\xf3\xa0\x80\x81\xff\x7f`
	typ := &btf.Struct{Name: "s" + hostile, Size: 8, Members: []btf.Member{{Name: "m" + hostile, Type: charType()}, {Name: "\"\\", Type: charType(), Offset: 8},
		{Name: "e", Type: &btf.Enum{Name: "enum" + hostile, Size: 4, Values: []btf.EnumValue{{Name: "E" + hostile, Value: 7}}}, Offset: 32}}}
	p := mustCompile(t, typ)
	raw := []byte{1, 2, 0, 0, 7, 0, 0, 0}
	for _, test := range []struct {
		text string
		want []string
	}{
		{string(p.AppendValue(nil, raw, &ValueOptions{Mode: Compact})), []string{"(struct s" + shown + "){", ".m" + shown + " = ", "E" + shown}},
		{string(AppendTypeName(nil, typ)), []string{"struct s" + shown}},
		{strings.ReplaceAll(string(AppendType(nil, typ, TypeOptions{})), "\n", ""), []string{"struct s" + shown + " {", " m" + shown + ";"}},
		{string(AppendFunc(nil, "f"+hostile, &btf.FuncProto{Return: typ, Params: []btf.FuncParam{{Name: "p" + hostile, Type: intType()}}})),
			[]string{"struct s" + shown + " f" + shown + "(int p" + shown + ");"}},
	} {
		for _, want := range test.want {
			if !strings.Contains(test.text, want) {
				t.Errorf("%q lacks %s", test.text, want)
			}
		}
		if strings.ContainsFunc(test.text, func(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }) {
			t.Errorf("%q", test.text)
		}
	}
	text := p.AppendJSON(nil, raw, nil)
	if bytes.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%q", text)
	}
	var back map[string]any
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	// JSON has no bytes: the one that is no UTF-8 stays escaped.
	name := strings.ReplaceAll(hostile, "\xff", `\xff`)
	if back["m"+name] != 1.0 || back[`"\\`] != 2.0 || back["e"] != "E"+strings.ReplaceAll(shown, `\`, `\\`) {
		t.Errorf("read back as %q", back)
	}
}

func TestMaxBytes(t *testing.T) {
	p := mustCompile(t, arrayOf(intType(), 1000))
	raw := testBytes(3, 4000, false)
	for _, o := range []ValueOptions{{MaxBytes: 100}, {MaxBytes: 100, Mode: Compact}, {MaxBytes: 1}} {
		got := string(p.AppendValue([]byte("before"), raw, &o))
		if len(got) > len("before")+max(o.MaxBytes, 3) || !strings.HasSuffix(got, "...") || !strings.HasPrefix(got, "before") {
			t.Errorf("%+v: %d bytes: %q", o, len(got), got)
		}
	}
}

// TestConcurrent uses one Printer from several goroutines; the race detector
// looks on while pointers are followed, which compiles their types.
func TestConcurrent(t *testing.T) {
	p := mustCompile(t, outerType())
	raw := outerBytes()
	o := ValueOptions{Memory: func(_ uint64, size int) []byte { return raw[:min(size, len(raw))] }, FollowDepth: 3}
	want := string(p.AppendValue(nil, raw, &o))
	var wg sync.WaitGroup
	fresh := mustCompile(t, outerType())
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if got := string(fresh.AppendValue(nil, raw, &o)); got != want {
					t.Errorf("got %s", got)
					return
				}
			}
		})
	}
	wg.Wait()
}
