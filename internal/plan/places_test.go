// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/userfunc"
	"github.com/ksnoop/ksnoop/layout"
)

// TestPlaces compiles functions that take and return values of random types, calls them, and compares
// where gcc has put arguments and results with where ksnoop reads them by the program's debug info.
func TestPlaces(t *testing.T) {
	for arch, tools := range map[string][2]string{"amd64": {"x86_64-linux-gnu-gcc", "qemu-x86_64"}, "arm64": {"aarch64-linux-gnu-gcc", "qemu-aarch64"}} {
		if arch == runtime.GOARCH {
			tools[1] = ""
		}
		for seed := range uint64(1) {
			t.Run(fmt.Sprintf("%s-%d", arch, seed), func(t *testing.T) {
				for _, tool := range tools {
					if _, err := exec.LookPath(tool); tool != "" && err != nil {
						t.Skip(err)
					}
				}
				t.Parallel()
				comparePlaces(t, arch, tools[0], tools[1], seed)
			})
		}
	}
}

func comparePlaces(t *testing.T, arch, compiler, emulator string, seed uint64) {
	const functions = 90
	dir := t.TempDir()
	source, program, places := filepath.Join(dir, "places.c"), filepath.Join(dir, "places"), filepath.Join(dir, "places.txt")
	fixed, err := os.ReadFile("testdata/places.c")
	if err != nil {
		t.Fatal(err)
	}
	g := &generator{rand: rand.New(rand.NewPCG(seed, 0))}
	for i := range functions {
		g.function(i)
	}
	text := string(fixed) + g.types.String() + g.functions.String() +
		"int main(int n, char **v)\n{\n\tplaces = fopen(v[1], \"r\");\n" + g.calls.String() + "\treturn 0;\n}\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(compiler, "-g", "-O1", "-static", "-w", "-fno-strict-aliasing", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(places, placesOf(t, program, arch, functions), 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.Command(program, places)
	if emulator != "" {
		run = exec.Command(emulator, program, places)
	}
	out, err := run.CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(line, ":")
		t.Errorf("%s%s", line, g.declared[name])
	}
}

// placesOf writes the places that ksnoop has for the parameters and results of a program's functions.
func placesOf(t *testing.T, program, arch string, functions int) []byte {
	names := make([]string, functions)
	for i := range names {
		names[i] = fmt.Sprintf("f%d", i)
	}
	var b bytes.Buffer
	for _, proto := range declaredIn(t, program, arch, names) {
		params := layout.ParamsOf(proto.Params, proto.Return, arch)
		if _, void := proto.Return.(*btf.Void); !void {
			writeResult(&b, params[0], proto.Return, arch)
			continue
		}
		for _, p := range params {
			fmt.Fprintln(&b, flag(p.Absent), p.Lost, flag(p.Loc.Ref), p.Loc.Stack, p.Loc.Reg, p.Loc.Register(1))
		}
	}
	return b.Bytes()
}

// declaredIn returns functions of a program as its debug info declares them.
func declaredIn(t *testing.T, program, arch string, names []string) []*btf.FuncProto {
	t.Helper()
	file, err := userfunc.Open(program, arch)
	if err != nil {
		t.Fatal(err)
	}
	var all []userfunc.Function
	for _, name := range names {
		all = append(all, file.Named(name)...)
	}
	types, err := file.Types(all)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(types.Raw))
	if err != nil {
		t.Fatal(err)
	}
	var protos []*btf.FuncProto
	for _, fn := range all {
		made, err := spec.TypeByID(btf.TypeID(types.Functions[fn.Addr]))
		if err != nil {
			t.Fatalf("%s: %v", fn.Name, err)
		}
		protos = append(protos, made.(*btf.Func).Type.(*btf.FuncProto))
	}
	return protos
}

// writeResult writes where a result is: whether in memory, how many registers of the x87 have it, the
// register of the function's only parameter, and that of the second word.
func writeResult(b *bytes.Buffer, param layout.Param, result btf.Type, arch string) {
	var scope expr.Scope
	layout.DeclareResult(&scope, result, arch)
	x87 := 0
	if s := fmt.Sprint(btf.UnderlyingType(result)); arch == "amd64" && scope.ReturnWhy != "" && layout.Words(result) > 1 && strings.Contains(s, "long double") {
		x87 = layout.Words(result) / 2
	}
	fmt.Fprintln(b, flag(scope.ReturnWhy != ""), scope.ReturnLost, x87, flag(scope.ReturnBase != nil), param.Loc.Reg, layout.ResultRegister(result, arch, 1))
}

