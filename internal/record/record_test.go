// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

func TestRoundTrip(t *testing.T) {
	for _, test := range []struct {
		name   string
		method layout.Method
		specs  []string
	}{
		{"all values", layout.MethodAuto, []string{"ip_send_skb"}},
		{"predicate", layout.MethodAuto, []string{"ip_send_skb(skb->len == 84, skb)"}},
		{"joined", layout.MethodAuto, []string{"ip_send_skb(skb, return != 0)", "vfs_read(return < count)"}},
		{"stashed for kretprobe", layout.MethodKprobe, []string{"ip_send_skb(skb, return != 0)", "vfs_read(return < count)"}},
		{"no values", layout.MethodAuto, []string{"vfs_read()"}},
		{"glob", layout.MethodAuto, []string{"vfs_*", "ip_send_skb(skb->name, skb->pkt_type)"}},
		{"module", layout.MethodAuto, []string{"mod_probe(arg->x, *arg)"}},
		{"type of a module", layout.MethodAuto, []string{"vfs_read(((struct mod_state *)count)->x)"}},
		{"one SPEC twice", layout.MethodAuto, []string{"vfs_read", "vfs_read"}},
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
			if r.Losses() != lostInTest {
				t.Errorf("lost %v", r.Losses())
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
		"vfs_read(((struct mod_state *)count)->x)": "mod",
	} {
		r, _, err := read(newFixture(t, layout.MethodAuto, spec).bytes(t))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Kernel().Modules(); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v, want %s", spec, got, err, want)
		}
	}
}

// Of the print formats those are recorded that say what a name stands for, so that it
// stands for the same in replay, and is ambiguous for the same reason.
func TestMacroFormats(t *testing.T) {
	root := fakeKernel(t)
	for event, format := range map[string]string{
		"kmem/kmalloc":  `__print_flags(REC->f, "|", {(1 << 6), "__GFP_IO"}, {0xc40, "GFP_NOFS"})`,
		"kmem/same":     `__print_flags(REC->f, "|", {(1 << 6), "__GFP_IO"}, {0xc40, "GFP_NOFS"})`,
		"other/unasked": `__print_symbolic(REC->f, {7, "X_A"})`,
	} {
		root["sys/kernel/tracing/events/"+event+"/format"] = &fstest.MapFile{Data: []byte("name: x\n\nprint fmt: \"%s\", " + format + "\n")}
	}
	for spec, want := range map[string]int{
		"vfs_read(count)":                                            0,
		"vfs_read(count == 3 || count == EINVAL)":                    0,
		"vfs_read(count & __GFP_IO, +(count - GFP_NOFS))":            1,
		"vfs_read(count & __GFP_IO, ((struct mod_state *)count)->x)": 1, // with what it takes of modules
	} {
		f := fixtureOf(t, root, layout.MethodAuto, spec)
		f.records(10)
		data := f.bytes(t)
		r, raw, err := read(data)
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		if got, want := text(t, r.Plan(), raw), text(t, f.plan, f.raw); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", spec, got, want)
		}
		if got := r.Kernel().TracepointNames(); len(got) != want {
			t.Errorf("%s: formats of %v, want %d", spec, got, want)
		}
	}
}

// The plan that is recorded is the one that was attached, whose records may be laid out
// in another way than was chosen first.
func TestMethodChanges(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "vfs_read(count, return < 0)")
	attached, err := f.plan.With(func(*plan.Probe) layout.Method { return layout.MethodKprobe })
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, f.source, attached)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.End(lostInTest)); err != nil {
		t.Fatal(err)
	}
	r, _, err := read(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Plan().Probes[0]; p.Method != layout.MethodKprobe || !p.Stashed {
		t.Errorf("method %s, stashed %t", p.Method, p.Stashed)
	}
}

// Attaching adds symbols. From NewWriter on addresses have the names that the
// recording gives them, whatever was read before or happens later.
func TestSymbolsOfRecording(t *testing.T) {
	const first, addr = "ffffffffc0001000 t ftrace_trampoline\t[__builtin__ftrace]\n", 0xffffffffc0002010
	set := func(f *fixture, text string) {
		f.source.Root.(fstest.MapFS)["proc/kallsyms"] = &fstest.MapFile{Data: []byte(text)}
	}
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	set(f, first)
	f.source.View.Symbol(addr)
	set(f, first+"ffffffffc0002000 t bpf_trampoline_1\t[bpf]\n")
	var b bytes.Buffer
	w, err := NewWriter(&b, f.source, f.plan)
	if err != nil {
		t.Fatal(err)
	}
	set(f, first+"ffffffffc0002008 t bpf_trampoline_2\t[bpf]\n")
	f.records(1)
	if err := w.Append(binary.LittleEndian.AppendUint64(f.raw[0], addr)); err != nil {
		t.Fatal(err)
	}
	f.source.View.Renew()
	if err := w.End(lostInTest); err != nil {
		t.Fatal(err)
	}
	r, _, err := read(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for what, view := range map[string]*kernel.View{"live": f.source.View, "recorded": r.Kernel()} {
		if s, _ := view.Symbol(addr); s.Name != "bpf_trampoline_1" {
			t.Errorf("%s: %#x is in %q", what, uint64(addr), s.Name)
		}
	}
}

// However a recording is cut, all of its records that are whole are read, and
// it is said that there were more.
func TestCut(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	var b bytes.Buffer
	w, err := NewWriter(&b, f.source, f.plan)
	if err != nil {
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
			if want := map[bool]string{true: "the file is empty", false: "not a recording of ksnoop"}[n == 0]; err == nil || err.Error() != want {
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
	f := newFixture(t, layout.MethodAuto, "ip_send_skb(skb->len)")
	f.records(20)
	data := f.bytes(t)
	for i := range data {
		changed := slices.Clone(data)
		changed[i] ^= 1 << (i % 8)
		_, raw, err := read(changed)
		if err == nil && i != len(magic) { // format 4 is read as format 5, of which it has less
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
		f := newFixture(t, layout.MethodAuto, "vfs_read")
		f.records(3)
		var b bytes.Buffer
		w, err := NewWriter(&b, f.source, f.plan)
		if err != nil {
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
	f := newFixture(t, layout.MethodAuto, "vfs_read")
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
	f := newFixture(t, layout.MethodAuto, "vfs_read")
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
