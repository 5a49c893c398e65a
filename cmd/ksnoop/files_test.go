// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestFileOrder: files of a package do not need each other in a circle. A file needs
// another one if a name stands in it that the other declares outside of functions;
// methods, and what they belong to, do not count. So every file can be read after those
// that it needs.
func TestFileOrder(t *testing.T) {
	files, _ := sources(t)
	packages := map[string][]*sourceFile{}
	for i := range files {
		if f := &files[i]; !strings.HasSuffix(f.name, "_test.go") && !ast.IsGenerated(f.File) {
			packages[f.dir] = append(packages[f.dir], f)
		}
	}
	if len(packages["internal/event"]) < 2 {
		t.Fatalf("internal/event has %d files: is the walk right?", len(packages["internal/event"]))
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if circle := circle(needs(packages[dir])); len(circle) > 0 {
			t.Errorf("%s: files that need each other: %s", dir, strings.Join(circle, ", "))
		}
	}
}

// needs returns which other files of their package files need, and for what.
func needs(files []*sourceFile) map[string]map[string]string {
	declared := map[string]string{}
	for _, f := range files {
		for _, d := range f.Decls {
			for _, name := range names(d) {
				declared[name] = path.Base(f.name)
			}
		}
	}
	out := map[string]map[string]string{}
	for _, f := range files {
		own := path.Base(f.name)
		out[own] = map[string]string{}
		eachUse(f.File, func(name string) {
			if of := declared[name]; of != "" && of != own && name != "_" {
				out[own][of] = cmp.Or(out[own][of], name)
			}
		})
	}
	return out
}

// names returns what a declaration at the top level declares.
func names(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// eachUse calls use for the names that a file uses: those behind a dot, in front of
// a colon, and of what it declares itself are left out.
func eachUse(f *ast.File, use func(name string)) {
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			local := locals(n)
			of := use
			use = func(name string) {
				if !local[name] {
					of(name)
				}
			}
			ast.Inspect(n.Type, visit)
			if n.Body != nil {
				ast.Inspect(n.Body, visit)
			}
			use = of
			return false
		case *ast.SelectorExpr:
			ast.Inspect(n.X, visit)
			return false
		case *ast.KeyValueExpr:
			if _, field := n.Key.(*ast.Ident); field {
				ast.Inspect(n.Value, visit)
				return false
			}
		case *ast.Field:
			ast.Inspect(n.Type, visit)
			return false
		case *ast.Ident:
			use(n.Name)
		}
		return true
	}
	for _, d := range f.Decls {
		ast.Inspect(d, visit)
	}
}

// locals are the names that a function declares, and its parameters.
func locals(f *ast.FuncDecl) map[string]bool {
	local := map[string]bool{}
	add := func(x ast.Expr) {
		if id, ok := x.(*ast.Ident); ok {
			local[id.Name] = true
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, x := range n.Lhs {
					add(x)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key)
				add(n.Value)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				add(name)
			}
		}
		return true
	})
	return local
}

// circle returns files that need each other in a circle, with what each needs of the
// next; nil if there are none.
func circle(needs map[string]map[string]string) []string {
	const (
		open = iota + 1
		done
	)
	state := map[string]int{}
	var way []string
	var visit func(file string) []string
	visit = func(file string) []string {
		state[file] = open
		way = append(way, file)
		for _, next := range slices.Sorted(maps.Keys(needs[file])) {
			switch state[next] {
			case open:
				var found []string
				way = append(way[slices.Index(way, next):], next)
				for i, f := range way[:len(way)-1] {
					found = append(found, f+" needs "+needs[f][way[i+1]]+" of "+way[i+1])
				}
				return found
			case 0:
				if found := visit(next); found != nil {
					return found
				}
			}
		}
		state[file] = done
		way = way[:len(way)-1]
		return nil
	}
	for _, file := range slices.Sorted(maps.Keys(needs)) {
		if state[file] == 0 {
			if found := visit(file); found != nil {
				return found
			}
		}
	}
	return nil
}
