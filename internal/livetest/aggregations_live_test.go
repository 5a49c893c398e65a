// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/plan"
	summaries "github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/trace"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
	"github.com/ksnoop/ksnoop/layout"
)

// addedUp attaches SPECs, calls work and returns the tables, and how many programs the kernel did
// not run: on a kernel that preempts them, a program is not run where it is at work already.
func addedUp(t *testing.T, view *kernel.View, specs []string, method layout.Method, work func()) (tables []summaries.Filled, missed uint64, run *trace.Run) {
	t.Helper()
	run = addUp(t, view, specs, method, 0)
	work()
	losses, err := run.End()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []bpf.Counter{bpf.LostKey, bpf.LostRow, bpf.LostKeptStack, bpf.Fault} {
		if n := losses.Lost[c]; n != 0 {
			t.Errorf("cause %d: %d", c, n)
		}
	}
	b := summaries.NewBuilder(run.Tables())
	if _, err := run.TakeRows(b); err != nil {
		t.Fatal(err)
	}
	return b.Take(), losses.Lost[bpf.Missed], run
}

// addUp attaches SPECs with room for so many keys, and starts.
func addUp(t *testing.T, view *kernel.View, specs []string, method layout.Method, keys int) *trace.Run {
	t.Helper()
	guest.Require(t)
	request := trace.Request{Options: plan.Options{Arch: runtime.GOARCH}, Method: method}
	for _, text := range specs {
		spec, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		request.Specs = append(request.Specs, spec)
	}
	start := time.Now()
	resolved, err := trace.Resolve(view, request)
	if err != nil {
		t.Fatal(err)
	}
	if resolved, err = resolved.Choose(view, request); err != nil {
		t.Fatal(err)
	}
	run, err := trace.Attach(t.Context(), view, resolved.Plan, trace.Settings{RingSize: 1 << 20, Keys: keys, Log: slog.Default()})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { run.Close() })
	if err := run.Start(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	t.Logf("attached in %v", time.Since(start).Round(time.Millisecond))
	return run
}

// rowsByKey returns a table's rows by the first word of their keys.
func rowsByKey(f summaries.Filled) map[uint64][]uint64 {
	out := map[uint64][]uint64{}
	for _, r := range f.Rows {
		key := uint64(0)
		if len(r.Key) > 0 {
			key = binary.LittleEndian.Uint64(r.Key)
		}
		out[key] = r.Words
	}
	return out
}

// TestLiveAggregations adds up the reads of a program that knows them, of 47 bytes each, by each
// function, keyless and by key.
func TestLiveAggregations(t *testing.T) {
	const threads, each = 2, 1000
	for i, method := range []layout.Method{layout.MethodAuto, layout.MethodKprobe, layout.MethodKprobeMulti} {
		if method != layout.MethodAuto && !livetest.Mine(t, i) {
			continue
		}
		t.Run(method.String(), func(t *testing.T) {
			if method == layout.MethodKprobeMulti && !offered(t, "multi") {
				t.Skip("this kernel has no FPROBE, so no kprobe.multi")
			}
			items := []string{"count()", "sum(count)", "min(count)", "max(count)", "avg(count)", "stats(count)", "hist(count)", "hist(count, 8)",
				"lhist(count, 0, 100, 10)", "quantiles(count)", "top(3, count)"}
			specs := []string{
				"vfs_read(count == 47, " + strings.Join(items, ", ") + ")",
				"vfs_read(count == 47, " + strings.Join(items, "[$tid], ") + "[$tid])",
				"vfs_read(count == 47, return == 47, hist($duration), count()[return, $comm], sum(return)[$stack])",
				"vfs_read(count == 47, count()[$func], sum(count)[file->f_flags, $uid])",
			}
			tables, missed, run := addedUp(t, theKernel(), specs, method, func() {
				workload(t, "threads", "-threads", fmt.Sprint(threads), "-count", fmt.Sprint(each), "-size", "47")
			})
			t.Logf("%d missed", missed)
			seen := func(label string, got, made uint64) {
				t.Helper()
				if got > made || got+missed < made {
					t.Errorf("%s: %d calls of %d, %d missed", label, got, made, missed)
				}
			}
			for i, label := range items {
				for _, at := range []int{i, len(items) + i} {
					f := tables[at]
					rows, calls, keyed := rowsByKey(f), uint64(threads*each), 1
					if at >= len(items) {
						calls, keyed = each, threads
					}
					if len(rows) != keyed {
						t.Errorf("%s: rows %v", label, slices.Collect(maps.Keys(rows)))
					}
					counts := rowsByKey(tables[at-i]) // count() of this SPEC
					for key, row := range rows {
						if i == 0 {
							seen(label, row[0], calls)
						}
						calls := counts[key][0] // the other items see the same ones
						want := make([]uint64, f.Agg.Words())
						for range calls {
							f.Agg.Accumulate(want, 47)
						}
						if !slices.Equal(row, want) {
							t.Errorf("%s of %d: %v, want %v", label, key, nonzero(row), nonzero(want))
						}
					}
				}
			}
			for _, f := range tables[2*len(items):] {
				var total uint64
				for _, r := range f.Rows {
					if f.Agg.Fn == expr.AggSum {
						total += summaries.Sum(r.Words)
					} else {
						for _, w := range r.Words {
							total += w
						}
					}
					t.Logf("%s: %x %x %v", f.Agg.Label, r.Key, r.Faults, nonzero(r.Words))
					if strings.Contains(f.Agg.Label, "return)") {
						s, ok := run.Stack(binary.LittleEndian.Uint64(r.Key), false)
						t.Logf("%v %x", ok, s.Addresses)
						if !ok || len(s.Addresses) < 3 {
							t.Error("no stack")
						}
					}
				}
				if strings.HasPrefix(f.Agg.Label, "sum(") {
					if total%47 != 0 {
						t.Errorf("%s: %d", f.Agg.Label, total)
					}
					total /= 47
				}
				seen(f.Agg.Label, total, threads*each)
			}
		})
	}
}