func flag(b bool) int { return map[bool]int{true: 1}[b] }

// TestUnknownPlaces: what cannot be described is not taken for anything else, and neither is what comes
// behind it. A "?" stands for a parameter that is refused.
func TestUnknownPlaces(t *testing.T) {
	const compiler = "x86_64-linux-gnu-gcc"
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "unknown")
	if out, err := exec.Command(compiler, "-g", "-O1", "-o", program, "testdata/unknown.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string][2]string{
		"vector":   {"long int vector(long int a, v4 v, long int b);", "0 ? ?"},
		"holder":   {"long int holder(long int a, struct holds v, long int b);", "0 ? ?"},
		"decimal":  {"long int decimal(long int a, _Decimal64 d, long int b);", "0 ? ?"},
		"decimals": {"long int decimals(long int a, struct dec d, long int b);", "0 ? ?"},
		"unions":   {"long int unions(long int a, union both d, long int b);", "0 ? ?"},
		"lists":    {"void * lists(long int a, void * l, long int b);", "0 1 2"},
		"gives":    {"v4 gives(long int a);", "0"}, // the result is in xmm0
		"bare":     {"vector bare(long int a);", "0"},
		"wide":     {"v8 wide(long int a);", "?"},
		"comp":     {"complex double comp(long int a, complex double z, complex float y, complex long double x, long int b);", "0 ? ? -1 1"},
	} {
		proto := declaredIn(t, program, "amd64", []string{name})[0]
		if got := string(btfprint.AppendFunc(nil, name, proto)); got != want[0] {
			t.Errorf("%s\nwant %s", got, want[0])
		}
		var places []string
		for _, p := range layout.ParamsOf(proto.Params, proto.Return, "amd64") {
			place := strconv.Itoa(p.Loc.Reg)
			if p.Absent {
				place = "?"
			}
			places = append(places, place)
		}
		if got := strings.Join(places, " "); got != want[1] {
			t.Errorf("%s: registers %s, want %s", name, got, want[1])
		}
	}
}

// A generator writes a program.
type generator struct {
	rand                    *rand.Rand
	types, functions, calls strings.Builder
	n                       int // types
	declared                map[string]string
}

var numbers = []string{"char", "short", "int", "long", "unsigned char", "void *", "__int128"}
var floats = []string{"float", "double", "long double", "_Float128", "float _Complex", "double _Complex", "long double _Complex"}

// aligned16 are the types that are aligned to 16 bytes.
var aligned16 = []string{"__int128", "long double", "_Float128", "long double _Complex"}

// scalar returns a type that is no aggregate.
func (g *generator) scalar() string {
	if g.rand.IntN(2) == 0 {
		return floats[g.rand.IntN(len(floats))]
	}
	return numbers[g.rand.IntN(len(numbers))]
}

// value declares a type and how a value of it is filled in.
func (g *generator) value() string {
	if g.rand.IntN(2) == 0 {
		name := fmt.Sprintf("T%d", g.n)
		g.n++
		t := g.scalar()
		fmt.Fprintf(&g.types, "typedef %s %s;\nstatic void fill_%s(%s *v, %s *k) { %s }\n", t, name, name, name, name, filled(t, "*v", "*k"))
		return name
	}
	return g.aggregate(2)
}

// filled fills in a scalar. What a long double has beyond its 10 bytes is not passed.
func filled(t, v, k string) string {
	size := "sizeof(" + v + ")"
	switch t {
	case "long double":
		size = "LONG_DOUBLE"
	case "long double _Complex":
		return fmt.Sprintf("fill(&%s, &%s, LONG_DOUBLE); fill((char *)&%s + 16, (char *)&%s + 16, LONG_DOUBLE);", v, k, v, k)
	}
	return fmt.Sprintf("fill(&%s, &%s, %s);", v, k, size)
}

