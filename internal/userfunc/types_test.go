// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"bytes"
	"debug/dwarf"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/btfprint"
)

// typesOf returns the functions of a file by name, and all types.
func typesOf(t *testing.T, file, arch, pattern string) (map[string]*btf.FuncProto, *btf.Spec) {
	t.Helper()
	f, err := Open(file, arch)
	if err != nil {
		t.Fatal(err)
	}
	fns := f.Named(pattern)
	types, err := f.Types(fns)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(types.Raw))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*btf.FuncProto{}
	for _, fn := range fns {
		made, err := spec.TypeByID(btf.TypeID(types.Functions[fn.Addr]))
		if err != nil {
			continue
		}
		if of, ok := made.(*btf.Func); ok {
			found[fn.Name] = of.Type.(*btf.FuncProto)
		}
	}
	return found, spec
}

// TestSignatures: functions are as user.c declares them, on both architectures.
func TestSignatures(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		protos, _ := typesOf(t, program(arch), arch, "user_*")
		for name, want := range map[string]string{
			"user_add":   "long user_add(long a, int b, unsigned char c);",
			"user_weigh": "long user_weigh(const struct point * p, const char * label);",
			"user_open":  "long user_open(const char * path, int flags);",
			"user_depth": "int user_depth(int n);",
			"user_many":  "long user_many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j);",
		} {
			if got := string(btfprint.AppendFunc(nil, name, protos[name])); got != want {
				t.Errorf("%s: %s\nwant %s", arch, got, want)
			}
		}
	}
}

// TestTypes compares the places of members with what gdb says of the same program, of both
// compilers and with all versions of DWARF.
func TestTypes(t *testing.T) {
	if _, err := exec.LookPath("gdb"); err != nil {
		t.Skip(err)
	}
	for _, compiler := range []string{"gcc", "clang"} {
		for _, version := range []int{3, 4, 5} {
			t.Run(fmt.Sprintf("%s-%d", compiler, version), func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "types")
				output(t, compiler, fmt.Sprintf("-gdwarf-%d", version), "-O0", "-o", file, "testdata/types.c")
				_, err := Open(file, "amd64")
				if err != nil {
					t.Skip(err) // another architecture
				}
				compareTypes(t, file)
			})
		}
	}
}

// compareTypes asks gdb where members are: that takes no process.
func compareTypes(t *testing.T, file string) {
	protos, spec := typesOf(t, file, "amd64", "*")
	var outer *btf.Struct
	if err := spec.TypeByName("outer", &outer); err != nil {
		t.Fatal(err)
	}
	places := map[string]string{}
	var walk func(prefix string, members []btf.Member, base btf.Bits)
	walk = func(prefix string, members []btf.Member, base btf.Bits) {
		for _, m := range members {
			name := prefix + m.Name
			if m.Name != "" {
				size, _ := btf.Sizeof(m.Type)
				places[name] = fmt.Sprintf("%d:%d", base+m.Offset, 8*size)
				if m.BitfieldSize != 0 {
					places[name] = fmt.Sprintf("%d:%d", base+m.Offset, m.BitfieldSize)
				}
			}
			sub := prefix
			if m.Name != "" {
				sub = name + "."
			}
			switch inner := btf.UnderlyingType(m.Type).(type) {
			case *btf.Struct:
				walk(sub, inner.Members, base+m.Offset)
			case *btf.Union:
				walk(sub, inner.Members, base+m.Offset)
			}
		}
	}
	walk("", outer.Members, 0)
	args := []string{"-batch", "-nx"}
	names := []string{}
	for name := range maps.Keys(places) {
		names = append(names, name)
		args = append(args, "-ex", "python t = gdb.lookup_type('struct outer')\n"+strings.ReplaceAll(gdbPlace, "NAME", name))
	}
	out := output(t, "gdb", append(args, file)...)
	lines := regexp.MustCompile(`(?m)^PLACE (\S+) (\d+) (\d+)$`).FindAllStringSubmatch(out, -1)
	if len(lines) != len(names) || len(names) < 20 {
		t.Fatalf("gdb knows %d of %d members:\n%s", len(lines), len(names), out)
	}
	for _, l := range lines {
		if want := l[2] + ":" + l[3]; places[l[1]] != want {
			t.Errorf("%s is at %s, and gdb says %s", l[1], places[l[1]], want)
		}
	}
	if want := output(t, "gdb", "-batch", "-nx", "-ex", "print sizeof(struct outer)", file); !strings.Contains(want, "= "+strconv.Itoa(int(outer.Size))) {
		t.Errorf("outer has %d bytes, and gdb says %s", outer.Size, want)
	}
	var color *btf.Enum
	if err := spec.TypeByName("color", &color); err != nil || len(color.Values) != 3 || color.Values[1].Value != 7 || int32(color.Values[2].Value) != -1 {
		t.Errorf("%+v, %v", color, err)
	}
	for name, signed := range map[string]bool{"big": false, "least": true} { // both have 1 << 63 in their 64 bits
		var e *btf.Enum
		if err := spec.TypeByName(name, &e); err != nil || e.Size != 8 || e.Signed != signed || e.Values[0].Value != 1<<63 {
			t.Errorf("%s: %+v, %v, want a sign: %v", name, e, err, signed)
		}
	}
	takes := string(btfprint.AppendFunc(nil, "takes", protos["takes"]))
	for _, part := range []string{"struct outer * o, enum color c, const char * const * names, union either e, struct inner i, word w, double d, int (*f)", "..."} {
		if !strings.Contains(takes, part) {
			t.Errorf("no %q in %s", part, takes)
		}
	}
	if gives := protos["gives"]; gives == nil || btf.UnderlyingType(gives.Return).(*btf.Struct).Name != "inner" {
		t.Errorf("gives: %v", gives)
	}
	if main := string(btfprint.AppendFunc(nil, "main", protos["main"])); main != "int main(int argc, char ** argv);" {
		t.Error(main)
	}
}

