// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// BenchmarkCold opens the debug info and looks addresses up, as a process that
// has just been started does.
func BenchmarkCold(b *testing.B) {
	for _, n := range []int{1, 200, 10000} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("addresses=%d/workers=%d", n, workers), func(b *testing.B) {
				file := debugVmlinux(b, "6.12")
				addrs := randomText(b, file, n)
				b.ReportAllocs()
				start := livetest.CPUTime(b)
				for b.Loop() {
					info, err := Open(file, Options{})
					if err != nil {
						b.Fatal(err)
					}
					for i, frames := range info.lookupAll(addrs, workers) {
						if len(frames) > 0 {
							info.Outermost(addrs[i], frames[len(frames)-1].Func)
						}
					}
					if err := info.Close(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric((livetest.CPUTime(b)-start).Seconds()*1e3/float64(b.N), "cpu-ms")
				b.ReportMetric(anonymous(b), "MB-anonymous")
			})
		}
	}
}

// BenchmarkStream looks up addresses one by one, at random all over the kernel.
func BenchmarkStream(b *testing.B) {
	file := debugVmlinux(b, "6.12")
	addrs := randomText(b, file, 10000)
	info, err := Open(file, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer info.Close()
	var frames []Frame
	i := 0
	for b.Loop() {
		frames = info.Lookup(frames[:0], addrs[i%len(addrs)])
		i++
	}
}

// BenchmarkFunctions finds the functions of a folder, as a selector does.
func BenchmarkFunctions(b *testing.B) {
	file := debugVmlinux(b, "6.12")
	start := livetest.CPUTime(b)
	defer func() { b.ReportMetric((livetest.CPUTime(b)-start).Seconds()*1e3/float64(b.N), "cpu-ms") }()
	for b.Loop() {
		info, err := Open(file, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if len(info.Sources("kernel/bpf/*.c").spans) == 0 {
			b.Fatal("no functions")
		}
		if err := info.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProcess compares "ksnoop sym" with llvm-symbolizer, whole processes
// in the same run: times vary from machine to machine, their ratio does not.
func BenchmarkProcess(b *testing.B) {
	file := debugVmlinux(b, "6.12")
	ksnoop := filepath.Join(b.TempDir(), "ksnoop")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", ksnoop, "../../cmd/ksnoop")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	llvm := symbolizer(b)
	for _, n := range []int{1, 200, 10000} {
		b.Run(fmt.Sprintf("addresses=%d", n), func(b *testing.B) {
			var input bytes.Buffer
			for _, addr := range randomText(b, file, n) {
				fmt.Fprintf(&input, "0x%x\n", addr)
			}
			var ours, theirs cost
			for b.Loop() {
				ours.add(b, input.Bytes(), ksnoop, "sym", "-e", file)
				theirs.add(b, input.Bytes(), llvm, "--obj="+file, "--inlines", "--functions=short")
			}
			b.ReportMetric(ours.wall.Seconds()*1e3/float64(b.N), "ms")
			b.ReportMetric(ours.cpu.Seconds()*1e3/float64(b.N), "cpu-ms")
			b.ReportMetric(100*ours.cpu.Seconds()/theirs.cpu.Seconds(), "%-of-llvm-cpu")
			b.ReportMetric(theirs.wall.Seconds()/ours.wall.Seconds(), "times-as-fast")
			b.ReportMetric(0, "ns/op") // of both together, which means nothing
		})
	}
}

// A cost is what runs of a process took.
type cost struct{ wall, cpu time.Duration }

func (c *cost) add(b *testing.B, input []byte, name string, args ...string) {
	b.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdin = bytes.NewReader(input)
	start := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s: %v", cmd, err)
	}
	c.wall += time.Since(start)
	c.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// anonymous returns the memory of this process that no file stands behind.
func anonymous(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	var kilobytes float64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		b.Fatalf("RssAnon: %v", err)
	}
	return kilobytes / 1024
}
