// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/layout"
)

// BenchmarkReplayJSON runs the whole command over a recording: reading, decoding, printing as
// JSON and writing.
func BenchmarkReplayJSON(b *testing.B) {
	for _, c := range []struct {
		name, spec string
		events     int
	}{
		{"vfs_read", "vfs_read(count, file->f_flags, return)", 1_000_000},
		{"sk_buff", "ip_send_skb(*skb)", 50_000},
	} {
		b.Run(c.name, func(b *testing.B) {
			file := manyRecords(b, c.spec, c.events)
			out := filepath.Join(b.TempDir(), "json")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				var errs bytes.Buffer
				if status := run([]string{"replay", file, "--format", "json", "-o", out, "--force"}, io.Discard, &errs); status != 0 {
					b.Fatalf("status %d: %s", status, &errs)
				}
			}
			runtime.ReadMemStats(&after)
			info, err := os.Stat(out)
			if err != nil {
				b.Fatal(err)
			}
			events := float64(b.N) * float64(c.events)
			b.SetBytes(info.Size())
			b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/events, "allocs/event")
		})
	}
}

// BenchmarkReplayOTLP exports a recording to a local sink with one processor for all: reading,
// decoding, encoding, compressing and, what a sender does not do, receiving. "most-MB" is what the
// heap had at most.
func BenchmarkReplayOTLP(b *testing.B) {
	const events = 500_000
	var wire atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			b.Error(err)
		}
		wire.Add(n)
	}))
	defer sink.Close()
	file := manyRecords(b, "vfs_read(count, file->f_flags, return)", events)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	most, stop := watchHeap()
	for b.Loop() {
		var errs bytes.Buffer
		if status := run([]string{"replay", file, "--otlp", sink.URL}, io.Discard, &errs); status != 0 || !strings.Contains(errs.String(), fmt.Sprintf("sent %d log records in ", events/2)) {
			b.Fatalf("status %d: %s", status, &errs)
		}
	}
	stop()
	calls := float64(b.N) * events / 2
	b.ReportMetric(calls/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(wire.Load())/calls, "wire-B/call")
	b.ReportMetric(float64(most.Load())/1e6, "most-MB")
}

// watchHeap notes what the heap has at most until stop is called.
func watchHeap() (most *atomic.Uint64, stop func()) {
	most = &atomic.Uint64{}
	done := make(chan struct{})
	go func() {
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapAlloc))
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return most, func() { close(done) }
}

// manyRecords records entries and, if the SPEC asks for them, returns, by the types of this
// kernel.
func manyRecords(b testing.TB, text string, n int) (file string) {
	b.Helper()
	root := os.DirFS("/")
	view := kernel.Open(root)
	if _, err := view.BTF(); err != nil {
		b.Skip("this kernel has no types: ", err)
	}
	spec, err := expr.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	p, _, err := plan.Resolve(view, []*expr.Spec{spec}, plan.Options{Arch: hostArch, Owner: layout.OwnerUID | layout.OwnerCgroup})
	if err != nil {
		b.Skip("this kernel has no such function: ", err)
	}
	file = filepath.Join(b.TempDir(), "recording")
	out, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	w, err := record.NewWriter(out, record.Source{Root: root, View: view, Arch: hostArch, Writer: "test", Cgroup: func(id uint64) container.Group {
		return container.Group{Path: fmt.Sprintf("/system.slice/%d.service", id)}
	}}, p)
	if err != nil {
		b.Fatal(err)
	}
	halves, kinds := []*layout.Half{p.Probes[0].Entry, p.Probes[0].Return}, []bpf.Kind{bpf.KindEntry, bpf.KindReturn}
	if halves[1] == nil {
		halves = halves[:1]
	}
	r := rand.New(rand.NewPCG(1, 2))
	var raw []byte
	for i := range n {
		e := bpf.Event{Time: uint64(i) * 1000, PID: 7, TID: 7, Kind: kinds[i%len(halves)]}
		copy(e.Comm[:], "workload")
		raw = bpf.AppendOwner(bpf.AppendEvent(raw[:0], &e), bpf.Owner{UID: 1000, Cgroup: uint64(1 + i%50)})
		for range halves[i%len(halves)].Record.Size - layout.OwnerSize {
			if c := r.Uint32(); c&3 == 0 {
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
	return file
}