// ofUnits builds a library of files of C. On another architecture than amd64 the test is skipped.
func ofUnits(t *testing.T, sources []string) (file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "program")
	args := []string{"-g", "-shared", "-nostdlib", "-o", file}
	for unit, source := range sources {
		name := filepath.Join(dir, fmt.Sprintf("%d.c", unit))
		if err := os.WriteFile(name, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	output(t, "gcc", args...)
	if _, err := Open(file, "amd64"); err != nil {
		t.Skip(err)
	}
	return file
}

// TestSameNames: files of C have structs of the same name. Those that are the same are one type, others are not.
func TestSameNames(t *testing.T) {
	var sources []string
	const common = "struct node { struct node *next; union { int i; long *l; }; int (*f)(struct node *, int); const char name[8]; };\n"
	for unit, members := range []string{"int a, b;", "int x, y;", "int a, b;", "unsigned int a, b;", "int a; struct { int in; };", "int a; struct { int out; };"} {
		source := fmt.Sprintf("%sstruct state { %s };\nvoid f%d(struct state *s, struct node *n) {}\n", common, members, unit)
		sources = append(sources, source)
	}
	file := ofUnits(t, sources)
	protos, spec := typesOf(t, file, "amd64", "f*")
	param := func(fn string, i int) *btf.Struct {
		return protos[fn].Params[i].Type.(*btf.Pointer).Target.(*btf.Struct)
	}
	inner := func(fn string) string { return param(fn, 0).Members[1].Type.(*btf.Struct).Members[0].Name }
	if a, x := param("f0", 0), param("f1", 0); a.Members[0].Name != "a" || x.Members[0].Name != "x" || x.Members[1].Name != "y" {
		t.Errorf("f0 has %+v, f1 %+v", a.Members, x.Members)
	}
	if u := param("f3", 0).Members[0].Type.(*btf.Int); u.Name != "unsigned int" {
		t.Errorf("f3 has %v", u)
	}
	if inner("f4") != "in" || inner("f5") != "out" {
		t.Errorf("f4 has %s, f5 %s", inner("f4"), inner("f5"))
	}
	states, _ := spec.AnyTypesByName("state")
	nodes, _ := spec.AnyTypesByName("node")
	if len(states) != 5 || len(nodes) != 1 {
		t.Errorf("%d states and %d nodes", len(states), len(nodes))
	}
}

// TestSameNamesBehind: structs whose members look the same are not the same type if these lead to others.
func TestSameNamesBehind(t *testing.T) {
	var sources []string
	const common = "struct entry; enum kind; struct hash { struct hash *next; struct entry **b; kind_t *kind; number *n; void (*f)(struct entry *); };\n"
	for unit, types := range []string{
		"struct entry { int key; void *val; }; typedef enum kind { A, B } kind_t; typedef int number;",
		"struct entry { int key; void *val; }; typedef enum kind { A, B } kind_t; typedef int number;",
		"struct entry { char *name; int key; }; typedef enum kind { A, B } kind_t; typedef int number;",
		"struct entry { int key; void *val; }; typedef enum kind { B, A } kind_t; typedef int number;",
		"struct entry { int key; void *val; }; typedef enum kind { A, B } kind_t; typedef unsigned number;",
		"struct entry; typedef enum kind { A, B } kind_t; typedef int number;",
	} {
		source := fmt.Sprintf("%s\n%svoid f%d(struct hash *h) {}\n", types, common, unit)
		sources = append(sources, source)
	}
	file := ofUnits(t, sources)
	protos, spec := typesOf(t, file, "amd64", "f*")
	member := func(fn, name string) btf.Type {
		for _, m := range protos[fn].Params[0].Type.(*btf.Pointer).Target.(*btf.Struct).Members {
			if m.Name == name {
				return m.Type.(*btf.Pointer).Target
			}
		}
		t.Fatalf("%s: no member %s", fn, name)
		return nil
	}
	for fn, want := range map[string]string{"f0": "key", "f1": "key", "f2": "name", "f3": "key", "f4": "key"} {
		if got := member(fn, "b").(*btf.Pointer).Target.(*btf.Struct).Members[0].Name; got != want {
			t.Errorf("%s: an entry begins with %s, want %s", fn, got, want)
		}
		if got := btf.UnderlyingType(member(fn, "kind")).(*btf.Enum).Values[0].Name == "B"; got != (fn == "f3") {
			t.Errorf("%s: the first kind is B: %v", fn, got)
		}
		if got := btf.UnderlyingType(member(fn, "n")).(*btf.Int).Encoding == btf.Unsigned; got != (fn == "f4") {
			t.Errorf("%s: a number has no sign: %v", fn, got)
		}
	}
	if hashes, _ := spec.AnyTypesByName("hash"); len(hashes) != 4 { // that of f5, which has no entries, may be any
		t.Errorf("%d structs hash", len(hashes))
	}
}

// TestManyNamesakes: a file with very many structs of one name takes time and memory for each, not for each pair.
func TestManyNamesakes(t *testing.T) {
	m := typeMaker{named: map[structKey][]namedStruct{}, alikeTo: map[dwarf.Type]dwarf.Type{}, made: map[dwarf.Type]btf.Type{}}
	number := &dwarf.IntType{BasicType: dwarf.BasicType{CommonType: dwarf.CommonType{Name: "int", ByteSize: 4}}}
	last := dwarf.Type(number)
	const many = 20_000
	for i := range many { // each leads to all before it
		last = &dwarf.PtrType{CommonType: dwarf.CommonType{ByteSize: 8}, Type: &dwarf.StructType{CommonType: dwarf.CommonType{ByteSize: 16}, StructName: "s", Kind: "struct",
			Field: []*dwarf.StructField{{Name: fmt.Sprint("f", i%3), Type: last}, {Name: "n", Type: number, ByteOffset: 8}}}}
		m.of(last)
	}
	if len(m.alikeTo) > 2*many || m.compared > 2*mostCompared {
		t.Errorf("%d types are known to be alike, %d compared", len(m.alikeTo), m.compared)
	}
}

// TestMostCompared: when a file has had very many types compared, what structs lead to makes no difference any more.
func TestMostCompared(t *testing.T) {
	leadingTo := func(member string) *dwarf.StructType {
		inner := &dwarf.StructType{CommonType: dwarf.CommonType{ByteSize: 4}, StructName: "inner", Kind: "struct", Field: []*dwarf.StructField{
			{Name: member, Type: &dwarf.IntType{BasicType: dwarf.BasicType{CommonType: dwarf.CommonType{Name: "int", ByteSize: 4}}}}}}
		return &dwarf.StructType{CommonType: dwarf.CommonType{ByteSize: 8}, StructName: "s", Kind: "struct",
			Field: []*dwarf.StructField{{Name: "p", Type: &dwarf.PtrType{CommonType: dwarf.CommonType{ByteSize: 8}, Type: inner}}}}
	}
	for compared, want := range map[int]bool{0: false, mostCompared: true} {
		m := typeMaker{named: map[structKey][]namedStruct{}, alikeTo: map[dwarf.Type]dwarf.Type{}, made: map[dwarf.Type]btf.Type{}, compared: compared}
		if same := m.of(leadingTo("a")) == m.of(leadingTo("b")); same != want {
			t.Errorf("after %d: one struct: %v", compared, same)
		}
	}
}

// TestNoCall: a function from which the compiler has taken parameters away has no types, and it is said why.
func TestNoCall(t *testing.T) {
	dir := t.TempDir()
	source, assembly, file := filepath.Join(dir, "a.c"), filepath.Join(dir, "a.s"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("int f(int *unused, int used) { return used; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	output(t, "gcc", "-O1", "-gdwarf-5", "-dA", "-S", "-o", assembly, source)
	text, err := os.ReadFile(assembly)
	if err != nil {
		t.Fatal(err)
	}
	prototyped := regexp.MustCompile(`\.uleb128 0x27\s.*\n\s*\.uleb128 0x19\s`) // DW_AT_prototyped, DW_FORM_flag_present
	for _, want := range []error{nil, errCut} {
		if want != nil { // DW_AT_calling_convention, DW_FORM_implicit_const
			text = prototyped.ReplaceAll(text, []byte(".uleb128 0x36\n.uleb128 0x21\n.sleb128 3\n#"))
			if !bytes.Contains(text, []byte(".sleb128 3\n#")) {
				t.Fatal("the compiler says in another way that a function has a prototype")
			}
		}
		if err := os.WriteFile(assembly, text, 0o600); err != nil {
			t.Fatal(err)
		}
		output(t, "gcc", "-shared", "-nostdlib", "-o", file, assembly)
		f, err := Open(file, "amd64")
		if err != nil {
			t.Skip(err) // another architecture
		}
		if _, err := f.Types(f.Named("f")); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// TestManyUnits: of each function not all units are looked at. That takes memory for each.
func TestManyUnits(t *testing.T) {
	const functions = 300
	each := map[int]float64{}
	for _, units := range []int{1, 30} {
		var sources []string
		for u := range units {
			source := ""
			for i := range functions / units {
				source += fmt.Sprintf("int f_%d_%d(int a) { return a; }\n", u, i)
			}
			sources = append(sources, source)
		}
		f, err := Open(ofUnits(t, sources), "amd64")
		if err != nil {
			t.Fatal(err)
		}
		fns := f.Named("f_*")
		var types *Types
		each[units] = testing.AllocsPerRun(1, func() { types, err = f.Types(fns) }) / functions
		if err != nil || len(types.Functions) != functions {
			t.Fatalf("%d units: %+v, %v", units, types, err)
		}
	}
	if each[30] > 2*each[1] {
		t.Errorf("a function of 30 units takes %.0f allocations, of one %.0f", each[30], each[1])
	}
	t.Log(each)
}

// gdbPlace has gdb print where a member is, and how many bits it has.
const gdbPlace = `
def place(t, path, at):
  t = t.strip_typedefs()
  for f in t.fields():
    if f.name == path[0]:
      if len(path) == 1: return at + f.bitpos, f.bitsize or 8 * f.type.sizeof
      return place(f.type, path[1:], at + f.bitpos)
    if not f.name:
      found = place(f.type, path, at + f.bitpos)
      if found: return found
found = place(t, 'NAME'.split('.'), 0)
if found: print('PLACE NAME %d %d' % found)
`

// TestLongChain: of types that lead to each other by pointers, all are there, however many.
func TestLongChain(t *testing.T) {
	const links = 2000
	dir := t.TempDir()
	source, built := filepath.Join(dir, "chain.c"), filepath.Join(dir, "chain")
	var c strings.Builder
	fmt.Fprintf(&c, "struct s%d { int n; };\n", links)
	for i := links - 1; i >= 0; i-- {
		fmt.Fprintf(&c, "struct s%d { int n; struct s%d *next; };\n", i, i+1)
	}
	c.WriteString("int first(struct s0 *s) { return s->n; }\n")
	if err := os.WriteFile(source, []byte(c.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	output(t, "gcc", "-g", "-shared", "-nostdlib", "-o", built, source)
	protos, _ := typesOf(t, built, runtime.GOARCH, "first")
	if protos["first"] == nil {
		t.Fatal("no function")
	}
	of := protos["first"].Params[0].Type
	for range links {
		of = of.(*btf.Pointer).Target.(*btf.Struct).Members[1].Type
	}
	if last := of.(*btf.Pointer).Target.(*btf.Struct); last.Name != fmt.Sprint("s", links) {
		t.Errorf("the last one is %s", last.Name)
	}
}

// TestParts: functions that the compiler has divided have types like others.
func TestParts(t *testing.T) {
	for _, version := range []int{3, 4, 5} {
		file := filepath.Join(t.TempDir(), "parts")
		output(t, "gcc", fmt.Sprintf("-gdwarf-%d", version), "-O2", "-o", file, "testdata/parts.c")
		if _, err := Open(file, "amd64"); err != nil {
			t.Skip(err) // another architecture
		}
		if names := output(t, "nm", file); !strings.Contains(names, " handle.cold") {
			t.Skip("this compiler does not divide the function")
		}
		protos, _ := typesOf(t, file, "amd64", "*")
		for name, want := range map[string]string{
			"handle": "long int handle(struct request * r, const char * name);",
			"whole":  "int whole(short int a);",
		} {
			if protos[name] == nil {
				t.Errorf("DWARF %d: %s has no types", version, name)
				continue
			}
			if got := string(btfprint.AppendFunc(nil, name, protos[name])); got != want {
				t.Errorf("DWARF %d: %s\nwant %s", version, got, want)
			}
		}
		if protos["handle.cold"] != nil {
			t.Errorf("DWARF %d: the part of a function has types", version)
		}
	}
}

// TestLinesOnly: debug info that has only lines names functions as if they took and returned nothing.
func TestLinesOnly(t *testing.T) {
	const source = `
static inline __attribute__((always_inline)) int inner(int x) { __asm__ volatile(""); return 3 * x; }
__attribute__((noinline)) int take(int x, int y) { return inner(x) + y; }
__attribute__((noinline)) void none(void) { inner(1); }
__attribute__((noinline)) void old() { inner(2); }
int main(int argc, char **argv) { none(); old(); return take(argc, **argv); }
`
	whole := map[string]string{"take": "int take(int x, int y);", "none": "void none(void);", "old": "void old(void);"}
	lines := map[string]string{}
	// The entries that describe functions are then in another unit than their code, and whether that has types is not known.
	otherUnit := map[string]string{"take": whole["take"], "none": whole["none"]}
	for _, tt := range []struct {
		command string
		want    map[string]string
	}{
		{"gcc -g -O2", whole},
		{"gcc -g -O0", whole},
		{"gcc -g -O2 -flto", otherUnit},
		{"gcc -g1 -O2", lines},
		{"gcc -g1 -O0", lines},
		{"gcc -gdwarf-4 -g1 -O2", lines},
		{"gcc -g1 -O2 -flto", lines},
		{"clang -g -O2", whole},
		{"clang -g1 -O2", lines},
		{"clang -gline-tables-only -O2", lines},
		{"clang -gline-tables-only -O2 -fdebug-info-for-profiling", lines},
		{"clang -gline-tables-only -O0", lines},
	} {
		t.Run(tt.command, func(t *testing.T) {
			dir := t.TempDir()
			in, file := filepath.Join(dir, "lines.c"), filepath.Join(dir, "lines")
			if err := os.WriteFile(in, []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			compiler := strings.Fields(tt.command)
			output(t, compiler[0], append(compiler[1:], "-o", file, in)...)
			f, err := Open(file, runtime.GOARCH)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"take", "none", "old"} {
				types, err := f.Types(f.Named(name))
				if tt.want[name] == "" {
					if !errors.Is(err, ErrNoTypes) {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				if err != nil || len(types.Functions) != 1 {
					t.Errorf("%s: %+v, %v", name, types, err)
					continue
				}
				protos, _ := typesOf(t, file, runtime.GOARCH, name)
				if got := string(btfprint.AppendFunc(nil, name, protos[name])); got != tt.want[name] {
					t.Errorf("%s\nwant %s", got, tt.want[name])
				}
			}
		})
	}
}

// TestApart: of types that are in units or files of their own, it is said that they are not read. Functions without such types have
// theirs nevertheless.
func TestApart(t *testing.T) {
	const source = `
struct pair { long a, b; };
__attribute__((noinline)) long sum(struct pair *p) { return p->a + p->b; }
__attribute__((noinline)) int plain(int x) { __asm__ volatile(""); return x; }
int main(int argc, char **argv) { struct pair p = {argc, 2}; return sum(&p) + plain(argc); }
`
	const units, files = "its types are in units of their own (gcc -fdebug-types-section)", "its debug info is in files of its own (gcc -gsplit-dwarf)"
	for command, want := range map[string]struct {
		pair, plain string // why there are no types; "": there are
	}{
		"gcc -gdwarf-4 -fdebug-types-section": {units, ""},
		"gcc -gdwarf-5 -fdebug-types-section": {units, ""},
		"gcc -gdwarf-4 -gsplit-dwarf":         {files, files},
		"gcc -gdwarf-5 -gsplit-dwarf":         {files, files},
		"clang -gdwarf-5 -gsplit-dwarf":       {files, files},
	} {
		t.Run(command, func(t *testing.T) {
			dir := t.TempDir()
			in, file := filepath.Join(dir, "apart.c"), filepath.Join(dir, "apart")
			if err := os.WriteFile(in, []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			output(t, "sh", "-c", "cd $0 && "+command+" -o $1 $2", dir, file, in) // some write a file where they are
			f, err := Open(file, runtime.GOARCH)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"sum": want.pair, "plain": want.plain} {
				_, err := f.Types(f.Named(name))
				if (err != nil) != (want != "") || err != nil && (errors.Is(err, ErrNoTypes) || !strings.Contains(err.Error(), want)) {
					t.Errorf("%s: %v", name, err)
				}
			}
			both, err := f.Types(append(f.Named("sum"), f.Named("plain")...))
			if want.plain != "" {
				if err == nil || !strings.Contains(err.Error(), files) {
					t.Error(err)
				}
				return
			}
			if err != nil || len(both.Functions) != 1 || both.Left != 1 || !strings.Contains(both.Why.Error(), units) {
				t.Errorf("%+v, %v", both, err)
			}
		})
	}
}

// TestAtomic: an _Atomic type is shown as the type that it is one of.
func TestAtomic(t *testing.T) {
	const source = `
typedef _Atomic unsigned short count;
struct state { char c; _Atomic long n; count of[3]; _Atomic(struct state *) next; };
__attribute__((noinline)) long take(_Atomic int a, struct state *s, _Atomic long *p) { return a + s->n + s->of[1] + *p; }
int main(int argc, char **argv) { struct state s = {0}; return take(argc, &s, &s.n); }
`
	for _, command := range []string{"gcc -gdwarf-4", "gcc -gdwarf-5", "clang -gdwarf-5"} {
		dir := t.TempDir()
		in, file := filepath.Join(dir, "atomic.c"), filepath.Join(dir, "atomic")
		if err := os.WriteFile(in, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		compiler := strings.Fields(command)
		output(t, compiler[0], append(compiler[1:], "-o", file, in)...)
		protos, spec := typesOf(t, file, runtime.GOARCH, "take")
		if protos["take"] == nil {
			t.Errorf("%s: no types", command)
			continue
		}
		if got, want := strings.ReplaceAll(string(btfprint.AppendFunc(nil, "take", protos["take"])), "long int", "long"), "long take(int a, struct state * s, long * p);"; got != want {
			t.Errorf("%s: %s\nwant %s", command, got, want)
		}
		var state *btf.Struct
		if err := spec.TypeByName("state", &state); err != nil {
			t.Fatal(err)
		}
		places := ""
		for _, m := range state.Members {
			size, err := btf.Sizeof(m.Type)
			if err != nil {
				t.Error(err)
			}
			places += fmt.Sprintf("%s %d+%d ", m.Name, m.Offset.Bytes(), size)
		}
		if want := "c 0+1 n 8+8 of 16+6 next 24+8 "; places != want {
			t.Errorf("%s: %s, want %s", command, places, want)
		}
	}
}

// TestAtomicApart: structs of one name with other _Atomic members are not the same.
func TestAtomicApart(t *testing.T) {
	const unit = `
struct state { _Atomic TYPE v; };
__attribute__((noinline)) int NAME(struct state *s) { return s->v; }
`
	for _, command := range []string{"gcc -gdwarf-5", "clang -gdwarf-5"} {
		dir := t.TempDir()
		args := strings.Fields(command)
		args = append(args, "-shared", "-fPIC", "-o", filepath.Join(dir, "lib.so"))
		for name, typ := range map[string]string{"take_a": "int", "take_b": "float"} {
			in := filepath.Join(dir, name+".c")
			if err := os.WriteFile(in, []byte(strings.NewReplacer("TYPE", typ, "NAME", name).Replace(unit)), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, in)
		}
		output(t, args[0], args[1:]...)
		protos, _ := typesOf(t, filepath.Join(dir, "lib.so"), runtime.GOARCH, "take_*")
		for name, want := range map[string]string{"take_a": "int", "take_b": "float"} {
			s := protos[name].Params[0].Type.(*btf.Pointer).Target.(*btf.Struct)
			if got := s.Members[0].Type.TypeName(); got != want {
				t.Errorf("%s: v of %s is of type %s, want %s", command, name, got, want)
			}
		}
	}
}
