// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// testView is a kernel of one function:
//
//	int send(struct sock *sk, unsigned long count)
func testView(t *testing.T) *kernel.View {
	t.Helper()
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	long := &btf.Int{Name: "long unsigned int", Size: 8}
	sock := &btf.Struct{Name: "sock", Size: 16, Members: []btf.Member{
		{Name: "len", Type: integer}, {Name: "next", Type: &btf.Pointer{Target: &btf.Void{}}, Offset: 64}}}
	f := &btf.Func{Name: "send", Type: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{
		{Name: "sk", Type: &btf.Pointer{Target: sock}}, {Name: "count", Type: long}}}, Linkage: btf.StaticFunc}
	return viewOf(t, f)
}

// viewOf is a kernel that has these types, and those that they are made of.
func viewOf(t testing.TB, types ...btf.Type) *kernel.View {
	t.Helper()
	view, err := kernel.OpenBTF(bytes.NewReader(rawBTF(t, types...)), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// rawBTF is the BTF of these types.
func rawBTF(t testing.TB, types ...btf.Type) []byte {
	t.Helper()
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(raw)
}

func testProbe(t *testing.T, text string, m layout.Method) *Probe {
	t.Helper()
	view := testView(t)
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	found, err := view.Match("send", "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProbe(view, spec, found[0], Options{Arch: "amd64", Method: func(*Probe) layout.Method { return m }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// describe lists what is done at the two ends of a call.
func describe(p *Probe) string {
	name := func(i int) string { return p.Params[i].Name }
	half := func(h *layout.Half) string {
		if h == nil {
			return "-"
		}
		var parts []string
		for _, pred := range h.Predicates {
			parts = append(parts, "if "+expr.FormatTerm(pred.Term, name))
		}
		for _, s := range h.Stores {
			kept := ""
			if s.Part == layout.PartKept {
				kept = "keep "
			}
			parts = append(parts, fmt.Sprintf("%s%d=%s", kept, s.Index, expr.FormatTerm(s.Term, name)))
		}
		if h.Record != nil {
			parts = append(parts, "send")
		}
		return strings.Join(parts, "; ")
	}
	var shape []string
	for _, s := range []struct {
		is   bool
		name string
	}{{p.Joined, "joined"}, {p.Stashed, "stashed"}, {p.Timed, "timed"}} {
		if s.is {
			shape = append(shape, s.name)
		}
	}
	return strings.Join(shape, " ") + " | " + half(p.Entry) + " | " + half(p.Return)
}

// What is read when: at entry whatever can change or is lost by the time of
// the return, at return the rest. A kprobe's registers are lost, those of a
// fentry program are not.
func TestLayout(t *testing.T) {
	for _, tt := range []struct{ items, fentry, kprobe string }{
		{"()", " | send | -", " | send | -"},
		{"(count)", " | 0=count; send | -", " | 0=count; send | -"},
		{"(count > 1)", " | if (count > 1); 0=count; send | -", " | if (count > 1); 0=count; send | -"},
		{"(return)", " | - | 0=return; send", " | - | 0=return; send"},
		{"(count, return)", " | 0=count; send | 0=return; send", " | 0=count; send | 0=return; send"},
		{"(count > 1, return)", " | if (count > 1); 0=count; send | if (count > 1); 0=return; send",
			"stashed | if (count > 1); 0=count; send | 0=return; send"},
		// Two records, as docs/language.md says: no predicate is decided at return.
		{"(count == 47, *sk, return)", " | if (count == 47); 0=count; 1=struct sock at sk+0; send | if (count == 47); 0=return; send",
			"stashed | if (count == 47); 0=count; 1=struct sock at sk+0; send | 0=return; send"},
		{"(return < 0)", "joined | - | if (return < 0); 0=return; send", "joined | - | if (return < 0); 0=return; send"},
		{"(return < 0, count)", "joined | - | if (return < 0); 0=return; 1=count; send",
			"joined stashed | 1=count | if (return < 0); 0=return; send"},
		{"(return < 0, sk->len)", "joined stashed | 1=*(sk+0:4) | if (return < 0); 0=return; send",
			"joined stashed | 1=*(sk+0:4) | if (return < 0); 0=return; send"},
		{"(return < count)", "joined | - | if (return < count); 0=return; 1=count; send",
			"joined stashed | keep 0=count; 2=count | if (return < kept[0]); 1=return; send"},
		{"(return - sk->len)", "joined stashed | keep 0=*(sk+0:4) | 1=(return - kept[0]); send",
			"joined stashed | keep 0=*(sk+0:4) | 1=(return - kept[0]); send"},
		{"(return + count)", " | - | 0=(return + count); send", "joined stashed | keep 0=count | 1=(return + kept[0]); send"},
		{"(exit(sk->len))", " | - | 0=*(sk+0:4); send", "joined stashed | keep 0=sk | 1=*(kept[0]+0:4); send"},
		{"(diff(sk->len))", "joined stashed | 0=*(sk+0:4) | 1=*(sk+0:4); send", "joined stashed | 0=*(sk+0:4); keep 1=sk | 2=*(kept[1]+0:4); send"},
		// What a parameter points to is of the return, the parameter itself of the entry.
		{"(exit(sk))", " | - | 0=sk; 1=struct sock at sk+0; send", "joined stashed | keep 0=sk | 1=kept[0]; 2=struct sock at kept[0]+0; send"},
		{"(exit(sk)->len == 3)", "joined | - | if (*(sk+0:4) == 3); 0=*(sk+0:4); send",
			"joined stashed | keep 0=sk | if (*(kept[0]+0:4) == 3); 1=*(kept[0]+0:4); send"},
		{"(exit(count))", " | - | 0=count; send", "joined stashed | keep 0=count | 1=kept[0]; send"},
		{"(exit(entry(sk->next)))", "joined stashed | keep 0=*(sk+8:8) | 1=kept[0]; send", "joined stashed | keep 0=*(sk+8:8) | 1=kept[0]; send"},
		{"(diff(sk))", "joined stashed | 0=sk; 1=struct sock at sk+0 | 2=sk; 3=struct sock at sk+0; send",
			"joined stashed | 0=sk; 1=struct sock at sk+0; keep 2=sk | 3=kept[2]; 4=struct sock at kept[2]+0; send"},
		{"(exit($cpu))", " | - | 0=$cpu; send", " | - | 0=$cpu; send"},
		{"(diff($cpu))", "joined stashed | 0=$cpu | 1=$cpu; send", "joined stashed | 0=$cpu | 1=$cpu; send"},
		{`(exit($comm) == "x")`, `joined | - | if $comm == "x"; 0=$comm; send`, `joined | - | if $comm == "x"; 0=$comm; send`},
		{"($duration > 10ms)", "joined stashed timed |  | if ($duration > 10000000); 0=$duration; send",
			"joined stashed timed |  | if ($duration > 10000000); 0=$duration; send"},
		{"(sk->len > 1, count > 1)", " | if (count > 1); if (*(sk+0:4) > 1); 0=*(sk+0:4); 1=count; send | -",
			" | if (count > 1); if (*(sk+0:4) > 1); 0=*(sk+0:4); 1=count; send | -"},
	} {
		for method, want := range map[layout.Method]string{layout.MethodFentry: tt.fentry, layout.MethodKprobe: tt.kprobe} {
			if got := describe(testProbe(t, "send"+tt.items, method)); got != want {
				t.Errorf("send%s with %s:\n got %s\nwant %s", tt.items, method, got, want)
			}
		}
	}
}

// Slots follow one another without a gap or an overlap, in words.
func TestLayoutSlots(t *testing.T) {
	p := testProbe(t, "send(return < 0, *sk, count, sk->len, str(sk->next))", layout.MethodKprobe)
	end := uint32(0)
	for i, s := range p.Return.Record.Slots {
		if s.Index != i || s.Off != end || s.Off%8 != 0 {
			t.Errorf("slot %d: %+v", i, s)
		}
		end += (s.Size + 7) &^ 7
	}
	if p.Return.Record.Size != end || end == 0 {
		t.Errorf("record of %d bytes, slots of %d", p.Return.Record.Size, end)
	}
	stores := map[int]int{}
	for _, h := range []*layout.Half{p.Entry, p.Return} {
		for _, s := range h.Stores {
			stores[s.Index]++
		}
	}
	for i := range p.Return.Record.Slots {
		if stores[i] != 1 {
			t.Errorf("slot %d is stored %d times", i, stores[i])
		}
	}
}
