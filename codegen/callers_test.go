// SPDX-License-Identifier: Apache-2.0

package codegen_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// callers reads, from the contracts of the engine's functions, what is said to call each.
func callers(t *testing.T) map[string]string {
	t.Helper()
	byGo, names := map[string]string{}, map[string]string{}
	for _, name := range []string{"../bpf/functions.go", "../bpf/sessionfunctions.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				_, said, _ := strings.Cut(spec.Doc.Text(), "\nCallers: ")
				said, _, _ = strings.Cut(said, ".")
				byGo[spec.Names[0].Name] = strings.Join(strings.Fields(said), " ")
				names[spec.Names[0].Name], _ = strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			}
			return true
		})
	}
	out := map[string]string{}
	for name, said := range byGo {
		if m := regexp.MustCompile(`\bas of (Func\w+)$`).FindStringSubmatch(said); m != nil {
			said = byGo[m[1]] + "; " + said
		}
		out[names[name]] = said
	}
	return out
}

// contradicts reports whether what is said of the callers of a function leaves out the programs of one
// end of a probe's calls.
func contradicts(said string, p *plan.Probe, o codegen.Options, atReturn bool) bool {
	entry, ret := strings.Contains(said, "entry program"), strings.Contains(said, "return program")
	items := strings.Contains(said, "with values or predicates")
	switch {
	case strings.HasPrefix(said, "Func"), // of the engine
		entry && !ret && atReturn, ret && !entry && !atReturn,
		strings.Contains(said, "injected") && !p.Role.Injected(),
		regexp.MustCompile(`\bof (a call|calls)\b`).MatchString(said) && p.Role != layout.RoleCall,
		(items || strings.Contains(said, "without values")) && (p.Role != layout.RoleEntry && p.Role != layout.RoleInside),
		items && !p.HasItems(), strings.Contains(said, "without values") && p.HasItems(),
		strings.Contains(said, "of entry functions") && p.Role != layout.RoleEntry,
		strings.HasPrefix(said, "shared") && !o.Shared, strings.Contains(said, "not shared") && o.Shared,
		strings.Contains(said, "by fentry") && p.Method != layout.MethodFentry,
		strings.Contains(said, "of kprobes,") && p.Method != layout.MethodKprobe,
		strings.Contains(said, "but kprobe") && p.Method == layout.MethodKprobe:
		return true
	}
	return false
}

// TestCallers compares the contracts with the programs that are generated for all listings, with stacks
// and with the guard, too.
func TestCallers(t *testing.T) {
	view, said, seen := listedKernel(t), callers(t), map[string]bool{}
	all := append(listings, listings[0])
	all[len(all)-1].spec = "-A nothing(it->pos == 1)"
	for _, l := range all {
		p, err := listedProbe(view, l.spec, l.method, l.target.Arch)
		if err != nil {
			t.Fatalf("%s: %v", l.spec, err)
		}
		for variant := range 4 {
			o := l.target
			o.Stacks = o.Stacks || variant&1 != 0
			if variant&2 != 0 {
				o.Guard = bpf.NewGuard(1 << 14)
			}
			programs, err := codegen.Compile(&p.Probe, o)
			if err != nil {
				t.Fatalf("%s: %v", l.spec, err)
			}
			for i, half := range [][]bpf.Subprogram{programs.Entry, programs.Return} {
				for _, f := range half {
					for _, ins := range f.Insns {
						name := ins.Reference()
						if !ins.IsFunctionCall() || !strings.HasPrefix(name, "ks_") {
							continue
						}
						seen[name] = true
						if contract, ok := said[name]; !ok || contradicts(contract, p, o, i == 1) {
							t.Errorf("%s by %v calls %s at return: %v; its contract says: %s", l.spec, p.Method, name, i == 1, contract)
						}
					}
				}
			}
		}
	}
	for name, contract := range said {
		if !seen[name] && !strings.HasPrefix(contract, "Func") {
			t.Errorf("no listing calls %s", name)
		}
	}
}
