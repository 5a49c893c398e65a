// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/ksnoop/ksnoop/"

// layers is the order of the packages: each may import those named, and what
// those may import. A package that is missing here may import none of ours.
var layers = map[string][]string{
	"btfprint":                   {"internal/errno", "internal/longdouble", "internal/qualifier", "internal/symname"},
	"expr":                       {"internal/errno", "internal/glob", "internal/qualifier", "internal/suggest", "internal/uapi"},
	"layout":                     {"expr", "internal/longdouble"},
	"codegen":                    {"layout", "bpf", "internal/ptregs", "internal/qualifier"},
	"internal/code":              {"internal/ptregs"},
	"internal/plan":              {"layout", "internal/code", "internal/kernel", "internal/debuginfo", "internal/ptregs", "internal/userfunc"},
	"internal/userfunc":          {"internal/code", "internal/dw", "internal/elfhead", "internal/glob", "internal/longdouble", "internal/regular"},
	"internal/event":             {"internal/plan", "bpf"},
	"internal/decide":            {"internal/event", "internal/symbols", "internal/terminal"},
	"internal/calls":             {"internal/event"},
	"internal/summary":           {"internal/event", "btfprint"},
	"internal/session":           {"internal/event"},
	"internal/record":            {"internal/process", "internal/container", "internal/destination", "internal/plan", "internal/event", "internal/terminal"},
	"internal/symname":           {"internal/terminal"},
	"internal/container":         {"internal/glob"},
	"internal/container/kubelet": {"internal/container"},
	"internal/kernel":            {"internal/elfhead", "internal/glob", "internal/plural", "internal/progs", "internal/suggest"},
	"internal/debuginfo":         {"internal/debuginfo/find", "internal/dw", "internal/glob"},
	"internal/debuginfo/find":    {"internal/elfhead", "internal/regular"},
	"internal/regular":           {"internal/timeout"},
	"internal/symbols":           {"internal/kernel", "internal/debuginfo", "internal/symname"},
	"internal/process":           {"bpf", "internal/plural", "internal/symname", "internal/debuginfo", "internal/mappings", "internal/unwind"},
	"internal/unwind":            {"internal/dw", "internal/elfhead"},
	"internal/gospan":            {"internal/dw", "internal/elfhead"},
	"internal/threadctx":         {"internal/elfhead"},
	"internal/attach":            {"bpf", "codegen", "internal/plan", "internal/summary"},
	"internal/output":            {"internal/unwind", "internal/container", "internal/calls", "internal/decide", "internal/session", "internal/summary", "btfprint", "internal/symbols"},
	"internal/trace":             {"internal/container", "internal/attach", "internal/event", "internal/gospan", "internal/launch", "internal/process", "internal/threadctx", "internal/timeout"},
	"internal/jsonlines":         {"internal/output"},
	"internal/seccomp":           {"internal/errno"},
	"internal/why":               {"internal/trace", "internal/output", "internal/record", "internal/seccomp"},
	"internal/completion":        {"internal/plan", "btfprint", "internal/terminal"},
	"internal/requery":           {"internal/container", "internal/calls", "internal/session", "internal/summary"},
	"internal/show":              {"internal/output", "internal/record"},
	"internal/samples":           {"internal/output"},
	"internal/folded":            {"internal/samples"},
	"internal/overview":          {"internal/samples"},
	"internal/pprof":             {"internal/samples"},
	"internal/prometheus":        {"internal/output"},
	"internal/typed":             {"internal/output"},
	"internal/perfetto":          {"internal/samples", "internal/typed", "internal/protomsg"},
	"internal/otlp":              {"internal/samples", "internal/typed", "internal/protomsg"},
	"internal/otlp/export":       {"internal/otlp"},
	"internal/report":            {"internal/jsonlines"},
	"internal/view":              {"internal/samples"},
	"internal/diff":              {"internal/jsonlines"},
	"internal/formattest":        {"internal/output", "internal/record"},
	"internal/agent":             {"internal/prometheus"},
	"internal/agentconfig":       {"expr", "internal/suggest", "internal/terminal"},
	"cmd/ksnoop":                 {"internal/agent", "internal/agentconfig", "internal/container/kubelet", "internal/trace", "internal/why", "internal/show", "internal/diff", "internal/folded", "internal/jsonlines", "internal/otlp/export", "internal/overview", "internal/perfetto", "internal/pprof", "internal/prometheus", "internal/report", "internal/requery", "internal/view", "internal/completion", "internal/completion/shell"},
	"tracer":                     {"internal/trace", "internal/output"},
	"examples/trace":             {"tracer"},
	"examples/predicate":         {"codegen"},
	"examples/mapvalues":         {"btfprint"},
	// Tools of the tests.
	"internal/exprfuzz":     {"internal/attach"},
	"internal/vm":           {"internal/vm/wire", "internal/vm/guest"},
	"internal/vm/init":      {"internal/vm"},
	"internal/vm/guestrun":  {"internal/vm"},
	"internal/vm/testrun":   {"internal/vm", "internal/livetest"},
	"internal/vm/sweep":     {"internal/vm", "tracer"},
	"internal/pages/render": {"internal/vm", "internal/pages"},
}

// participle is the parser generator, which is expr's business alone.
const participle = "github.com/alecthomas/participle/v2"

func TestImportOrder(t *testing.T) {
	root := os.DirFS("../..")
	seen := map[string]bool{}
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && file != "." {
			return errorOrSkip(err)
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "testdata/") {
			return nil
		}
		pkg := path.Dir(file)
		seen[pkg] = true
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", file), nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if strings.HasPrefix(imported, participle) && pkg != "expr" {
				t.Errorf("%s imports participle", file)
			}
			if ours, ok := strings.CutPrefix(imported, module); ok && !allowed(pkg, ours) {
				t.Errorf("%s imports %s, which is not below it", file, ours)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{"expr", "codegen", "bpf", "btfprint", "cmd/ksnoop", "internal/plan", "internal/record"} {
		if !seen[pkg] {
			t.Errorf("no Go files found in %s: is the walk right?", pkg)
		}
	}
}

func errorOrSkip(err error) error {
	if err != nil {
		return err
	}
	return fs.SkipDir
}

// allowed reports whether from may import to, directly or by way of a layer.
func allowed(from, to string) bool {
	return slices.ContainsFunc(layers[from], func(below string) bool { return below == to || allowed(below, to) })
}

// TestDescribed holds every package to a package comment.
func TestDescribed(t *testing.T) {
	packages := map[string]bool{}
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "testdata/") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		dir := filepath.Dir(file)
		packages[dir] = packages[dir] || f.Doc != nil
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, described := range packages {
		if !described {
			t.Errorf("%s has no package comment", dir)
		}
	}
}
