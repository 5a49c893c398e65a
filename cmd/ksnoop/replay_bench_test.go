// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
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
	w, err := record.NewWriter(out, record.Source{Root: root, View: view, Arch: hostArch, Writer: "test", Cgroup: func(id uint64) string { return fmt.Sprintf("/system.slice/%d.service", id) }}, p)
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
