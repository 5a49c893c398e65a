// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
)

// The types that the conventions tell apart.
var (
	abiLong   = &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	abiChar   = &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	abiInt128 = &btf.Int{Name: "__int128", Size: 16, Encoding: btf.Signed}
	abiDouble = &btf.Float{Name: "double", Size: 8}
	abiPair   = abiStruct("pair", abiLong, abiLong)
	abiBig    = abiStruct("big", abiLong, abiLong, abiLong)
	abiWide   = abiStruct("wide", abiInt128)
	abiVec    = abiStruct("vec", abiDouble, abiDouble)
	abiVec4   = &btf.Struct{Name: "vec4", Size: 32, Members: []btf.Member{{Type: &btf.Array{Type: abiDouble, Nelems: 4}}}}
	abiMix    = abiStruct("mix", abiDouble, abiLong)
	abiXim    = abiStruct("xim", abiLong, abiDouble)
	abiWhole  = &btf.Float{Name: "long double", Size: 16}
	abiQuad   = &btf.Float{Name: "_Float128", Size: 16}
	abiFloat  = &btf.Float{Name: "float", Size: 4}
	abiShared = abiStruct("shared", abiInt, abiFloat)
	abiPadded = &btf.Struct{Name: "padded", Size: 16, Members: []btf.Member{{Type: abiLong}}}
	abiCmplx  = abiStruct("complex double", abiDouble, abiDouble)
	abiCmplxL = abiStruct("complex long double", abiWhole, abiWhole)
	abiEmpty  = abiStruct("empty")
	// Packed.
	abiInt      = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	abiUnsorted = abiStruct("unsorted", abiChar, abiLong)
	abiSorted   = abiStruct("sorted", abiLong, abiChar)
	abiOdd      = abiStruct("odd", abiInt, abiChar)
	abiOdds     = &btf.Struct{Name: "odds", Size: 10, Members: []btf.Member{{Type: &btf.Array{Type: abiOdd, Nelems: 2}}}}
	abiOddPair  = abiStruct("oddpair", abiOdd, abiOdd)
	abiEither   = &btf.Union{Name: "either", Size: 9, Members: []btf.Member{{Type: abiLong}, {Type: abiUnsorted}}}
	abiBits     = &btf.Struct{Name: "bits", Size: 9, Members: []btf.Member{
		{Type: abiLong, BitfieldSize: 60}, {Type: abiLong, Offset: 60, BitfieldSize: 12}}}
	abiFlexible = &btf.Struct{Name: "flexible", Size: 1, Members: []btf.Member{
		{Type: abiChar}, {Type: &btf.Array{Type: abiInt}, Offset: 8}}}
)

func abiStruct(name string, members ...btf.Type) *btf.Struct {
	s := &btf.Struct{Name: name}
	for _, t := range members {
		size, _ := btf.Sizeof(t)
		s.Members = append(s.Members, btf.Member{Type: t, Offset: btf.Bits(8 * s.Size)})
		s.Size += uint32(size)
	}
	return s
}

