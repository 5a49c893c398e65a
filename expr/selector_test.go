// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseTargets(t *testing.T) {
	skb := TypeName{Name: "struct sk_buff", Stars: 1}
	for _, tt := range []struct {
		text string
		want Selector
	}{
		{"vfs_read", Selector{Name: "vfs_read"}},
		{"tcp_*[mod?]", Selector{Name: "tcp_*", Module: "mod?"}},
		{":net/*.c", Selector{Path: "net/*.c"}},
		{"syscall:openat", Selector{Kind: Syscall, Name: "openat"}},
		{"syscall:*at", Selector{Kind: Syscall, Name: "*at"}},
		{"tp:sched:sched_switch", Selector{Kind: Tracepoint, System: "sched", Name: "sched_switch"}},
		{"tp:sched_switch", Selector{Kind: Tracepoint, System: "*", Name: "sched_switch"}},
		{"rawtp:task_newtask", Selector{Kind: RawTracepoint, Name: "task_newtask"}},
		{"kprobe:vfs_read", Selector{Kind: Instruction, Name: "vfs_read"}},
		{"kprobe:vfs_read+0x1a", Selector{Kind: Instruction, Name: "vfs_read", Offset: 0x1a}},
		{"kprobe:f[mod]", Selector{Kind: Instruction, Name: "f", Module: "mod"}},
		{"usdt:/usr/bin/x:app:request-start", Selector{Kind: StaticProbe, File: "/usr/bin/x", System: "app", Name: "request-start"}},
		{"usdt:/a:b:*:*", Selector{Kind: StaticProbe, File: "/a:b", System: "*", Name: "*"}},
		{"uprobe:/usr/bin/x:main", Selector{Kind: UserFunction, File: "/usr/bin/x", Name: "main"}},
		{"uprobe:libc.so.6:mem*+0x1a", Selector{Kind: UserFunction, File: "libc.so.6", Name: "mem*", Offset: 0x1a}},
		{"uprobe:/a:b/c:f@GLIBC_2.34", Selector{Kind: UserFunction, File: "/a:b/c", Name: "f@GLIBC_2.34"}},
		{"uretprobe:libc.so.6:mem*", Selector{Kind: UserFunction, File: "libc.so.6", Name: "mem*", Return: true}},
		{"*(:struct sk_buff *)", Selector{Name: "*", Signature: []Wanted{{false, skb}}}},
		{"* ( :const struct sk_buff*,return int )", Selector{Name: "*", Signature: []Wanted{{false, skb}, {true, TypeName{Name: "int"}}}}},
		{":net/*.c(:return size_t)", Selector{Path: "net/*.c", Signature: []Wanted{{true, TypeName{Name: "size_t"}}}}},
	} {
		for _, items := range []string{"", "()", "($cpu == 1)"} {
			spec, err := Parse(tt.text + items)
			if err != nil {
				t.Errorf("%s%s:\n%v", tt.text, items, err)
				continue
			}
			ignore := cmpopts.IgnoreTypes(Span{})
			if diff := cmp.Diff(tt.want, spec.Selector, ignore); diff != "" || spec.Parens != (items != "") {
				t.Errorf("%s%s (-want +got):\n%s", tt.text, items, diff)
			}
			again, err := Parse(spec.String())
			if err != nil {
				t.Errorf("%s: printed as %s:\n%v", tt.text, spec, err)
			} else if diff := cmp.Diff(spec.Selector, again.Selector, ignore); diff != "" {
				t.Errorf("%s: printed as %s (-before +after):\n%s", tt.text, spec, diff)
			}
		}
	}
}

// TestAny: the parameter of a type is the same as that parameter by its name.
func TestAny(t *testing.T) {
	for typ, name := range map[string]string{
		"struct sock *": "sk", "const struct sock*": "sk", "char *": "buf", "size_t": "count", "int": "flags", "u8": "cpu", "struct tuple": "t",
	} {
		for _, form := range []string{"%", "+(% == %)", "sizeof(%)"} {
			if name == "t" && form != "%" {
				continue
			}
			want, err1 := check("send("+strings.ReplaceAll(form, "%", name)+")", typeLong)
			got, err2 := check("send("+strings.ReplaceAll(form, "%", "$any("+typ+")")+")", typeLong)
			if err := errors.Join(err1, err2); err != nil {
				t.Error(err)
				continue
			}
			terms := func(items []Item) string {
				text := ""
				for _, term := range []Term{items[0].Captures[0].Value, items[0].Captures[0].Target} {
					if term != nil {
						text += FormatTerm(term, func(i int) string { return testScope(nil).Params[i].Name }) + ";"
					}
				}
				return text
			}
			if diff := cmp.Diff(terms(want), terms(got)); diff != "" {
				t.Errorf("$any(%s) in %s (-want +got):\n%s", typ, form, diff)
			}
		}
	}
}

// TestDocumentedSpecs parses the examples of the sections about selectors and aggregations.
func TestDocumentedSpecs(t *testing.T) {
	doc, err := os.ReadFile("../docs/language.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, title := range []string{"## Targets other than functions\n", "## Functions by type\n", "## Aggregations\n"} {
		_, section, ok := strings.Cut(string(doc), title)
		if !ok {
			t.Fatalf("there is no section %q", title)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		for line := range strings.Lines(section) {
			example, ok := strings.CutPrefix(line, "    ")
			if !ok {
				continue
			}
			examples++
			example, _, _ = strings.Cut(strings.TrimSpace(example), "   ") // what it means stands beside it
			if _, err := Parse(strings.Trim(example, "'")); err != nil {
				t.Error(err)
			}
		}
	}
	if examples < 11 {
		t.Errorf("%d examples found", examples)
	}
	for name := range maps.Keys(functions) {
		if !strings.Contains(string(doc), "`"+name+"(") {
			t.Errorf("there is no function %s()", name)
		}
	}
	for name := range maps.Keys(aggregators) {
		if !strings.Contains(string(doc), "| `"+name+"(") && !strings.Contains(string(doc), " `"+name+"(x)` |") {
			t.Errorf("there is no aggregation %s()", name)
		}
	}
}
