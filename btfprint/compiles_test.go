// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/qualifier"
)

// cSource writes C in which declarations to be tested can stand: what they
// refer to by name is declared before them.
type cSource struct {
	text  bytes.Buffer
	names map[string]btf.Type // name, with its keyword if it has one
	tests []btf.Type
}

// add declares a type as the variable v0, v1, … It reports false where the
// type cannot stand in one file with those before it.
func (c *cSource) add(t btf.Type, declare func(name string) string) bool {
	if !c.need(t) {
		return false
	}
	c.text.WriteString(declare(fmt.Sprintf("v%d", len(c.tests))))
	c.text.WriteByte('\n')
	c.tests = append(c.tests, t)
	return true
}

// need declares everything that t refers to.
func (c *cSource) need(t btf.Type) bool {
	switch t := t.(type) {
	case *btf.Pointer:
		return c.need(t.Target)
	case *btf.Array:
		c.complete(t.Type)
		return c.need(t.Type)
	case *btf.Const:
		return c.need(t.Type)
	case *btf.Volatile:
		return c.need(t.Type)
	case *btf.Restrict:
		return c.need(t.Type)
	case *btf.FuncProto:
		for _, p := range t.Params {
			if !c.need(p.Type) {
				return false
			}
		}
		return c.need(t.Return)
	case *btf.Struct:
		return c.tag(t, "struct", t.Name, ";\n")
	case *btf.Union:
		return c.tag(t, "union", t.Name, ";\n")
	case *btf.Fwd:
		return c.tag(t, t.Kind.String(), t.Name, ";\n")
	case *btf.Enum:
		return c.tag(t, "enum", t.Name, fmt.Sprintf(" { enumerator_of_%s };\n", t.Name))
	case *btf.Typedef:
		return c.typedef(t)
	case *btf.Int, *btf.Float, *btf.Void:
		return true
	}
	return false
}

// complete defines the struct or union that the elements of an array are.
func (c *cSource) complete(t btf.Type) {
	t = strip(t)
	switch t.(type) {
	case *btf.Struct, *btf.Union:
	default:
		return
	}
	key := keyword(t) + " " + t.TypeName() + " {}"
	if t.TypeName() != "" && c.names[key] == nil {
		c.names[key] = t
		fmt.Fprintf(&c.text, "%s %s { int member; };\n", keyword(t), t.TypeName())
	}
}

func (c *cSource) tag(t btf.Type, keyword, name, body string) bool {
	if name == "" {
		return false
	}
	key := keyword + " " + name
	if c.names[key] == nil {
		c.names[key] = t
		c.text.WriteString(key + body)
	}
	return true
}

// typedef declares a typedef. What it stands for is cut short where that has
// no name: only the name counts for those who use it.
func (c *cSource) typedef(t *btf.Typedef) bool {
	if strings.HasPrefix(t.Name, "__builtin_") {
		return true
	}
	if old, ok := c.names[t.Name]; ok {
		return old == t
	}
	c.names[t.Name] = t
	switch under := t.Type.(type) {
	case *btf.Struct, *btf.Union:
		if under.TypeName() == "" {
			fmt.Fprintf(&c.text, "typedef %s { int member; } %s;\n", keyword(under), t.Name)
			return true
		}
	case *btf.Enum:
		if under.Name == "" {
			fmt.Fprintf(&c.text, "typedef enum { enumerator_of_%s } %s;\n", t.Name, t.Name)
			return true
		}
	}
	if !c.need(t.Type) {
		delete(c.names, t.Name)
		return false
	}
	c.text.Write(AppendType(nil, t, TypeOptions{}))
	c.text.WriteByte('\n')
	return true
}

// compile has gcc compile all that was added and compares with the types in
// its DWARF. (The BTF that gcc 12 writes has the dimensions of arrays reversed.)
func (c *cSource) compile(t *testing.T) {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed")
	}
	dir := t.TempDir()
	source, object := filepath.Join(dir, "a.c"), filepath.Join(dir, "a.o")
	if err := os.WriteFile(source, c.text.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(gcc, "-w", "-ffreestanding", "-fno-builtin", "-g", "-c", source, "-o", object)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, clip(string(out), 2000))
	}
	got := variables(t, object)
	for i, want := range c.tests {
		name := fmt.Sprintf("v%d", i)
		if a, b := got[name], canonical(want); a != b {
			t.Errorf("%s:\n declared %s\n  gcc has %s\n     want %s", name, AppendDecl(nil, want, name), a, b)
		}
	}
}

func clip(s string, n int) string { return s[:min(len(s), n)] }

