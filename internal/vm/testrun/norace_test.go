// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestUnitRuns: each package is tested with the race detector. Each of the tests that run without it
// exists and runs once, and each of those that are named with it exists and runs with it.
func TestUnitRuns(t *testing.T) {
	raced := append(slices.Collect(maps.Keys(withoutRace)), modulePath+"/internal/kernel")
	slices.Sort(raced)
	packages := append([]string{modulePath + "/codegen", modulePath + "/layout"}, raced...)
	var got, alone []string
	matched := map[string]int{}
	for _, r := range unitRuns(packages) {
		if pattern := regexp.MustCompile(r.flags[len(r.flags)-1]); r.flags[0] == "-race" {
			got = append(got, r.packages...)
			if !pattern.MatchString("TestLiveVoid") {
				t.Errorf("%q runs live tests", r)
			}
			if slices.Contains(r.packages, modulePath+"/internal/kernel") && pattern.MatchString("TestDamaged") {
				t.Errorf("%q leaves out the test of another package", r)
			}
			if pattern.MatchString("TestDamagedToo") {
				t.Errorf("%q leaves out by the beginning of a name", r)
			}
		} else {
			if r.flags[0] == "-skip" {
				alone = append(alone, r.packages...)
				if !pattern.MatchString("TestLiveVoid") {
					t.Errorf("%q runs live tests", r)
				}
			}
			for p, tests := range withoutRace {
				for name := range tests {
					if slices.Contains(r.packages, p) && pattern.MatchString(name) {
						matched[p+"."+name]++
					}
				}
			}
		}
	}
	if slices.Sort(got); !slices.Equal(got, raced) || !slices.Equal(alone, packages[:2]) {
		t.Errorf("with the detector: %q; without it: %q", got, alone)
	}
	for p, tests := range withoutRace {
		files, err := filepath.Glob(filepath.Join("../../..", strings.TrimPrefix(p, modulePath), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, b...)
		}
		exists := func(name string) bool { return strings.Contains(string(text), "\nfunc "+name+"(") }
		for name, others := range tests {
			if !exists(name) || matched[p+"."+name] != 1 {
				t.Errorf("%s has no test %s, or it runs %d times", p, name, matched[p+"."+name])
			}
			for _, other := range others {
				if !exists(other) || matched[p+"."+other] != 0 {
					t.Errorf("%s has no test %s, or it runs without the race detector", p, other)
				}
			}
		}
	}
	runs := unitRuns([]string{modulePath + "/internal/kernel", longest})
	if len(runs) != 1 || runs[0].packages[0] != longest {
		t.Errorf("runs of two packages: %q", runs)
	}
}

// TestSequential: the packages whose tests run without the race detector start no goroutine, and nothing in
// them is guarded against one.
func TestSequential(t *testing.T) {
	starters := []string{"Parallel", "AfterFunc", "WithTimeout", "WithDeadline", "CommandContext", "Go"}
	guards := []string{`"sync"`, `"sync/atomic"`, `"golang.org/x/sync/errgroup"`}
	for _, p := range sequential {
		files, err := filepath.Glob(filepath.Join("../../..", strings.TrimPrefix(p, modulePath), "*.go"))
		if err != nil || len(files) < 2 {
			t.Errorf("%s: %d files, %v", p, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_live_test.go") {
				continue // it runs in a guest
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				if slices.Contains(guards, i.Path.Value) {
					t.Errorf("%s imports %s", name, i.Path.Value)
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType:
					t.Errorf("%s has goroutines", name)
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(starters, f.Sel.Name) {
						t.Errorf("%s has goroutines: %s", name, f.Sel.Name)
					}
				}
				return true
			})
		}
	}
}
