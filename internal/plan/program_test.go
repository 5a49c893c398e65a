// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// programView is a kernel of which a BPF program is recorded that describes its structs in part.
func programView(t *testing.T) (*kernel.View, kernel.Function) {
	t.Helper()
	u32, word := &btf.Int{Name: "unsigned int", Size: 4}, &btf.Int{Name: "unsigned long", Size: 8}
	strct := func(name string, size uint32, members ...btf.Member) *btf.Struct {
		return &btf.Struct{Name: name, Size: size, Members: members}
	}
	kernels := []btf.Type{
		strct("xdp_buff", 16, btf.Member{Name: "data", Type: word}, btf.Member{Name: "data_end", Type: word, Offset: 64}),
		strct("sk_buff", 16, btf.Member{Name: "next", Type: word}, btf.Member{Name: "len", Type: u32, Offset: 64}),
		strct("key", 8, btf.Member{Name: "usage", Type: u32}, btf.Member{Name: "serial", Type: u32, Offset: 32}),
	}
	param := func(name string, to btf.Type) btf.FuncParam {
		return btf.FuncParam{Name: name, Type: &btf.Pointer{Target: to}}
	}
	skb := strct("sk_buff___mine", 4, btf.Member{Name: "len", Type: u32})
	own := strct("own", 16)
	own.Members = []btf.Member{{Name: "next", Type: &btf.Pointer{Target: own}}, {Name: "skb", Type: &btf.Pointer{Target: &btf.Const{Type: skb}}, Offset: 64}}
	fn := &btf.Func{Name: "worker", Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: u32, Params: []btf.FuncParam{
		param("ctx", strct("xdp_md", 8, btf.Member{Name: "data", Type: u32}, btf.Member{Name: "data_end", Type: u32, Offset: 32})),
		param("skb", skb),
		param("key", strct("key", 4, btf.Member{Name: "port", Type: u32})),
		param("own", own),
	}}}
	const module = "bpf:7:main"
	view := kernel.Open(fstest.MapFS{
		"sys/kernel/btf/vmlinux":   {Data: rawBTF(t, kernels...)},
		"sys/kernel/btf/" + module: {Data: rawBTF(t, fn)},
	})
	types, err := view.ModuleBTF(module)
	if err != nil {
		t.Fatal(err)
	}
	if err := types.TypeByName("worker", &fn); err != nil {
		t.Fatal(err)
	}
	return view, kernel.Function{Name: "worker", Module: module, Addr: 0xffffffffc0001000, Type: fn}
}

