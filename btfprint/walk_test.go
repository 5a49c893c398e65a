// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestSinksOverrideNothing: a method of a sink that has the name of one of the
// walker's would be called by the one and not by the other.
func TestSinksOverrideNothing(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	methods := map[string]map[string]bool{"walker": {}, "valueWriter": {}, "jsonWriter": {}, "diffWriter": {}}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			if star, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok {
				if receiver, ok := star.X.(*ast.Ident); ok && methods[receiver.Name] != nil {
					methods[receiver.Name][fn.Name.Name] = true
				}
			}
		}
	}
	for sink, embedded := range map[string][]string{"valueWriter": {"walker"}, "jsonWriter": {"walker"}, "diffWriter": {"walker", "valueWriter"}} {
		if len(methods[sink]) < 5 {
			t.Errorf("%s has %d methods: are these all?", sink, len(methods[sink]))
		}
		for name := range methods[sink] {
			for _, below := range embedded {
				if methods[below][name] {
					t.Errorf("%s.%s hides that of %s", sink, name, below)
				}
			}
		}
	}
}
