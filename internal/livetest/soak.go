// SPDX-License-Identifier: Apache-2.0

package livetest

import (
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A Soak gives something damaged files, and holds it to what it may take for one.
type Soak struct {
	Name        string
	Quick, Full int // how many files: always, and with KSNOOP_SOAK=1
	Seeds       [][]byte
	// Read reads a file. An error is as good an answer as any.
	Read func(file []byte) error
	// Memory is what reading a file may allocate in all, in bytes.
	Memory uint64
}

// mostTime is what reading one file may take of a CPU.
const mostTime = 2 * time.Second

// Run damages files, always the same ones in the same way, and logs what became of them.
func (s *Soak) Run(t *testing.T) {
	n := s.Quick
	if os.Getenv("KSNOOP_SOAK") != "" {
		n = s.Full
	}
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	var slowest time.Duration
	var largest uint64
	for i := range n {
		file := Damaged(r, s.Seeds[i%len(s.Seeds)], s.Seeds[r.IntN(len(s.Seeds))])
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begun := cpuTime(t)
		err := s.Read(file)
		took := cpuTime(t) - begun
		runtime.ReadMemStats(&after)
		used := after.TotalAlloc - before.TotalAlloc
		if err != nil {
			refused++
		}
		slowest, largest = max(slowest, took), max(largest, used)
		if took > mostTime || used > s.Memory {
			t.Errorf("%s %d: %v, %d bytes of memory for %d: %v", s.Name, i, took, used, len(file), err)
		}
		if t.Failed() {
			t.Fatalf("%s %d is %q", s.Name, i, file[:min(len(file), 2000)])
		}
	}
	if read := n - refused; n >= 20 && read < n/20 {
		t.Errorf("%d of %d files are refused: little is tested", refused, n)
	}
	t.Logf("soak: %s: %d tried, %d refused, %d read, slowest %v, most memory %d KiB", s.Name, n, refused, n-refused, slowest.Round(time.Millisecond), largest>>10)
}

// cpuTime is what the process has taken, however busy the machine is.
func cpuTime(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// odd are bytes that sizes, offsets, kinds and texts are often wrong by.
var odd = []string{"\x00", "\xff", "\x7f", "\x80", "\xff\xff\xff\xff", "\x00\x00\x00\x80", "\xff\xff\xff\xff\xff\xff\xff\xff", "\x01\x00\x00\x00", "\x1b[2J", "\u009b", "\u202e", "\n", "\""}

// Damaged returns a copy of a file with one to three changes; other is what a part of
// it may come from.
func Damaged(r *rand.Rand, file, other []byte) []byte {
	file = slices.Clone(file)
	for range 1 + r.IntN(3) {
		if len(file) == 0 {
			return file
		}
		at := r.IntN(len(file))
		some := file[at:min(len(file), at+1+r.IntN(64))]
		switch r.IntN(8) {
		case 0, 1:
			file[at] ^= 1 << r.IntN(8)
		case 2:
			file[at] = byte(r.Uint32())
		case 3, 4:
			copy(some, odd[r.IntN(len(odd))])
		case 5:
			clear(some)
		case 6: // once more
			file = slices.Insert(file, at, slices.Clone(some)...)
		case 7:
			if r.IntN(4) == 0 {
				file = file[:at]
				break
			}
			from := r.IntN(len(other) + 1)
			copy(some, other[from:])
		}
	}
	return file
}