// TestProgramTypes: a program's context and the kernel's structs, of which it knows a part, are as the kernel
// has them; its own are its own, whatever they are called.
func TestProgramTypes(t *testing.T) {
	view, f := programView(t)
	for text, want := range map[string]uint32{"ctx->data_end": 8, "skb->len": 8, "key->port": 0, "own->skb->len": 8, "own->next->next->skb->len": 8} {
		spec, err := expr.Parse("bpf:worker(" + text + ")")
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewProbe(view, spec, f, Options{Arch: "amd64", Method: func(*Probe) layout.Method { return layout.MethodKprobe }})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		load, ok := p.Items[0].Captures[0].Value.(*expr.Load)
		if !ok || load.Off != int64(want) {
			t.Errorf("%s is %T, want a load at %d: %+v", text, p.Items[0].Captures[0].Value, want, load)
		}
		if p.Method != layout.MethodFentry || p.Name != "bpf:worker[main]" || !p.InProgram {
			t.Errorf("%s: %s by %s", text, p.Name, p.Method)
		}
	}
	for _, text := range []string{"bpf:worker(key->serial)", "bpf:worker(ctx->ingress_ifindex)", "bpf:worker(path())"} {
		spec, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewProbe(view, spec, f, Options{Arch: "amd64"}); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

// TestCutProgram: of a static function from which the compiler has taken something, names are refused with the
// reason, and registers are what is left.
func TestCutProgram(t *testing.T) {
	view, f := programView(t)
	for _, c := range []struct {
		cut        kernel.Cut
		items, err string
	}{
		{kernel.Cut{}, "key->port, return", ""},
		{kernel.Cut{Params: true, Passed: 3}, "key->port", "the compiler passes 3 of its 4 parameters, and nothing tells which"},
		{kernel.Cut{Params: true, Passed: 3}, "$arg4", "$arg4"},
		{kernel.Cut{Params: true, Passed: 3}, "$arg3, ((struct sk_buff *)$arg1)->len, return", ""},
		{kernel.Cut{Params: true}, "ctx", "has no parameter"},
		{kernel.Cut{Params: true, Passed: -4}, "$arg1", "$arg1"}, // of a damaged recording
		{kernel.Cut{Params: true, Passed: 1 << 30}, "$arg6", ""},
		{kernel.Cut{Result: true}, "key->port", ""},
		{kernel.Cut{Result: true}, "return", "what bpf:worker[main] returns is read by no caller"},
	} {
		spec, err := expr.Parse("bpf:worker(" + c.items + ")")
		if err != nil {
			t.Fatal(err)
		}
		f.Cut = c.cut
		p, err := NewProbe(view, spec, f, Options{Arch: "amd64"})
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v, %s: %v, want %q", c.cut, c.items, err, c.err)
		}
		if err == nil && p.Method != layout.MethodFentry {
			t.Errorf("%+v, %s: by %s", c.cut, c.items, p.Method)
		}
	}
	f.Cut = kernel.Cut{Params: true, Passed: 2, Result: true}
	spec, err := expr.Parse("bpf:worker")
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProbe(view, spec, f, Options{Arch: "amd64"})
	if err != nil || len(p.Items) != 2 || p.Items[1].Captures[0].Label != "$arg2" {
		t.Errorf("%v, %+v", err, p)
	}
	if in := newFunction(view, f, Hook{}, "amd64"); len(in.Params) != 2 || in.Result != nil {
		t.Errorf("in a session: %+v", in)
	}
}

// TestSelectingPrograms: selectors of programs select no functions of the kernel, and the other way round.
func TestSelectingPrograms(t *testing.T) {
	_, f := programView(t)
	other := kernel.Function{Name: "worker"}
	for text, want := range map[string][2]bool{
		"bpf:worker": {true, false}, "bpf:w*": {true, false}, "bpf:worker[main]": {true, false}, "bpf:*[7]": {true, false},
		"bpf:worker[8]": {false, false}, "bpf:other": {false, false}, "worker": {false, true}, "w*": {false, true},
	} {
		spec, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for i, of := range []kernel.Function{f, other} {
			p := &Probe{Func: of}
			if got := selects(spec.Selector, p); got != want[i] {
				t.Errorf("%s selects %s: %t", text, of, got)
			}
			denied, err := deniedBy(nil, spec.Selector, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := denied(of); got != want[i] {
				t.Errorf("-d %s denies %s: %t", text, of, got)
			}
		}
	}
}

// TestContexts reads in a kernel's struct bpf_ctx_convert what it passes for the types of linux/bpf.h.
func TestContexts(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		t.Skip("this kernel has no BTF:", err)
	}
	found, err := kernel.OpenRunning().TypesByName("struct bpf_ctx_convert", "")
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	named := func(t btf.Type) string {
		s, ok := btf.UnderlyingType(t).(*btf.Struct)
		if !ok {
			return ""
		}
		return s.Name
	}
	members := found[0].(*btf.Struct).Members
	got := map[string]string{}
	for _, m := range members {
		written, ok := strings.CutSuffix(m.Name, "_prog")
		if !ok || strings.HasSuffix(written, "FLOW_DISSECTOR") { // see kernel.Programs
			continue
		}
		i := slices.IndexFunc(members, func(other btf.Member) bool { return other.Name == written+"_kern" })
		if from, to := named(m.Type), named(members[i].Type); from != to && to != "" {
			got[from] = to
		}
	}
	if !maps.Equal(got, contexts) {
		t.Errorf("the kernel has %v, want %v", got, contexts)
	}
}
