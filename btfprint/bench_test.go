// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// kernelStruct compiles a struct of the kernel, with its bytes.
func kernelStruct(tb testing.TB, name string) (*Printer, btf.TypeID, []byte) {
	tb.Helper()
	spec, err := btf.LoadSpec(kernelBTF(tb)[0])
	if err != nil {
		tb.Fatal(err)
	}
	var s *btf.Struct
	if err := spec.TypeByName(name, &s); err != nil {
		tb.Fatal(err)
	}
	id, err := spec.TypeID(s)
	if err != nil {
		tb.Fatal(err)
	}
	p := mustCompile(tb, s)
	return p, id, testBytes(id, p.Size(), false)
}

// TestNoAllocations prints into a buffer that is large enough.
func TestNoAllocations(t *testing.T) {
	p, _, raw := kernelStruct(t, "task_struct")
	buf := make([]byte, 0, 1<<20)
	changed := append([]byte(nil), raw...)
	for i := range changed {
		changed[i] ^= byte(i)
	}
	name := func(dst []byte, _ uint64) []byte { return append(dst, "name"...) }
	memory := func(_ uint64, size int) []byte { return raw[:min(size, len(raw))] }
	for _, tt := range []struct {
		name string
		run  func()
	}{
		{"default", func() { buf = p.AppendValue(buf[:0], raw, nil) }},
		{"everything", func() {
			buf = p.AppendValue(buf[:0], raw, &ValueOptions{ShowZeroes: true, Mode: Verbose, Likely: true, Readings: true, PointerName: name})
		}},
		{"short", func() { buf = p.AppendValue(buf[:0], raw[:1000], &ValueOptions{Mode: Compact}) }},
		{"memory", func() { buf = p.AppendValue(buf[:0], raw, &ValueOptions{Memory: memory, Mode: Compact}) }},
		{"JSON", func() {
			buf = p.AppendJSON(buf[:0], raw, &ValueOptions{ShowZeroes: true, PointerName: name, Readings: true})
		}},
		{"diff", func() { buf = p.AppendDiff(buf[:0], raw, changed, nil) }},
	} {
		if n := testing.AllocsPerRun(5, tt.run); n != 0 {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
		if len(buf) == 0 || cap(buf) != 1<<20 {
			t.Errorf("%s: %d bytes in a buffer of %d", tt.name, len(buf), cap(buf))
		}
	}
}

var benchTypes = []string{"sk_buff", "task_struct"}

func BenchmarkAppendValue(b *testing.B) {
	for _, name := range benchTypes {
		b.Run(name, func(b *testing.B) {
			p, _, raw := kernelStruct(b, name)
			buf := make([]byte, 0, 1<<20)
			b.ReportAllocs()
			for b.Loop() {
				buf = p.AppendValue(buf[:0], raw, &ValueOptions{Plain: true})
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	for _, name := range benchTypes {
		b.Run(name, func(b *testing.B) {
			p, _, raw := kernelStruct(b, name)
			buf := make([]byte, 0, 1<<20)
			b.ReportAllocs()
			for b.Loop() {
				buf = p.AppendJSON(buf[:0], raw, nil)
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}

// BenchmarkAgainstLibbpf prints the same bytes with both, turn by turn, and
// reports how many times faster Printer is, by the bytes that each wrote.
func BenchmarkAgainstLibbpf(b *testing.B) {
	for _, name := range benchTypes {
		b.Run(name, func(b *testing.B) {
			p, id, raw := kernelStruct(b, name)
			const rounds = 200
			o := startOracle(b, kernelBTF(b)[0], "bench", strconv.Itoa(rounds))
			buf := make([]byte, 0, 1<<20)
			var ours, theirs float64
			for b.Loop() {
				ns, size := o.bench(b, id)
				theirs += ns / float64(size)
				start := b.Elapsed()
				for range rounds {
					buf = p.AppendValue(buf[:0], raw, &ValueOptions{Plain: true})
				}
				ours += float64((b.Elapsed() - start).Nanoseconds()) / rounds / float64(len(buf))
			}
			b.ReportMetric(theirs/float64(b.N), "libbpf-ns/byte")
			b.ReportMetric(ours/float64(b.N), "ns/byte")
			b.ReportMetric(theirs/ours, "times-libbpf")
		})
	}
}

// bench has libbpf print one value many times. It returns the time for one and
// the length of its text.
func (o *oracle) bench(tb testing.TB, id btf.TypeID) (ns float64, size int) {
	tb.Helper()
	w := bufio.NewWriter(o.in)
	fmt.Fprintf(w, "%d full -\n", id)
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	line, err := o.out.ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := fmt.Sscan(strings.TrimSpace(line), &ns, &size); err != nil {
		tb.Fatalf("oracle says %q: %v", line, err)
	}
	return ns, size
}
