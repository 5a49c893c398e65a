// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
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

func newFixture(t testing.TB, method plan.Method, specs ...string) *fixture {
	t.Helper()
	return fixtureOf(t, fakeKernel(t), method, specs...)
}

func fixtureOf(t testing.TB, root fstest.MapFS, method plan.Method, specs ...string) *fixture {
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
	if method != plan.MethodAuto {
		options.Method = func(*plan.Probe) plan.Method { return method }
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
	if err := out.Start(); err != nil {
		return err
	}
	for _, raw := range f.raw {
		if err := out.Append(raw); err != nil {
			return err
		}
	}
	return out.End(lostInTest)
}

var lostInTest = [bpf.Counters]uint64{bpf.LostRingbuf: 3, bpf.Fault: 1 << 63}

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
	calls := output.NewCalls()
	var out []byte
	var e event.Event
	for _, rec := range raw {
		if err := event.Decode(p, rec, &e); err != nil {
			t.Fatal(err)
		}
		var err error
		if out, err = calls.AppendEvent(out, &e); err != nil {
			t.Fatal(err)
		}
	}
	return string(out)
}

func TestRoundTrip(t *testing.T) {
	for _, test := range []struct {
		name   string
		method plan.Method
		specs  []string
	}{
		{"all values", plan.MethodAuto, []string{"ip_send_skb"}},
		{"predicate", plan.MethodAuto, []string{"ip_send_skb(skb->len == 84, skb)"}},
		{"joined", plan.MethodAuto, []string{"ip_send_skb(skb, return != 0)", "vfs_read(return < count)"}},
		{"stashed for kretprobe", plan.MethodKprobe, []string{"ip_send_skb(skb, return != 0)", "vfs_read(return < count)"}},
		{"no values", plan.MethodAuto, []string{"vfs_read()"}},
		{"glob", plan.MethodAuto, []string{"vfs_*", "ip_send_skb(skb->name, skb->pkt_type)"}},
		{"module", plan.MethodAuto, []string{"mod_probe(arg->x, *arg)"}},
		{"type of a module", plan.MethodAuto, []string{"vfs_read(((struct mod_state *)count)->x)"}},
		{"one SPEC twice", plan.MethodAuto, []string{"vfs_read", "vfs_read"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, test.method, test.specs...)
			f.records(100)
			data := f.bytes(t)
			r, raw, err := read(data)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(raw, f.raw, bytes.Equal) {
				t.Error("the records are not those that were written")
			}
			if got, want := text(t, r.Plan(), raw), text(t, f.plan, f.raw); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if r.Lost() != lostInTest {
				t.Errorf("lost %v", r.Lost())
			}
			if release, err := r.Kernel().Release(); release != "6.12.0-fake" || r.Info().Arch != "amd64" || r.Info().Writer != "test" {
				t.Errorf("release %q, %v, info %+v", release, err, r.Info())
			}
			for i, p := range r.Plan().Probes {
				q := f.plan.Probes[i]
				if p.ID != i || p.Func.String() != q.Func.String() || p.Method != q.Method || p.Spec.Text != q.Spec.Text {
					t.Errorf("probe %d: %d %s %s %s", i, p.ID, p.Func, p.Method, p.Spec.Text)
				}
			}
		})
	}
}

// The BTF of a module is recorded if it is of use.
func TestModules(t *testing.T) {
	for spec, want := range map[string]string{
		"vfs_read":  "",
		"mod_probe": "mod",
		"vfs_read(((struct mod_state *)count)->x)": "mod other",
	} {
		r, _, err := read(newFixture(t, plan.MethodAuto, spec).bytes(t))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Kernel().Modules(); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v, want %s", spec, got, err, want)
		}
	}
}