func (g *generator) aggregate(depth int) string {
	var members, fills strings.Builder
	kind := "struct"
	if g.rand.IntN(5) == 0 {
		kind = "union"
	}
	alike := "" // homogeneous ones are rare otherwise
	if g.rand.IntN(4) == 0 {
		alike = floats[g.rand.IntN(4)]
	}
	packed := ""
	if g.rand.IntN(8) == 0 {
		packed, depth = "__attribute__((packed)) ", 0
	}
	for i := range 1 + g.rand.IntN(4) {
		t := g.scalar()
		for packed != "" && slices.Contains(aligned16, t) {
			t = g.scalar() // neither BTF nor DWARF tells that a struct of these alone is packed
		}
		if alike != "" && packed == "" {
			t = alike
		}
		m := fmt.Sprintf("m%d", i)
		switch n := g.rand.IntN(10); {
		case n == 0 && depth > 0:
			t = g.aggregate(depth - 1)
			fmt.Fprintf(&members, "\t%s %s;\n", t, m)
			fmt.Fprintf(&fills, "\tfill_%s((void *)&v->%s, (void *)&k->%s);\n", t, m, m)
		case n == 1:
			count := 1 + g.rand.IntN(3)
			fmt.Fprintf(&members, "\t%s %s[%d];\n", t, m, count)
			for j := range count {
				at := fmt.Sprintf("%s[%d]", m, j)
				fmt.Fprintf(&fills, "\t%s\n", filled(t, "v->"+at, "k->"+at))
			}
		case n == 2 && kind == "struct" && alike == "":
			fmt.Fprintf(&members, "\tlong %s : %d;\n", m, 1+g.rand.IntN(40))
			fmt.Fprintf(&fills, "\tv->%s = next(); k->%s = -1;\n", m, m)
		default:
			fmt.Fprintf(&members, "\t%s %s;\n", t, m)
			fmt.Fprintf(&fills, "\t%s\n", filled(t, "v->"+m, "k->"+m))
		}
	}
	tag := fmt.Sprintf("S%d", g.n)
	g.n++
	fmt.Fprintf(&g.types, "typedef %s %s%s {\n%s} %s;\nstatic void fill_%s(%s *v, %s *k)\n{\n%s}\n", kind, packed, tag, members.String(), tag, tag, tag, tag, fills.String())
	return tag
}

// function declares a function and writes its call.
func (g *generator) function(i int) {
	if g.declared == nil {
		g.declared = map[string]string{}
	}
	name := fmt.Sprintf("f%d", i)
	before := g.types.Len()
	if i%4 == 0 {
		result := g.value()
		decl := fmt.Sprintf("%s %s(long a)", result, name)
		fmt.Fprintf(&g.functions, "%s { %s v; memset(&v, 0, sizeof v); return v; }\n", decl, result)
		fmt.Fprintf(&g.calls, "\t{\n\t\tfunction = %d;\n\t\tstruct place p = before();\n\t\t%s m, k, r;\n\t\tmemset(&k, 0, sizeof k);\n\t\tfill_%s(&m, &k);\n", i, result, result)
		fmt.Fprintf(&g.calls, "\t\tr = ((__typeof__(&%s))given)(0x1111);\n\t\tafter(p, (void *)&r, (void *)&k, sizeof r);\n\t}\n", name)
		g.declared[name] = g.types.String()[before:] + decl
		return
	}
	var params, values []string
	fmt.Fprintf(&g.calls, "\t{\n")
	for j := range 1 + g.rand.IntN(14) {
		t := g.value()
		params = append(params, fmt.Sprintf("%s p%d", t, j))
		values = append(values, fmt.Sprintf("v%d", j))
		fmt.Fprintf(&g.calls, "\t\tstatic %s v%d, k%d;\n\t\tfill_%s(&v%d, &k%d);\n\t\targuments[%d] = (struct argument){(void *)&v%d, (void *)&k%d, sizeof v%d};\n", t, j, j, t, j, j, j, j, j, j)
	}
	decl := fmt.Sprintf("void %s(%s)", name, strings.Join(params, ", "))
	fmt.Fprintf(&g.functions, "%s {}\n", decl)
	fmt.Fprintf(&g.calls, "\t\tcount = %d, function = %d;\n\t\t((__typeof__(&%s))captured)(%s);\n\t}\n", len(params), i, name, strings.Join(values, ", "))
	g.declared[name] = g.types.String()[before:] + decl
}
