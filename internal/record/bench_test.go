// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/jsonlines"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// benchRecords is how many records are recorded for a benchmark.
const benchRecords = 100000

// hostRecording records calls with the types of the kernel that runs here,
// which need not be one that can be traced. Of the values' bytes one in
// sixteen is not zero, as is common for the kernel's structures.
func hostRecording(b *testing.B, text string) []byte {
	b.Helper()
	root := os.DirFS("/")
	s := Source{Root: root, View: kernel.Open(root), Arch: "amd64", Writer: "test"}
	if _, err := s.View.BTF(); err != nil {
		b.Skipf("the kernel here has no types: %v", err)
	}
	spec, err := expr.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	p, _, err := plan.Resolve(s.View, []*expr.Spec{spec}, plan.Options{Arch: "amd64"})
	if err != nil {
		b.Skipf("the kernel here is of no use: %v", err)
	}
	var file bytes.Buffer
	w, err := NewWriter(&file, s, p)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var raw []byte
	for i := range benchRecords {
		e := bpf.Event{Time: uint64(i) * 1e6, PID: 7, TID: 7, Kind: bpf.KindEntry}
		copy(e.Comm[:], "workload")
		raw = bpf.AppendEvent(raw[:0], &e)
		for range p.Probes[0].Entry.Record.Size {
			if c := r.Uint32(); c&15 == 0 {
				raw = append(raw, byte(c>>8))
			} else {
				raw = append(raw, 0)
			}
		}
		if err := w.Append(raw); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.End(event.Losses{}); err != nil {
		b.Fatal(err)
	}
	return file.Bytes()
}

// replay passes every record of a recording to f, over and over.
func replay(b *testing.B, data []byte, f func(*event.Event)) {
	b.Helper()
	b.ReportAllocs()
	for n := b.N; n > 0; {
		b.StopTimer()
		r, err := NewReader(bytes.NewReader(data))
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		var e event.Event
		for raw, err := range r.Records() {
			if err != nil {
				b.Fatal(err)
			}
			if err := event.Decode(r.Plan(), raw, &e); err != nil {
				b.Fatal(err)
			}
			f(&e)
			if n--; n == 0 {
				break
			}
		}
	}
}

// jsonPrinter prints the events of replay as JSON. Each time that replay begins again it has
// another plan.
func jsonPrinter() func([]byte, *calls.Call) ([]byte, error) {
	var p *jsonlines.Printer
	var of *plan.Probe
	return func(dst []byte, c *calls.Call) ([]byte, error) {
		if c.Entry.Probe != of {
			of = c.Entry.Probe
			p = jsonlines.New(output.Run{Plan: &plan.Plan{Probes: []*plan.Probe{of}}, Kernel: kernel.Open(fstest.MapFS{}), Boot: time.Unix(1e9, 0)}, false)
		}
		return p.AppendCall(dst, c)
	}
}

// Each operation is one event.
func BenchmarkReplay(b *testing.B) {
	for _, bench := range []struct{ name, spec string }{
		{"two numbers", "vfs_read(count, pos)"},
		{"five numbers", "vfs_read(count, pos, file->f_flags, file->f_mode, file->f_inode->i_ino)"},
		{"struct", "ip_send_skb(skb)"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			data := hostRecording(b, bench.spec)
			b.Run("decode", func(b *testing.B) {
				replay(b, data, func(*event.Event) {})
			})
			printers := map[string]func(dst []byte, c *calls.Call) ([]byte, error){"print": output.NewCalls(output.Names{}).AppendCall, "compact": output.NewCompactCalls(output.Names{}, 160).AppendCall,
				"json": jsonPrinter()}
			for name, printer := range printers {
				b.Run(name, func(b *testing.B) {
					var buf []byte
					bytes, call := 0, calls.Call{End: calls.Whole}
					replay(b, data, func(e *event.Event) {
						var err error
						call.Entry = e
						if buf, err = printer(buf[:0], &call); err != nil {
							b.Fatal(err)
						}
						bytes += len(buf)
					})
					b.ReportMetric(float64(bytes)/float64(b.N), "bytes/op")
				})
			}
		})
	}
}

// Each operation is one record of 200 bytes.
func BenchmarkAppend(b *testing.B) {
	f := newFixture(b, layout.MethodAuto, "vfs_read")
	w, err := NewWriter(io.Discard, f.source, f.plan)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	raw := make([]byte, 200)
	for i := range raw {
		if c := r.Uint32(); c&15 == 0 {
			raw[i] = byte(c >> 8)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		raw[0]++
		if err := w.Append(raw); err != nil {
			b.Fatal(err)
		}
	}
}

// Reading and decoding a record allocates nothing.
func TestReadAllocates(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "ip_send_skb(skb)")
	f.records(1000)
	few := f.bytes(t)
	f.records(20000)
	many := f.bytes(t)
	count := func(data []byte) float64 {
		return testing.AllocsPerRun(5, func() {
			r, err := NewReader(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			var e event.Event
			for raw, err := range r.Records() {
				if err != nil {
					t.Fatal(err)
				}
				if err := event.Decode(r.Plan(), raw, &e); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	// Blocks cost something, and the last one may have been larger.
	if a, b := count(few), count(many); b > a+100 {
		t.Errorf("%v allocations for 1,000 records, %v for 21,000", a, b)
	}
}
