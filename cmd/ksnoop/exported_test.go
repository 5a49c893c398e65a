// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A sourceFile is a Go file of the module.
type sourceFile struct {
	name string // from the module's root
	dir  string
	*ast.File
}

// sources parses all files of the module.
func sources(t *testing.T) (files []sourceFile, fset *token.FileSet) {
	t.Helper()
	fset = token.NewFileSet()
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.Contains(file, "testdata/") {
			return err
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, err := filepath.Rel("../..", file)
		files = append(files, sourceFile{name, filepath.Dir(name), f})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, fset
}

// ours returns the folders of this module's packages by the names that the file
// knows them by.
func (f *sourceFile) ours() map[string]string {
	known := map[string]string{}
	for _, spec := range f.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if dir, ok := strings.CutPrefix(imported, module); ok {
			name := filepath.Base(dir)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			known[name] = dir
		}
	}
	return known
}

// TestExported: what a package of internal exports, another one uses, be it in a
// test. A type may instead stand in the declaration of something else that is
// exported, and a constant have a type that is. Fields and methods are told by their
// names alone.
func TestExported(t *testing.T) {
	files, fset := sources(t)
	used, members := map[string]bool{}, map[string]map[string]bool{}
	for i := range files {
		files[i].uses(used, members)
	}
	for i := range files {
		f := &files[i]
		if strings.HasSuffix(f.name, "_test.go") || !strings.HasPrefix(f.dir, "internal/") {
			continue
		}
		for name, at := range f.exported() {
			_, member, isMember := strings.Cut(name, ".")
			if isMember {
				others := len(members[member])
				if members[member][f.dir] {
					others--
				}
				if others > 0 {
					continue
				}
			} else if used[f.dir+"."+name] {
				continue
			}
			t.Errorf("%s: no other package uses %s.%s", fset.Position(at), f.Name.Name, name)
		}
	}
}

// Of functions, so many lines are the most, and that is what 95 % of them have at most.
const (
	longest = 90
	long    = 40
)

// TestFunctionLength holds functions to a length that can be read at once.
func TestFunctionLength(t *testing.T) {
	files, fset := sources(t)
	var lengths []int
	for _, f := range files {
		if strings.HasSuffix(f.name, "_test.go") || ast.IsGenerated(f.File) {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
				if lengths = append(lengths, n); n > longest {
					t.Errorf("%s: %s has %d lines, more than %d", fset.Position(fn.Pos()), fn.Name.Name, n, longest)
				}
			}
		}
	}
	slices.Sort(lengths)
	if len(lengths) < 1000 {
		t.Fatalf("only %d functions were found", len(lengths))
	}
	if n := lengths[len(lengths)*95/100]; n > long {
		t.Errorf("the 95th percentile of %d functions is %d lines, more than %d", len(lengths), n, long)
	}
}

// uses notes the names of packages that a file uses, in members those behind a dot
// or in front of a colon, with its folder, and the names that its own package cannot
// do without.
func (f *sourceFile) uses(used map[string]bool, members map[string]map[string]bool) {
	known := f.ours()
	where := f.dir
	if strings.HasSuffix(f.Name.Name, "_test") {
		where += "_test"
	}
	member := func(name, where string) {
		if members[name] == nil {
			members[name] = map[string]bool{}
		}
		members[name][where] = true
	}
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && known[x.Name] != "" {
				used[known[x.Name]+"."+n.Sel.Name] = true
			}
			member(n.Sel.Name, where)
		case *ast.KeyValueExpr:
			if k, ok := n.Key.(*ast.Ident); ok {
				member(k.Name, where)
			}
		case *ast.InterfaceType: // its methods are called by whoever has the interface
			for _, m := range n.Methods.List {
				for _, name := range m.Names {
					member(name.Name, "interface")
				}
			}
		}
		return true
	})
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				f.mentions(used, d.Type)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						f.mentions(used, s.Type)
					}
				case *ast.ValueSpec:
					if s.Type != nil && s.Names[0].IsExported() {
						f.mentions(used, s.Type)
					}
				}
			}
		}
	}
}

// mentions notes the names that stand in an exported declaration.
func (f *sourceFile) mentions(used map[string]bool, n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			for _, field := range n.Fields.List {
				if len(field.Names) == 0 || field.Names[0].IsExported() {
					f.mentions(used, field.Type)
				}
			}
			return false
		case *ast.SelectorExpr:
			return false
		case *ast.Ident:
			used[f.dir+"."+n.Name] = true
		}
		return true
	})
}

// errorMethods are called by package errors.
var errorMethods = map[string]bool{"Error": true, "Unwrap": true, "Is": true, "As": true, "String": true}

// exported returns what a file exports and where that is declared; of fields and
// methods "Type.Name".
func (f *sourceFile) exported() map[string]token.Pos {
	names := map[string]token.Pos{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name, typ := d.Name.Name, ""
			if d.Recv != nil {
				typ = receiver(d.Recv.List[0].Type)
				name = typ + "." + name
			}
			if d.Name.IsExported() && (typ == "" || token.IsExported(typ)) && !errorMethods[d.Name.Name] {
				names[name] = d.Pos()
			}
		case *ast.GenDecl:
			var typ ast.Expr
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if !s.Name.IsExported() {
						break
					}
					names[s.Name.Name] = s.Pos()
					if st, ok := s.Type.(*ast.StructType); ok {
						for _, field := range st.Fields.List {
							for _, n := range field.Names {
								if n.IsExported() && field.Tag == nil {
									names[s.Name.Name+"."+n.Name] = n.Pos()
								}
							}
						}
					}
				case *ast.ValueSpec:
					if s.Type != nil || s.Values != nil {
						typ = s.Type
					}
					if id, ok := typ.(*ast.Ident); ok && id.IsExported() && d.Tok == token.CONST {
						continue
					}
					for _, n := range s.Names {
						if n.IsExported() {
							names[n.Name] = n.Pos()
						}
					}
				}
			}
		}
	}
	return names
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}