// Where arguments are is what gcc and clang make of functions of these
// parameters. at is "x" and a number for a register, "s" and a number for bytes
// on the stack, "v" for floating-point registers and what else is out of reach, a ":" between words in different ones, a "*" before it for the address
// of the value; a "!" behind it says that trampolines look for it elsewhere.
func TestParamsOf(t *testing.T) {
	n := func(k int, more ...btf.Type) []btf.Type {
		types := make([]btf.Type, k)
		for i := range types {
			types[i] = abiLong
		}
		return append(types, more...)
	}
	d := func(k int) []btf.Type { return slices.Repeat([]btf.Type{abiDouble}, k) }
	for _, tt := range []struct {
		name   string
		params []btf.Type
		result btf.Type
		amd64  string
		arm64  string
	}{
		{"nine numbers", n(9), nil, "x0 x1 x2 x3 x4 x5 s8 s16 s24", "x0 x1 x2 x3 x4 x5 x6 x7 s0"},
		{"narrow ones take a slot each", n(8, abiChar, abiChar, abiLong), nil,
			"x0 x1 x2 x3 x4 x5 s8 s16 s24 s32 s40", "x0 x1 x2 x3 x4 x5 x6 x7 s0 s8 s16"},
		{"pair", n(1, abiPair, abiLong), nil, "x0 x1 x3", "x0 x1 x3"},
		{"no room for a pair", n(5, abiPair, abiLong), nil, "x0 x1 x2 x3 x4 s8 x5", "x0 x1 x2 x3 x4 x5 x7"},
		{"nor on arm64", n(7, abiPair, abiLong, abiLong), nil,
			"x0 x1 x2 x3 x4 x5 s8 s16 s32 s40", "x0 x1 x2 x3 x4 x5 x6 s0! s16! s24!"},
		{"large", []btf.Type{abiBig, abiLong}, nil, "s8 x0", "*x0! x1!"},
		{"large, on the stack", n(8, abiBig, abiLong), nil,
			"x0 x1 x2 x3 x4 x5 s8 s16 s24 s48", "x0 x1 x2 x3 x4 x5 x6 x7 *s0! s8!"},
		{"int128", n(1, abiInt128, abiLong), nil, "x0 x1 x3", "x0 x2! x4!"},
		{"int128 in its place", n(2, abiInt128, abiLong), nil, "x0 x1 x2 x4", "x0 x1 x2 x4"},
		{"int128 in a struct", n(1, abiWide, abiLong), nil, "x0 x1 x3", "x0 x2! x4!"},
		{"int128 on the stack", n(7, abiInt128, abiLong), nil,
			"x0 x1 x2 x3 x4 x5 s8 s24! s40", "x0 x1 x2 x3 x4 x5 x6 s0! s16!"},
		{"int128 behind a hole", n(9, abiInt128, abiLong), nil,
			"x0 x1 x2 x3 x4 x5 s8 s16 s24 s40! s56", "x0 x1 x2 x3 x4 x5 x6 x7 s0 s16! s32!"},
		{"floats", []btf.Type{abiDouble, abiLong, abiVec, abiLong}, nil, "v! x0 v! x1", "v! x0! v! x1!"},
		{"four floats", n(1, abiVec4, abiLong), nil, "x0 s8 x1", "x0 v! x1!"},
		{"float and number", []btf.Type{abiLong, abiMix, abiLong}, nil, "x0 v:x1! x2", "x0 x1 x3"},
		{"number and float", []btf.Type{abiLong, abiXim, abiLong}, nil, "x0 x1:v! x2", "x0 x1 x3"},
		{"in one word", []btf.Type{abiLong, abiShared, abiLong}, nil, "x0 x1 x2", "x0 x1 x2"},
		{"padding", []btf.Type{abiLong, abiPadded, abiLong}, nil, "x0 x1! x2", "x0 x1 x3"},
		{"no room for the number", n(6, abiMix, abiDouble), nil, "x0 x1 x2 x3 x4 x5 s8! v!", "x0 x1 x2 x3 x4 x5 x6 v!"},
		{"long double", n(6, abiWhole, abiLong), nil, "x0 x1 x2 x3 x4 x5 s8! s24", "x0 x1 x2 x3 x4 x5 v! x6!"},
		{"long double behind a hole", n(7, abiWhole, abiLong), nil, "x0 x1 x2 x3 x4 x5 s8 s24! s40", "x0 x1 x2 x3 x4 x5 x6 v! x7!"},
		{"quad", n(6, abiQuad, abiLong), nil, "x0 x1 x2 x3 x4 x5 v! s8", "x0 x1 x2 x3 x4 x5 v! x6!"},
		{"complex", n(1, abiCmplx, abiLong), nil, "x0 v! x1", "x0 v! x1!"},
		{"nine doubles", append(d(9), n(7)...), nil,
			"v! v! v! v! v! v! v! v! s8! x0 x1 x2 x3 x4 x5 s16", "v! v! v! v! v! v! v! v! s0! x0! x1! x2! x3! x4! x5! x6!"},
		{"eight floats and a mixed struct", append(d(8), abiMix, abiLong), nil,
			"v! v! v! v! v! v! v! v! s8! x0", "v! v! v! v! v! v! v! v! x0! x2!"},
		{"no room for two doubles", append(d(7), abiVec, abiDouble), nil,
			"v! v! v! v! v! v! v! s8! v!", "v! v! v! v! v! v! v! s0! s16!"},
		{"complex long double returned", n(1), abiCmplxL, "x0", "x0"},
		{"not described", n(1, &btf.Fwd{Name: "_Decimal64"}, abiLong), nil, "x0 v! v!", "x0 v! v!"},
		{"not described, returned", n(1), &btf.Fwd{Name: "_Decimal64"}, "v!", "v!"},
		{"variable", n(1, &btf.Void{}), nil, "x0", "x0"},
		{"empty", n(1, abiEmpty, abiLong), nil, "x0 v! x1", "x0 v! x1"},
		{"not aligned", n(1, abiUnsorted, abiLong), nil, "x0 s8! x1", "x0 x1 x3"},
		{"aligned", n(1, abiSorted, abiLong), nil, "x0 x1 x3", "x0 x1 x3"},
		{"in a struct", n(1, abiOddPair, abiLong), nil, "x0 s8! x1", "x0 x1 x3"},
		{"in an array", n(1, abiOdds, abiLong), nil, "x0 x1 x3", "x0 x1 x3"},
		{"in a union", n(1, abiEither, abiLong), nil, "x0 s8! x1", "x0 x1 x3"},
		{"bitfields", n(1, abiBits, abiLong), nil, "x0 x1 x3", "x0 x1 x3"},
		{"flexible array", n(1, abiFlexible, abiLong), nil, "x0 x1 x2", "x0 x1 x2"},
		{"not aligned, returned", n(2), abiUnsorted, "x1! x2!", "x0 x1"},
		{"pair returned", n(2), abiPair, "x0 x1", "x0 x1"},
		{"large returned", n(6), abiBig, "x1! x2! x3! x4! x5! s8!", "x0 x1 x2 x3 x4 x5"},
	} {
		for arch, want := range map[string]string{"amd64": tt.amd64, "arm64": tt.arm64} {
			if want == "" {
				continue
			}
			var params []btf.FuncParam
			for _, p := range tt.params {
				params = append(params, btf.FuncParam{Type: p})
			}
			got, slot := []string{}, 0
			for _, p := range ParamsOf(params, tt.result, arch) {
				got = append(got, spellLoc(&p))
				if p.Loc.Slot != slot {
					t.Errorf("%s, %s: parameter %d begins in slot %d, want %d", tt.name, arch, len(got), p.Loc.Slot, slot)
				}
				slot += Words(p.Type)
			}
			if text := strings.Join(got, " "); text != want {
				t.Errorf("%s, %s:\n got %s\nwant %s", tt.name, arch, text, want)
			}
		}
	}
}

