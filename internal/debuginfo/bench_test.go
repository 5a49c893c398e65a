// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"fmt"
	"testing"
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
				for b.Loop() {
					info, err := Open(file, Options{})
					if err != nil {
						b.Fatal(err)
					}
					info.lookupAll(addrs, workers)
					if err := info.Close(); err != nil {
						b.Fatal(err)
					}
				}
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
	for b.Loop() {
		info, err := Open(file, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if len(info.Functions("kernel/bpf/*.c")) == 0 {
			b.Fatal("no functions")
		}
		if err := info.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