// variables reads the canonical types of all variables in an object file.
func variables(t *testing.T, object string) map[string]string {
	t.Helper()
	f, err := elf.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	list := make(map[string]string)
	for r := data.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return list
		}
		if e.Tag != dwarf.TagVariable {
			continue
		}
		typ, err := data.Type(e.Val(dwarf.AttrType).(dwarf.Offset))
		if err != nil {
			t.Fatal(err)
		}
		list[e.Val(dwarf.AttrName).(string)] = canonical(fromDWARF(typ))
	}
}

// fromDWARF makes BTF of a type, as far as canonical looks at it.
func fromDWARF(t dwarf.Type) btf.Type {
	switch t := t.(type) {
	case nil, *dwarf.VoidType:
		return (*btf.Void)(nil)
	case *dwarf.QualType:
		switch inner := fromDWARF(t.Type); t.Qual {
		case "const":
			return &btf.Const{Type: inner}
		case "volatile":
			return &btf.Volatile{Type: inner}
		default:
			return &btf.Restrict{Type: inner}
		}
	case *dwarf.PtrType:
		return &btf.Pointer{Target: fromDWARF(t.Type)}
	case *dwarf.ArrayType:
		return &btf.Array{Type: fromDWARF(t.Type), Nelems: uint32(max(t.Count, 0))}
	case *dwarf.FuncType:
		fn := &btf.FuncProto{Return: fromDWARF(t.ReturnType)}
		for _, p := range t.ParamType {
			var param btf.Type = (*btf.Void)(nil)
			if _, dots := p.(*dwarf.DotDotDotType); !dots {
				param = fromDWARF(p)
			}
			fn.Params = append(fn.Params, btf.FuncParam{Type: param})
		}
		return fn
	case *dwarf.StructType:
		if t.Kind == "union" {
			return &btf.Union{Name: t.StructName}
		}
		return &btf.Struct{Name: t.StructName}
	case *dwarf.EnumType:
		return &btf.Enum{Name: t.EnumName}
	case *dwarf.TypedefType:
		return &btf.Typedef{Name: t.Name}
	}
	return &btf.Int{Name: t.Common().Name}
}

// canonical writes out a type in words, left to right, as no C declaration
// does. Qualifiers are sorted, those of parameters and of returned values are
// no part of a function's type, and an array's are its elements'.
func canonical(t btf.Type) string {
	var quals [3]bool
	for {
		switch q := t.(type) {
		case *btf.Const:
			quals[0], t = true, q.Type
			continue
		case *btf.Volatile:
			quals[1], t = true, q.Type
			continue
		case *btf.Restrict:
			quals[2], t = true, q.Type
			continue
		}
		break
	}
	if arr, ok := t.(*btf.Array); ok {
		elem := arr.Type
		for i, wrap := range []func(btf.Type) btf.Type{
			func(t btf.Type) btf.Type { return &btf.Const{Type: t} },
			func(t btf.Type) btf.Type { return &btf.Volatile{Type: t} },
			func(t btf.Type) btf.Type { return &btf.Restrict{Type: t} },
		} {
			if quals[i] {
				elem = wrap(elem)
			}
		}
		return fmt.Sprintf("array %d of %s", arr.Nelems, canonical(elem))
	}
	var s string
	for i, word := range []string{"const ", "volatile ", "restrict "} {
		if quals[i] {
			s += word
		}
	}
	switch t := t.(type) {
	case *btf.Pointer:
		return s + "pointer to " + canonical(t.Target)
	case *btf.FuncProto:
		return "function " + canonicalParams(t.Params) + " returning " + canonical(qualifier.Bare(t.Return))
	case *btf.Struct:
		return s + "struct " + t.Name
	case *btf.Union:
		return s + "union " + t.Name
	case *btf.Enum:
		return s + "enum " + t.Name
	case *btf.Fwd:
		return s + t.Kind.String() + " " + t.Name
	case *btf.Void:
		return s + "void"
	case *btf.Int:
		return s + intName(t.Name)
	}
	return s + t.TypeName()
}

// intName evens out the order of words: `__int128 unsigned`.
func intName(name string) string {
	if name == "__int128 unsigned" {
		return "unsigned __int128"
	}
	return name
}

func canonicalParams(params []btf.FuncParam) string {
	var list []string
	for i, p := range params {
		if isVoid(p.Type) {
			if i > 0 {
				list = append(list, "...")
			}
			continue
		}
		// A parameter that is an array or a function is a pointer.
		switch inner := qualifier.Bare(p.Type).(type) {
		case *btf.Array:
			list = append(list, "pointer to "+canonical(inner.Type))
		case *btf.FuncProto:
			list = append(list, "pointer to "+canonical(inner))
		default:
			list = append(list, canonical(inner))
		}
	}
	return "(" + strings.Join(list, ", ") + ")"
}

func newSource() *cSource { return &cSource{names: make(map[string]btf.Type)} }