func spellLoc(p *Param) string {
	var b strings.Builder
	if p.Loc.Ref {
		b.WriteByte('*')
		if arg, ok := p.Base.(*expr.Arg); !ok || arg.Width != 8 {
			b.WriteString("nothing leads to it ")
		}
	}
	switch {
	case p.Absent:
		b.WriteByte('v')
	case p.Lost != 0:
		for i := range p.Loc.Slots {
			b.WriteString(map[bool]string{true: ":"}[i > 0])
			if p.Lost&(1<<i) != 0 {
				b.WriteByte('v')
			} else {
				b.WriteString("x" + strconv.Itoa(p.Loc.Register(i)))
			}
		}
	case p.Loc.Reg >= 0:
		b.WriteString("x" + strconv.Itoa(p.Loc.Reg))
	default:
		b.WriteString("s" + strconv.Itoa(p.Loc.Stack))
	}
	if p.Loc.Apart {
		b.WriteByte('!')
	}
	return b.String()
}

// What is not in the integer registers is refused by name, and a large result is
// where the convention has it.
func TestResultPlaces(t *testing.T) {
	for _, tt := range []struct {
		result    btf.Type
		arch, why string
		based     bool
	}{
		{abiPair, "amd64", "", false},
		{abiPair, "arm64", "", false},
		{abiUnsorted, "amd64", "", true},
		{abiUnsorted, "arm64", "", false},
		{abiBits, "amd64", "", false},
		{abiBig, "amd64", "", true},
		{abiBig, "arm64", "is in memory whose address is no longer known when the function returns", false},
		{abiVec, "arm64", floatRegister, false},
		{abiVec4, "arm64", floatRegister, false},
		{abiVec4, "amd64", "", true},
		{abiWhole, "amd64", floatRegister, false},
		{abiCmplxL, "amd64", floatRegister, false},
		{abiCmplxL, "arm64", floatRegister, false},
		{abiStruct("two", abiWhole, abiWhole), "amd64", "", true},
		{abiMix, "amd64", "", false},
		{&btf.Fwd{Name: "_Decimal64"}, "amd64", unknownType, false},
		{nil, "arm64", "", false},
	} {
		var scope expr.Scope
		DeclareResult(&scope, tt.result, tt.arch)
		if scope.ReturnWhy != tt.why || (scope.ReturnBase != nil) != tt.based {
			t.Errorf("%v on %s: why %q, at an address: %v", tt.result, tt.arch, scope.ReturnWhy, scope.ReturnBase != nil)
		}
	}
	scope := &expr.Scope{Func: "f", Return: abiBig, ReturnWhy: "is elsewhere", Types: nothing{},
		Params: []expr.Param{{Name: "x", Type: abiDouble, Absent: true, Why: floatRegister}}}
	for text, want := range map[string]string{
		"f(x)":      "x of f " + floatRegister,
		"f($arg1)":  "x of f " + floatRegister,
		"f(return)": "what f returns is elsewhere",
	} {
		spec, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = expr.Check(spec, scope); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	spec, _ := expr.Parse("f")
	if items, err := expr.Check(spec, scope); err != nil || len(items) != 0 {
		t.Errorf("everything that can be had of f: %d items, %v", len(items), err)
	}
}

// nothing has no types.
type nothing struct{}

func (nothing) TypesByName(string) ([]btf.Type, error)        { return nil, nil }
func (nothing) Enumerators(string) ([]expr.Enumerator, error) { return nil, nil }

// TestUnboundedTypes: types of a recording may contain themselves, directly or by many ways, which no
// compiler makes. A value of such a type is somewhere; that it ends is what counts.
func TestUnboundedTypes(t *testing.T) {
	self := &btf.Struct{Name: "s", Size: 8}
	self.Members = []btf.Member{{Name: "a", Type: self}}
	wide := btf.Type(&btf.Float{Name: "double", Size: 8})
	for range 40 {
		wide = &btf.Struct{Size: 8, Members: []btf.Member{{Type: wide}, {Type: wide}, {Type: wide}}}
	}
	long := &btf.Union{Size: 16}
	long.Members = []btf.Member{{Type: &btf.Array{Type: long, Nelems: 1}}, {Type: &btf.Int{Size: 16}}}
	for _, bad := range []btf.Type{self, wide, long} {
		for _, arch := range []string{"amd64", "arm64"} {
			scope := &expr.Scope{}
			DeclareResult(scope, bad, arch)
			if abi := abis[arch]; !abi.inMemory(bad) || abi.resultInFloats(bad) != 0 {
				t.Errorf("%s: %v is in a register", arch, bad)
			}
			if params := ParamsOf([]btf.FuncParam{{Name: "p", Type: bad}, {Name: "q", Type: &btf.Int{Size: 4}}}, bad, arch); len(params) != 2 {
				t.Errorf("%s: %d parameters", arch, len(params))
			}
		}
	}
}
