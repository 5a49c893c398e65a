// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"
)

// inWords spells a type without what pointers lead to, which an outline has not.
func inWords(t btf.Type, depth int) string {
	if depth > 12 {
		return "..."
	}
	switch t := t.(type) {
	case *btf.Pointer:
		return "pointer to " + pointedTo(t.Target, depth)
	case *btf.Struct:
		return fmt.Sprintf("struct %s %d {%s}", t.Name, t.Size, membersInWords(t.Members, depth))
	case *btf.Union:
		return fmt.Sprintf("union %s %d {%s}", t.Name, t.Size, membersInWords(t.Members, depth))
	case *btf.Array:
		return fmt.Sprintf("%d of %s", t.Nelems, inWords(t.Type, depth+1))
	case *btf.Enum:
		return fmt.Sprintf("enum %s %d %t %v", t.Name, t.Size, t.Signed, t.Values)
	case *btf.Int:
		return fmt.Sprintf("%s %d %d", t.Name, t.Size, t.Encoding)
	case *btf.Fwd:
		return t.Kind.String() + " " + t.Name
	case *btf.Typedef:
		return t.Name + " = " + inWords(t.Type, depth+1)
	case *btf.Const:
		return "const " + inWords(t.Type, depth+1)
	case *btf.Volatile:
		return "volatile " + inWords(t.Type, depth+1)
	case *btf.Restrict:
		return "restrict " + inWords(t.Type, depth+1)
	case *btf.TypeTag:
		return "tag " + t.Value + " " + inWords(t.Type, depth+1)
	case *btf.Float:
		return fmt.Sprintf("float %s %d", t.Name, t.Size)
	case *btf.FuncProto:
		text := "("
		for _, p := range t.Params {
			text += p.Name + " " + inWords(p.Type, depth+1) + ", "
		}
		return text + ") " + inWords(t.Return, depth+1)
	case *btf.Void:
		return "void"
	}
	return fmt.Sprintf("%T", t)
}

// pointedTo spells what a pointer leads to: of a struct its name.
func pointedTo(t btf.Type, depth int) string {
	switch t := t.(type) {
	case *btf.Struct:
		if t.Name != "" {
			return "struct " + t.Name
		}
	case *btf.Union:
		if t.Name != "" {
			return "union " + t.Name
		}
	case *btf.Const:
		return "const " + pointedTo(t.Type, depth)
	case *btf.Volatile:
		return "volatile " + pointedTo(t.Type, depth)
	case *btf.TypeTag:
		return "tag " + t.Value + " " + pointedTo(t.Type, depth)
	case *btf.Typedef:
		return t.Name + " = " + pointedTo(t.Type, depth)
	}
	return inWords(t, depth+1)
}

func membersInWords(members []btf.Member, depth int) string {
	var b strings.Builder
	for _, m := range members {
		fmt.Fprintf(&b, "%s@%d:%d %s; ", m.Name, m.Offset, m.BitfieldSize, inWords(m.Type, depth+1))
	}
	return b.String()
}

// TestOutline: an outline tells of types what cilium/ebpf tells, which decodes them whole.
func TestOutline(t *testing.T) {
	base := vmlinuxBTF(t)
	views := map[string]*View{"made": Open(fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: base}, "sys/kernel/btf/mod": {Data: moduleBTF(t, base)}})}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err == nil && !testing.Short() {
		views["this kernel's"] = Open(os.DirFS("/"))
	}
	for name, v := range views {
		t.Run(name, func(t *testing.T) {
			module := ""
			if name == "made" {
				module = "mod"
			}
			o := v.Outline(module)
			compared := 0
			for _, kind := range []string{"struct", "union", "enum", ""} {
				names := slices.Collect(v.TypeNames(kind, "", module))
				slices.Sort(names)
				for i, name := range slices.Compact(names) {
					if len(names) > 1000 && i%97 != 0 { // all would take long
						continue
					}
					spelling := strings.TrimSpace(kind + " " + name)
					want, err := v.TypesByName(spelling, module)
					if err != nil {
						t.Fatal(err)
					}
					got, err := o.TypesByName(spelling)
					if err != nil || len(got) != min(1, len(want)) {
						t.Fatalf("%s: %d types, %v", spelling, len(got), err)
					}
					if len(want) != 1 {
						continue // the first of them may be another one
					}
					compared++
					if a, b := inWords(got[0], 0), inWords(want[0], 0); a != b {
						t.Fatalf("%s is\n%s, and not\n%s", spelling, a, b)
					}
				}
			}
			for f := range v.FunctionsNamed("", "") {
				if compared++; compared%257 != 0 && len(views) > 1 && name != "made" {
					continue
				}
				want, err := v.exact(f.Name, "")
				if err != nil {
					t.Fatal(err)
				}
				got := v.Outline(f.Module).Function(f)
				if got == nil || !slices.ContainsFunc(want, func(w Function) bool { return inWords(w.Type.Type, 0) == inWords(got.Type, 0) }) {
					t.Errorf("%s[%s] is %v", f.Name, f.Module, got)
				}
			}
			if compared < 5 {
				t.Errorf("%d types were compared", compared)
			}
		})
	}
}

// FuzzOutline: damaged types are decoded without a panic and without end.
func FuzzOutline(f *testing.F) {
	f.Add(vmlinuxBTF(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		v := Open(fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: data}})
		o := v.Outline("")
		for _, kind := range []string{"struct", "union", "enum", ""} {
			for name := range v.TypeNames(kind, "", "") {
				_, _ = o.TypesByName(strings.TrimSpace(kind + " " + name))
			}
		}
		for f := range v.FunctionsNamed("", "") {
			_ = o.Function(f)
		}
		for range v.EnumeratorNames("", "") {
		}
	})
}