// Attaching can lay records out anew, after the files were written.
func TestMethodChanges(t *testing.T) {
	f := newFixture(t, plan.MethodAuto, "vfs_read(count, return < 0)")
	var b bytes.Buffer
	w, err := NewWriter(&b, f.source, f.plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.plan.Probes[0].SetMethod(plan.MethodKprobe); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Start(), w.End(lostInTest)); err != nil {
		t.Fatal(err)
	}
	r, _, err := read(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Plan().Probes[0]; p.Method != plan.MethodKprobe || !p.Stashed {
		t.Errorf("method %s, stashed %t", p.Method, p.Stashed)
	}
}

// However a recording is cut, all of its records that are whole are read, and
// it is said that there were more.
func TestCut(t *testing.T) {
	f := newFixture(t, plan.MethodAuto, "vfs_read")
	var b bytes.Buffer
	w, err := NewWriter(&b, f.source, f.plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	f.records(30)
	ends := []int{b.Len()} // of blocks, each of 10 records
	for i, raw := range f.raw {
		if err := w.Append(raw); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			w.flushLate()
			ends = append(ends, b.Len())
		}
	}
	if err := w.End(lostInTest); err != nil {
		t.Fatal(err)
	}
	for n := range b.Len() {
		_, raw, err := read(b.Bytes()[:n])
		switch {
		case n < len(magic):
			if err == nil || err.Error() != "not a recording of ksnoop" {
				t.Fatalf("%d bytes: %v", n, err)
			}
		case !errors.Is(err, errCut):
			t.Fatalf("%d of %d bytes: %v", n, b.Len(), err)
		}
		blocks := 0
		for blocks+1 < len(ends) && ends[blocks+1] <= n {
			blocks++
		}
		if !slices.EqualFunc(raw, f.raw[:10*blocks], bytes.Equal) {
			t.Fatalf("%d bytes: %d records, want %d", n, len(raw), 10*blocks)
		}
	}
}

// No changed byte goes unnoticed, and no wrong record comes out.
func TestDamaged(t *testing.T) {
	f := newFixture(t, plan.MethodAuto, "ip_send_skb(skb->len)")
	f.records(20)
	data := f.bytes(t)
	for i := range data {
		changed := slices.Clone(data)
		changed[i] ^= 1 << (i % 8)
		_, raw, err := read(changed)
		if err == nil {
			t.Fatalf("byte %d of %d can be anything", i, len(data))
		}
		if len(raw) > 0 && !slices.EqualFunc(raw, f.raw, bytes.Equal) {
			t.Fatalf("byte %d: wrong records", i)
		}
	}
}

// A record is in the file a second after it was appended.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, plan.MethodAuto, "vfs_read")
		f.records(3)
		var b bytes.Buffer
		w, err := NewWriter(&b, f.source, f.plan)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		count := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			_, raw, err := read(b.Bytes())
			if !errors.Is(err, errCut) {
				t.Fatal(err)
			}
			return len(raw)
		}
		for i, want := range []int{0, 0, 2} { // at 0 s, 0.6 s, 1.2 s
			if i < 2 {
				if err := w.Append(f.raw[i]); err != nil {
					t.Fatal(err)
				}
			}
			if got := count(); got != want {
				t.Errorf("%d records after %d × 0.6 s, want %d", got, i, want)
			}
			time.Sleep(600 * time.Millisecond)
		}
		time.Sleep(time.Hour)
		if err := w.Append(f.raw[2]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(flushAfter + time.Millisecond)
		if got := count(); got != 3 {
			t.Errorf("%d records, want 3", got)
		}
	})
}

// limitedWriter takes so many bytes and then fails.
type limitedWriter struct{ left int }

var errFull = errors.New("no space left")

func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestWriteErrors(t *testing.T) {
	f := newFixture(t, plan.MethodAuto, "vfs_read")
	f.records(20000) // several blocks
	size := len(f.bytes(t))
	for n := 0; n < size; n += 1 + size/50 {
		if err := f.record(&limitedWriter{n}); !errors.Is(err, errFull) || !strings.HasPrefix(err.Error(), "writing a recording: ") {
			t.Errorf("%d of %d bytes: %v", n, size, err)
		}
	}
	if err := f.record(&limitedWriter{size}); err != nil {
		t.Error(err)
	}
}

func TestReadErrors(t *testing.T) {
	f := newFixture(t, plan.MethodAuto, "vfs_read")
	_, err := NewWriter(io.Discard, Source{Root: brokenFS{}, View: f.source.View}, f.plan)
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("unreadable kernel: %v", err)
	}
	if _, err := NewReader(iotestErr{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("unreadable recording: %v", err)
	}
}

type brokenFS struct{}

func (brokenFS) Open(name string) (fs.File, error) {
	return nil, pathError("open", name, fs.ErrPermission)
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, fs.ErrPermission }
