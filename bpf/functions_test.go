// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// contracts reads the comments of the functions, by their names in C.
func contracts(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"functions.go", "sessionfunctions.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(spec.Doc.Text(), spec.Names[0].Name+" ") {
					t.Errorf("the comment of %s does not begin with its name", spec.Names[0])
				}
				out[name] = spec.Doc.Text()
			}
			return true
		})
	}
	return out
}

// spelled is a type as C spells it.
func spelled(t btf.Type) string {
	switch t := t.(type) {
	case nil, *btf.Void:
		return "void "
	case *btf.Pointer:
		return spelled(t.Target) + "*"
	case *btf.Struct:
		return "struct " + t.Name + " "
	case *btf.Enum:
		return "enum " + t.Name + " "
	}
	return t.TypeName() + " "
}

// prototype is the declaration of a function in the objects.
func prototype(fn *btf.Func) string {
	proto := fn.Type.(*btf.FuncProto)
	params := []string{"void"}
	for i, p := range proto.Params {
		params = append(params[:i], spelled(p.Type)+p.Name)
	}
	return fmt.Sprintf("%s%s(%s)", spelled(proto.Return), fn.Name, strings.Join(params, ", "))
}

// reached returns what a function calls, directly or not.
func reached(lib map[string]asm.Instructions, name string, seen map[string]bool) map[string]bool {
	seen[name] = true
	for _, ins := range lib[name] {
		if ins.IsBuiltinCall() {
			seen[asm.BuiltinFunc(ins.Constant).String()] = true
		}
	}
	for _, callee := range lib[name].FunctionReferences() {
		if !seen[callee] {
			reached(lib, callee, seen)
		}
	}
	return seen
}

// TestContracts compares what the comments say with the objects: the prototypes, which functions can
// send, that these are all that take a lock, and which functions of the engine call those that may
// be generated.
func TestContracts(t *testing.T) {
	lib, err := library()
	if err != nil {
		t.Fatal(err)
	}
	docs := contracts(t)
	if len(docs) < 40 {
		t.Fatalf("%d contracts were found", len(docs))
	}
	sends := regexp.MustCompile(`\b(It sends|sends a record|sends it)\b`)
	locks := regexp.MustCompile(`^Fn(Ringbuf|SpinLock|MapUpdate|MapDelete|Timer|TaskStorage)`)
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		insns, ok := lib[name]
		if !ok {
			t.Errorf("the engine has no %s", name)
			continue
		}
		doc := docs[name]
		if want := prototype(btf.FuncMetadata(&insns[0])); !strings.Contains(doc, "\n\t"+want+"\n") {
			t.Errorf("the comment of %s does not have its prototype:\n%s", name, want)
		}
		var locking []string
		for callee := range reached(lib, name, map[string]bool{}) {
			if locks.MatchString(callee) {
				locking = append(locking, callee)
			}
		}
		sending := slices.ContainsFunc(locking, func(s string) bool { return strings.HasPrefix(s, "FnRingbuf") })
		if says := sends.MatchString(strings.Join(strings.Fields(doc), " ")); says != sending {
			t.Errorf("the comment of %s says that it sends: %v; it reaches %v", name, says, locking)
		}
		if slices.ContainsFunc(locking, func(s string) bool { return !strings.HasPrefix(s, "FnRingbuf") }) {
			t.Errorf("%s takes other locks: %v", name, locking)
		}
		_, callers, ok := strings.Cut(doc, "\n\nCallers: ")
		if !ok {
			t.Errorf("the comment of %s does not say what calls it", name)
		}
		if strings.HasPrefix(callers, "Func") { // of the engine
			callers, _, _ = strings.Cut(callers, ".")
			said := regexp.MustCompile(`\w*Func\w+`).FindAllString(callers, -1)
			var have []string
			for other, doc := range docs {
				if other != name && reached(lib, other, map[string]bool{})[name] {
					have = append(have, strings.Fields(doc)[0])
				}
			}
			slices.Sort(said)
			slices.Sort(have)
			if !slices.Equal(said, have) {
				t.Errorf("%s is called by %v, its comment says by %v", name, have, said)
			}
		}
	}
}
