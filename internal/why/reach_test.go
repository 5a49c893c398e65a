// SPDX-License-Identifier: Apache-2.0

package why

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// A fakeText is machine code of amd64: each function has room for 256 bytes.
type fakeText struct {
	names []string
	code  map[string][]byte
	types map[string]btf.Type // of results; those that are missing have no type
}

const fakeBase, fakeSize = 0xffffffff81000000, 256

func (f *fakeText) addr(name string) uint64 {
	i := slices.Index(f.names, name)
	if i < 0 {
		i = len(f.names)
		f.names = append(f.names, name)
	}
	return fakeBase + uint64(i)*fakeSize
}

// add adds a function that calls others: "=other" is a jump to it, "*" a call of what %rax points to,
// behind a nop.
func (f *fakeText) add(name string, result btf.Type, callees ...string) {
	at := f.addr(name)
	var text []byte
	for _, c := range callees {
		op := byte(0xe8)
		if rest, ok := strings.CutPrefix(c, "="); ok {
			c, op = rest, 0xe9
		}
		if c == "*" {
			text = append(text, 0x90, 0xff, 0xd0)
			continue
		}
		here := at + uint64(len(text)) + 5
		text = binary.LittleEndian.AppendUint32(append(text, op), uint32(f.addr(c)-here))
	}
	f.code[name] = append(text, 0xc3)
	if result != nil {
		f.types[name] = result
	}
}

func (f *fakeText) symbol(addr uint64) (kernel.Symbol, bool) {
	i := int((addr - fakeBase) / fakeSize)
	if addr < fakeBase || i >= len(f.names) {
		return kernel.Symbol{}, false
	}
	start := fakeBase + uint64(i)*fakeSize
	return kernel.Symbol{Name: f.names[i], Addr: start, Offset: addr - start, Size: fakeSize}, true
}

func (f *fakeText) graph() *callGraph {
	return &callGraph{arch: "amd64", symbol: f.symbol, read: func(s kernel.Symbol) ([]byte, error) { return f.code[s.Name], nil },
		describe: func(addrs []uint64) (out []kernel.Function, err error) {
			for _, a := range addrs {
				s, _ := f.symbol(a)
				if strings.HasPrefix(s.Name, "untraceable") {
					continue
				}
				fn := kernel.Function{Name: s.Name, Addr: a}
				if t := f.types[s.Name]; t != nil {
					fn.Type = &btf.Func{Name: s.Name, Type: &btf.FuncProto{Return: t}}
				}
				out = append(out, fn)
			}
			return out, nil
		}, thunks: map[uint64]string{f.addr("__x86_indirect_thunk_array"): "$r11"}, nodes: map[uint64]*node{}, kinds: map[uint64]kind{}}
}

func TestReach(t *testing.T) {
	integer, truth := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, &btf.Int{Name: "_Bool", Size: 1, Encoding: btf.Bool}
	f := &fakeText{code: map[string][]byte{}, types: map[string]btf.Type{}}
	f.add("entry", integer, "first", "nothing", "truth", "=tail", "_printk", "vsnprintf", "__request_module")
	f.add("first", integer, "second", "entry", "kmalloc_noprof")
	f.add("second", nil, "third", "*")
	f.add("third", integer)
	f.add("nothing", &btf.Void{}, "unreached")
	f.add("truth", truth, "capable", "untraceable_one")
	f.add("capable", integer)
	f.add("untraceable_one", nil, "behind")
	f.add("behind", integer, "__x86_indirect_thunk_array")
	f.add("tail", integer, "=tail.cold")
	f.add("tail.cold", nil, "error", "=tail")
	f.add("error", integer, "proc_match", "uuid_cmp", "cmp_error")
	f.add("proc_match", integer, "uuid_cmp")
	f.add("uuid_cmp", integer)
	f.add("cmp_error", integer)
	f.add("unreached", integer)
	f.add("_printk", integer, "unreached")
	f.add("vsnprintf", integer, "unreached")
	f.add("__request_module", integer, "unreached")
	f.add("kmalloc_noprof", &btf.Pointer{Target: &btf.Void{}}, "unreached")
	for _, tt := range []struct {
		roots            string
		most, depth      int
		siteDepth        int
		functions, sites string
	}{
		{"entry", 100, 100, 100, "entry first tail capable behind second kmalloc_noprof error third cmp_error", "kprobe:behind+0x0($r11) kprobe:second+0x5($ax)"},
		{"entry", 100, 1, 2, "entry first tail capable behind", ""},
		{"entry", 100, 100, 2, "entry first tail capable behind second kmalloc_noprof error third cmp_error", "kprobe:behind+0x0($r11)"},
		{"entry", 3, 100, 0, "entry first tail", ""},
		{"second capable", 100, 100, 1, "second capable third", "kprobe:second+0x5($ax)"},
		{"nothing", 100, 100, 1, "nothing unreached", ""},
	} {
		var roots []uint64
		for name := range strings.FieldsSeq(tt.roots) {
			roots = append(roots, f.addr(name))
		}
		r, err := f.graph().reach(roots, tt.most, tt.depth, tt.siteDepth)
		var functions, sites []string
		for _, x := range r.functions {
			functions = append(functions, x.Name)
		}
		for _, s := range r.sites {
			sites = append(sites, s.place()+"("+s.at+")")
		}
		if got, got2 := strings.Join(functions, " "), strings.Join(sites, " "); err != nil || got != tt.functions || got2 != tt.sites {
			t.Errorf("%+v: %s; %s; %v", tt, got, got2, err)
		}
	}
}

func TestInnermost(t *testing.T) {
	link := func(name string, result int64) Link {
		return Link{Function: kernel.Function{Name: name}, Result: uint64(result)}
	}
	for want, p := range map[string]Place{
		"check":  {Chain: []Link{link("entry", -13), link("check", -13), link("capable", -1)}},
		"narrow": {Chain: []Link{link("entry", -13), link("narrow", int64(uint32(0xfffffff3)))}}, // an int has no upper half
		"alone":  {Chain: []Link{link("alone", -12), link("alloc", 0)}},
	} {
		if got := p.Innermost().Function.Name; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestOrdinal(t *testing.T) {
	request := func(function string) Failure { return Failure{Number: requestNumber, Errno: 2, Function: function} }
	s := Seen{Calls: []Failure{{Number: 1, Errno: 2}, {Number: 1, Errno: 3}, {Number: 2, Errno: 2}, {Number: 1, Errno: 2},
		request("nf_tables_newrule"), request("nf_tables_newset"), request("nf_tables_newrule")}}
	for i, want := range []int{0, 0, 0, 1, 0, 0, 1} { // the sessions of a request are those of its function
		if got := s.ordinal(i); got != want {
			t.Errorf("call %d is number %d of its kind, want %d", i, got, want)
		}
	}
}