// TestPrototypesCompile declares functions of the kernel and reads their types
// back from the BTF that gcc makes of them.
func TestPrototypesCompile(t *testing.T) {
	for _, file := range kernelBTF(t) {
		spec, err := btf.LoadSpec(file)
		if err != nil {
			t.Fatal(err)
		}
		src, n, left := newSource(), 0, 0
		for typ, err := range spec.All() {
			if err != nil {
				t.Fatal(err)
			}
			fn, ok := typ.(*btf.Func)
			if !ok {
				continue
			}
			if n++; n%sample != 0 && !soak() {
				continue
			}
			proto := fn.Type.(*btf.FuncProto)
			if !src.add(&btf.Pointer{Target: proto}, func(name string) string {
				return fmt.Sprintf("%s __typeof__(f_%s) *%s;", AppendFunc(nil, "f_"+name, proto), name, name)
			}) {
				left++
			}
		}
		src.compile(t)
		t.Logf("%s: %d prototypes are the same type for gcc, %d left out (a name has two meanings, or a type none)", file, len(src.tests), left)
		if left > len(src.tests)/10 {
			t.Errorf("too many left out")
		}
	}
}

// anyType builds a random type that C allows.
type anyType struct{ *rand.Rand }

func (r anyType) scalar() btf.Type {
	return []btf.Type{
		&btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
		&btf.Int{Name: "char", Size: 1, Encoding: btf.Signed},
		&btf.Struct{Name: "s", Size: 4},
		&btf.Union{Name: "u", Size: 4},
		&btf.Enum{Name: "e", Size: 4},
		&btf.Typedef{Name: "t", Type: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}},
	}[r.IntN(6)]
}

// object builds the type of a variable: no function and not void.
func (r anyType) object(depth int) btf.Type {
	if depth == 0 {
		return r.scalar()
	}
	switch r.IntN(5) {
	case 0:
		return &btf.Pointer{Target: r.pointee(depth - 1)}
	case 1:
		return &btf.Const{Type: r.object(depth - 1)}
	case 2:
		return &btf.Volatile{Type: r.object(depth - 1)}
	case 3:
		return &btf.Array{Index: r.scalar(), Type: r.object(depth - 1), Nelems: uint32(r.IntN(4) + 1)}
	}
	return &btf.Pointer{Target: r.function(depth - 1)}
}

func (r anyType) pointee(depth int) btf.Type {
	if r.IntN(6) == 0 {
		return (*btf.Void)(nil)
	}
	if r.IntN(3) == 0 && depth > 0 {
		return r.function(depth - 1)
	}
	return r.object(depth)
}

func (r anyType) function(depth int) btf.Type {
	fn := &btf.FuncProto{Return: (*btf.Void)(nil)}
	for {
		t := qualifier.Bare(r.object(depth))
		if _, array := t.(*btf.Array); !array {
			fn.Return = t
			break
		}
	}
	for range r.IntN(3) {
		fn.Params = append(fn.Params, btf.FuncParam{Type: qualifier.Bare(r.object(depth))})
	}
	if len(fn.Params) > 0 && r.IntN(4) == 0 {
		fn.Params = append(fn.Params, btf.FuncParam{Type: (*btf.Void)(nil)})
	}
	return fn
}

// TestDeclaratorsCompile declares variables of random types, arrays of
// pointers to functions returning pointers to arrays and the like.
func TestDeclaratorsCompile(t *testing.T) {
	src := newSource()
	// Variables need complete types.
	src.complete(&btf.Struct{Name: "s"})
	src.complete(&btf.Union{Name: "u"})
	r := anyType{rand.New(rand.NewPCG(1, 2))}
	shared := make(map[string]*btf.Typedef)
	for len(src.tests) < 2000 {
		typ := r.object(1 + r.IntN(6))
		unify(typ, shared)
		if !src.add(typ, func(name string) string { return string(AppendDecl(nil, typ, name)) + ";" }) {
			t.Fatalf("cannot declare %v", canonical(typ))
		}
	}
	src.compile(t)
}

// unify makes equal typedefs the same.
func unify(t btf.Type, shared map[string]*btf.Typedef) btf.Type {
	switch t := t.(type) {
	case *btf.Pointer:
		t.Target = unify(t.Target, shared)
	case *btf.Const:
		t.Type = unify(t.Type, shared)
	case *btf.Volatile:
		t.Type = unify(t.Type, shared)
	case *btf.Array:
		t.Type = unify(t.Type, shared)
	case *btf.FuncProto:
		t.Return = unify(t.Return, shared)
		for i := range t.Params {
			t.Params[i].Type = unify(t.Params[i].Type, shared)
		}
	case *btf.Typedef:
		if old := shared[t.Name]; old != nil {
			return old
		}
		shared[t.Name] = t
	}
	return t
}
