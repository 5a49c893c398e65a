// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// sessionView is a kernel of
//
//	int send(struct sock *sk, unsigned long count)
//	struct sock *find(int id)
//	void drop(struct sock *sk)
//
// with another name for send, two functions without types, and one that
// tracing calls itself.
func sessionView(t *testing.T) *kernel.View {
	t.Helper()
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	long := &btf.Int{Name: "long unsigned int", Size: 8}
	sock := &btf.Pointer{Target: &btf.Struct{Name: "sock", Size: 4, Members: []btf.Member{{Name: "len", Type: integer}}}}
	var types []btf.Type
	for name, proto := range map[string]*btf.FuncProto{
		"send": {Return: integer, Params: []btf.FuncParam{{Name: "sk", Type: sock}, {Name: "count", Type: long}}},
		"find": {Return: sock, Params: []btf.FuncParam{{Name: "id", Type: integer}}},
		"drop": {Return: &btf.Void{}, Params: []btf.FuncParam{{Name: "sk", Type: sock}}},
	} {
		types = append(types, &btf.Func{Name: name, Type: proto, Linkage: btf.StaticFunc})
	}
	return kernel.Open(fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: rawBTF(t, types...)}, "proc/kallsyms": {Data: []byte(
		`ffffffff81000100 T sent
ffffffff81000100 T send
ffffffff81000200 t find
ffffffff81000300 T drop
ffffffff81000400 T untyped
ffffffff81000500 T bpf_ringbuf_output
ffffffff81000600 T notrace_me
`)}, "sys/kernel/tracing/available_filter_functions": {Data: []byte("send\nfind\ndrop\nuntyped\nbpf_ringbuf_output\n")}})
}

func specs(t *testing.T, texts string) (out []*expr.Spec) {
	t.Helper()
	for _, text := range strings.Fields(texts) {
		out = append(out, parse(t, text))
	}
	return out
}