// nonzero returns words with their places, but for zeroes.
func nonzero(words []uint64) map[int]uint64 {
	out := map[int]uint64{}
	for i, w := range words {
		if w != 0 {
			out[i] = w
		}
	}
	return out
}

// TestLiveAddedExact: no call is lost while tables are taken again and again, by 4 threads that make
// millions of them (make soak); what keys have no room for is counted.
func TestLiveAddedExact(t *testing.T) {
	const threads = 4
	each := 10_000
	if os.Getenv("KSNOOP_SOAK") != "" {
		each = 2_500_000
	}
	for _, c := range []struct {
		name, spec string
		every      time.Duration
		keys       int
		rows       int // without a limit on keys
	}{
		{"at the end", "vfs_read(count == 47, count()[$tid])", 0, 0, threads},
		{"every 100 ms", "vfs_read(count == 47, count()[$tid])", 100 * time.Millisecond, 0, threads},
		{"without a key", "read_zero(hist($duration))", 20 * time.Millisecond, 0, 1}, // nobody else reads /dev/zero
		{"too many keys", "vfs_read(count == 47, count()[$time])", 0, 1000, 0},
		{"alike but for their last bytes", "vfs_read(count == 47, count()[$time << 48])", 0, 2048, 0}, // arm64 has ticks of 16 ns, so 4,096 keys
	} {
		t.Run(c.name, func(t *testing.T) {
			each := each
			if c.keys > 0 {
				each = min(each, 25_000)
			}
			run := addUp(t, theKernel(), []string{c.spec}, layout.MethodAuto, c.keys)
			b := summaries.NewBuilder(run.Tables())
			done, taken := make(chan struct{}), make(chan int)
			go func() {
				n := 0
				defer func() { taken <- n }()
				for c.every > 0 {
					select {
					case <-done:
						return
					case <-time.After(c.every):
					}
					if _, err := run.TakeRows(b); err != nil {
						t.Error(err)
					}
					n++
				}
				<-done
			}()
			workload(t, "threads", "-threads", fmt.Sprint(threads), "-count", fmt.Sprint(each), "-size", "47")
			close(done)
			n := <-taken
			losses, err := run.End()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.TakeRows(b); err != nil {
				t.Fatal(err)
			}
			var counted uint64
			rows := b.Take()[0].Rows
			for _, r := range rows {
				for _, w := range r.Words {
					counted += w
				}
			}
			made, missed, noRoom := uint64(threads*each), losses.Lost[bpf.Missed], losses.Lost[bpf.LostKey]
			t.Logf("%d made, %d counted in %d rows taken %d times, %d without room, %d missed", made, counted, len(rows), n+1, noRoom, missed)
			if counted+noRoom > made || counted+noRoom+missed < made {
				t.Error("calls are lost, or counted twice")
			}
			if c.keys == 0 && (noRoom != 0 || len(rows) != c.rows) || c.keys != 0 && (noRoom == 0 || len(rows) < c.keys) {
				t.Error("another number of rows than there are keys")
			}
		})
	}
}
