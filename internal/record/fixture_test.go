// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// fakeKernel is a kernel of a few types and two modules. The module mod has
// the function mod_probe(struct mod_state *) and the only definition of
// struct mod_state; the module other adds nothing.
func fakeKernel(t testing.TB) fstest.MapFS {
	t.Helper()
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	skb := &btf.Struct{Name: "sk_buff", Size: 32, Members: []btf.Member{
		{Name: "len", Type: integer},
		{Name: "pkt_type", Type: integer, Offset: 32, BitfieldSize: 3},
		{Name: "name", Type: &btf.Array{Index: integer, Type: char, Nelems: 16}, Offset: 64},
	}}
	skb.Members = append(skb.Members, btf.Member{Name: "next", Type: &btf.Pointer{Target: skb}, Offset: 192})
	function := func(name string, params ...btf.FuncParam) *btf.Func {
		return &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: integer, Params: params}}
	}
	b, err := btf.NewBuilder([]btf.Type{
		function("ip_send_skb", btf.FuncParam{Name: "skb", Type: &btf.Pointer{Target: skb}}),
		function("vfs_read", btf.FuncParam{Name: "count", Type: integer}),
		function("vfs_write", btf.FuncParam{Name: "count", Type: integer}),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	base, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{
		"proc/sys/kernel/osrelease": {Data: []byte("6.12.0-fake\n")},
		"sys/kernel/btf/vmlinux":    {Data: base},
		"sys/kernel/btf/mod":        {Data: moduleBTF(t, base, true)},
		"sys/kernel/btf/other":      {Data: moduleBTF(t, base, false)},
	}
}

// moduleBTF writes the BTF of a module, which refers to that of vmlinux.
func moduleBTF(t testing.TB, base []byte, full bool) []byte {
	t.Helper()
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(base))
	if err != nil {
		t.Fatal(err)
	}
	first, integer := uint32(0), uint32(0) // IDs of the first type of a module, and of int
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		if typ.TypeName() == "int" {
			integer = first
		}
		first++
	}
	le := binary.NativeEndian
	strs := []byte("x\x00mod_state\x00arg\x00mod_probe\x00")
	at := func(s string) uint32 {
		return le.Uint32(base[20:]) + uint32(bytes.Index(strs, []byte(s+"\x00")))
	}
	var types []byte
	if full {
		for _, w := range []uint32{
			at("mod_state"), 4<<24 | 1, 4, at("x"), integer, 0, // first: struct mod_state { int x; }
			0, 2 << 24, first, // first+1: a pointer to it
			0, 13<<24 | 1, integer, at("arg"), first + 1, // first+2: int (struct mod_state *arg)
			at("mod_probe"), 12 << 24, first + 2,
		} {
			types = le.AppendUint32(types, w)
		}
	}
	blob := append(le.AppendUint16(nil, 0xeb9f), 1, 0)
	for _, w := range []uint32{24, 0, uint32(len(types)), uint32(len(types)), uint32(len(strs))} {
		blob = le.AppendUint32(blob, w)
	}
	return append(append(blob, types...), strs...)
}

// A fixture is a plan of the fake kernel and records that could be its.
type fixture struct {
	source Source
	plan   *plan.Plan
	raw    [][]byte
}

func newFixture(t testing.TB, method layout.Method, specs ...string) *fixture {
	t.Helper()
	return fixtureOf(t, fakeKernel(t), method, specs...)
}

func fixtureOf(t testing.TB, root fstest.MapFS, method layout.Method, specs ...string) *fixture {
	t.Helper()
	f := &fixture{source: Source{Root: root, View: kernel.Open(root), Arch: "amd64", Writer: "test"}}
	var parsed []*expr.Spec
	for _, text := range specs {
		s, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, s)
	}
	options := plan.Options{Arch: "amd64"}
	if method != layout.MethodAuto {
		options.Method = func(*plan.Probe) layout.Method { return method }
	}
	var err error
	if f.plan, _, err = plan.Resolve(f.source.View, parsed, options); err != nil {
		t.Fatal(err)
	}
	return f
}

// records makes n records of random values.
func (f *fixture) records(n int) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		p := f.plan.Probes[r.IntN(len(f.plan.Probes))]
		e := bpf.Event{Time: uint64(i) * 1e6, Probe: uint32(p.ID), PID: 7, TID: 7, Kind: bpf.KindEntry}
		copy(e.Comm[:], "workload")
		half := p.Entry
		if half == nil || half.Record == nil || p.Return != nil && p.Return.Record != nil && i%2 == 1 {
			half, e.Kind = p.Return, bpf.KindReturn
			if p.Joined {
				e.Kind = bpf.KindCall
			}
		}
		raw := bpf.AppendEvent(nil, &e)
		for range half.Record.Size {
			raw = append(raw, byte(r.Uint32N(256)))
		}
		f.raw = append(f.raw, raw)
	}
}

// record writes the recording of all records, as much of it as w takes.
func (f *fixture) record(w io.Writer) error {
	out, err := NewWriter(w, f.source, f.plan)
	if err != nil {
		return err
	}
	for _, raw := range f.raw {
		if err := out.Append(raw); err != nil {
			return err
		}
	}
	return out.End(lostInTest)
}

var lostInTest = event.Losses{Lost: [bpf.Counters]uint64{bpf.LostRingbuf: 3, bpf.Fault: 1 << 63}, Cut: 17, Uncounted: true}

func (f *fixture) bytes(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.record(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// read reads a whole recording.
func read(data []byte) (r *Reader, raw [][]byte, err error) {
	if r, err = NewReader(bytes.NewReader(data)); err != nil {
		return nil, nil, err
	}
	for rec, err := range r.Records() {
		if err != nil {
			return r, raw, err
		}
		raw = append(raw, slices.Clone(rec))
	}
	return r, raw, nil
}

// text is what trace prints.
func text(t testing.TB, p *plan.Plan, raw [][]byte) string {
	t.Helper()
	printer := output.NewCalls(output.Names{})
	var out []byte
	var e event.Event
	for _, rec := range raw {
		if err := event.Decode(p, rec, &e); err != nil {
			t.Fatal(err)
		}
		var err error
		if out, err = printer.AppendCall(out, &calls.Call{Entry: &e, End: calls.Whole}); err != nil {
			t.Fatal(err)
		}
	}
	return string(out)
}