// describeSession lists functions as "name" or, if they open a session, ">name",
// with the items of their probes.
func describeSession(p *Plan) string {
	var out []string
	for i, f := range p.Probes {
		text := fmt.Sprintf("%s:%d", f.Func.Name, f.Class)
		if f.Role == layout.RoleEntry {
			text = ">" + text
		}
		if f.HasItems() {
			text += strings.TrimPrefix(f.Spec.Text, f.Spec.Selector.Name)
		}
		if f.ID != i {
			text += " misnumbered"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestResolveSession(t *testing.T) {
	for _, test := range []struct {
		entry, allow, specs, deny string
		want, skipped, fault      string
	}{
		{entry: "send", want: ">send:1"},
		{entry: "send", allow: "find drop", want: ">send:1 find:3 drop:0"},
		{entry: "send", allow: "*", want: ">send:1 drop:0 find:3 untyped:0", skipped: "bpf_ringbuf_output: used by the tracing"},
		{entry: "se*", want: ">send:1"}, // sent is the same function
		{entry: "sent", allow: "send", want: ">send:1"},
		{entry: "send", allow: "*", deny: "f* un*", want: ">send:1 drop:0", skipped: "bpf_ringbuf_output: used by the tracing, find: denied by f*, untyped: denied by un*"},
		{entry: "send", allow: "find drop", deny: "uprobe:app:* usdt:app:*:* tp:*:* rawtp:* syscall:* kprobe:send+4", want: ">send:1 find:3 drop:0"}, // nothing of the kernel
		{entry: "send", allow: "bpf_ringbuf_output", want: ">send:1 bpf_ringbuf_output:0"},
		{entry: "send", specs: "find(id)", want: ">send:1 find:3(id)"},
		{entry: "send(count)", allow: "find(id,return==0)", want: ">send:1(count) find:3(id,return==0)"},
		{entry: "send", allow: "*", specs: "*(sk->len)", want: ">send:1(sk->len) drop:0(sk->len) find:3 untyped:0",
			skipped: "bpf_ringbuf_output: used by the tracing, find: no such values, untyped: no such values"},
		{entry: "send", specs: "*(sk->len) send(count)", want: ">send:1(count) drop:0(sk->len) find:3 untyped:0",
			skipped: "bpf_ringbuf_output: used by the tracing, find: no such values, untyped: no such values"},
		{entry: "send(count)", specs: "*(sk->len)", want: ">send:1(count) drop:0(sk->len) find:3 untyped:0",
			skipped: "bpf_ringbuf_output: used by the tracing, find: no such values, untyped: no such values"},
		{entry: "send", specs: "find() drop", want: ">send:1 find:3 drop:0"},
		{entry: "send(count)", specs: "send(sk)", fault: "send has values of another SPEC already: send(count); put all of them into one SPEC"},
		{entry: "send", deny: "se*", fault: "send cannot be traced: denied by se*"},
		{entry: "bpf_ring*", fault: "nothing that bpf_ring* selects can be traced: bpf_ringbuf_output: used by the tracing itself"},
		{entry: "send", allow: "snd", fault: `no function is called "snd"; did you mean "send" or`},
		{entry: "send", allow: "notrace*", fault: `"notrace_me" is there, but the kernel lets nobody trace it`},
		{entry: "sned", allow: "fnid", fault: "fnid\n"}, // both faults at once
		{entry: "send", specs: "find(nothing)", fault: `find(nothing)`},
	} {
		o := Options{Arch: "amd64"}
		for _, d := range specs(t, test.deny) {
			o.Deny = append(o.Deny, d.Selector)
		}
		s, skipped, err := ResolveSession(sessionView(t), SessionRequest{Entry: specs(t, test.entry), Allow: specs(t, test.allow), Specs: specs(t, test.specs)}, o)
		name := fmt.Sprintf("-e %s -a %s -d %s %s", test.entry, test.allow, test.deny, test.specs)
		if test.fault != "" {
			if err == nil || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%s: %v, want %q", name, err, test.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(test.want, describeSession(s)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		var reasons []string
		for _, k := range skipped {
			why, _, _ := strings.Cut(k.Why.Error(), "\n")
			why = map[string]string{errUsedByTracing.Error(): "used by the tracing", errNoItems.Error(): "no such values"}[why]
			if why == "" {
				why = k.Why.Error()
			}
			reasons = append(reasons, k.Func.Name+": "+why)
		}
		if d := cmp.Diff(test.skipped, strings.Join(reasons, ", ")); d != "" {
			t.Errorf("%s, left out: %s", name, d)
		}
	}
}

// A function without types returns an int if that is asked for. Nothing changes for one with types,
// also if it returns nothing.
func TestResolveIntResults(t *testing.T) {
	p, _, err := ResolveSession(sessionView(t), SessionRequest{Entry: specs(t, "send"), Allow: specs(t, "untyped drop find"), IntResults: true}, Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	if got := describeSession(p); got != ">send:1 untyped:1 drop:0 find:3" {
		t.Error(got)
	}
}

// What is recorded in sessions may be there on some kernels only: it is an error
// if nothing of it is, and else a warning. What makes no sense is an error.
func TestUnmatchedAllow(t *testing.T) {
	for _, test := range []struct{ allow, warning, fault string }{
		{"find drop", "", ""},
		{"find nosuch*", "nothing is recorded for one SPEC\n  nosuch*\n  ^~~~~~~\n  column 1: no function matches \"nosuch*\"", ""},
		{"nosuch_at_all find", "nothing is recorded for one SPEC\n  nosuch_at_all\n", ""},
		{"notrace* find", `"notrace_me" is there, but`, ""},
		{"nosuch* nothing*", "", "column 1: no function matches \"nosuch*\"\n  nothing*"},
		{"find nosuch(", "", "unexpected end"},
		{"find drop(nothing)", "", `no parameter "nothing"`},
	} {
		var warnings []string
		var allow []*expr.Spec
		var err error
		for _, text := range strings.Fields(test.allow) {
			spec, bad := expr.Parse(text)
			if allow, err = append(allow, spec), bad; err != nil {
				break
			}
		}
		if err == nil {
			o := Options{Arch: "amd64", Warn: func(err error) { warnings = append(warnings, err.Error()) }}
			_, _, err = ResolveSession(sessionView(t), SessionRequest{Entry: specs(t, "send"), Allow: allow}, o)
		}
		if test.fault == "" && err != nil || test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)) {
			t.Errorf("-a %s: %v, want %q", test.allow, err, test.fault)
		}
		if got := strings.Join(warnings, "\n"); (got == "") != (test.warning == "") || !strings.Contains(got, test.warning) {
			t.Errorf("-a %s: warned of %q, want %q", test.allow, got, test.warning)
		}
	}
	// A preset's functions, which may be absent, are no proof that -a matches.
	r := SessionRequest{Entry: specs(t, "send"), Allow: specs(t, "nosuch* find")}
	r.Optional = r.Allow[1:]
	if _, _, err := ResolveSession(sessionView(t), r, Options{Arch: "amd64"}); err == nil {
		t.Error("-a that matches nothing beside a preset: no error")
	}
}

// TestIdleDeny: what -d names in vain is said, and a fault if all of it is no function of the kernel; a preset may do so.
func TestIdleDeny(t *testing.T) {
	const unmatched, fault = "nothing is left out by one SELECTOR\n  -d %s: it matches no function that is selected", "nothing to leave out: no function matches "
	for deny, want := range map[string]string{
		"find": "", "f* fi*": "", "find drpo": fmt.Sprintf(unmatched, "drpo"), "drop": fmt.Sprintf(unmatched, "drop"), "drop drpo": "-d drpo: ", "*[nosuch]": fmt.Sprintf(unmatched, "*[nosuch]"),
		"drop a b c": fmt.Sprintf(unmatched, "c"), "drop a b c d": "2 more SELECTORs leave nothing out\n  -d: they match no function that is selected",
		"nosuch*": fault + "\"nosuch*\"", "drpo": fault + "\"drpo\"; did you mean \"drop\"?", "drpo nosuch*": fault,
	} {
		for what, resolve := range map[string]func(o Options) error{
			"sessions": func(o Options) error {
				r := SessionRequest{Entry: specs(t, "send"), Allow: specs(t, "*nd"), Deny: []expr.Selector{specs(t, "preset*")[0].Selector}}
				_, _, err := ResolveSession(sessionView(t), r, o)
				return err
			},
			"calls": func(o Options) error {
				_, _, err := Resolve(sessionView(t), specs(t, "send *nd()"), o)
				return err
			},
		} {
			var got []string
			o := Options{Arch: "amd64", Warn: func(err error) { got = append(got, err.Error()) }}
			for _, d := range specs(t, deny) {
				o.Deny = append(o.Deny, d.Selector)
			}
			if err := resolve(o); err != nil {
				got = append(got, err.Error())
				if !strings.HasPrefix(want, fault) {
					t.Errorf("%s, -d %s: %v", what, deny, err)
				}
			}
			if said := strings.Join(got, "\n"); (want == "") != (said == "") || !strings.Contains(said, want) {
				t.Errorf("%s, -d %s: said %q, want %q", what, deny, said, want)
			}
		}
	}
}

// System calls return long, also where BTF does not say so: other functions
// without types may return anything.
func TestResultWithoutType(t *testing.T) {
	for name, want := range map[string]layout.ErrorClass{
		"__x64_sys_bpf": layout.FailsInt64, "__ia32_compat_sys_ioctl": layout.FailsInt64, "__arm64_sys_bpf": layout.FailsInt64, "__do_sys_getppid": layout.FailsInt64,
		"__sys_bpf": layout.NeverFails, "x64_sys_call": layout.NeverFails, "__foo_sys_bar": layout.NeverFails, "untyped": layout.NeverFails,
	} {
		if got := newFunction(nil, kernel.Function{Name: name}, Hook{}, "amd64").Class; got != want {
			t.Errorf("%s: class %d, want %d", name, got, want)
		}
	}
}
