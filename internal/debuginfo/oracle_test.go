// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// symbolizers are the names of llvm-symbolizer, the best first. What is compared
// did not change between these versions.
var symbolizers = []string{"llvm-symbolizer-19", "llvm-symbolizer", "llvm-symbolizer-14"}

func symbolizer(t testing.TB) string {
	t.Helper()
	for _, name := range symbolizers {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no llvm-symbolizer to compare with: apt-get install llvm-19, or llvm")
	return ""
}

// oracle returns what llvm-symbolizer says of addresses.
func oracle(t testing.TB, file string, addrs []uint64) [][]Frame {
	t.Helper()
	var in bytes.Buffer
	for _, a := range addrs {
		fmt.Fprintf(&in, "0x%x\n", a)
	}
	cmd := exec.Command(symbolizer(t), "--obj="+file, "--inlines", "--functions=short")
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	results := make([][]Frame, 0, len(addrs))
	var frames []Frame
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if lines.Text() == "" {
			results = append(results, frames)
			frames = nil
			continue
		}
		f := Frame{Func: strings.TrimPrefix(lines.Text(), "??")}
		if !lines.Scan() {
			t.Fatalf("%s ends within a frame", cmd)
		}
		f.File, f.Line, f.Column = location(t, lines.Text())
		frames = append(frames, f)
	}
	if len(results) != len(addrs) {
		t.Fatalf("%s answered %d of %d addresses", cmd, len(results), len(addrs))
	}
	return results
}

// location splits "file:line:column".
func location(t testing.TB, s string) (file string, line, column uint32) {
	parts := strings.Split(s, ":")
	if len(parts) < 3 {
		t.Fatalf("no location: %q", s)
	}
	n := len(parts)
	l, err1 := strconv.ParseUint(parts[n-2], 10, 32)
	c, err2 := strconv.ParseUint(parts[n-1], 10, 32)
	if err1 != nil || err2 != nil {
		t.Fatalf("no location: %q", s)
	}
	return strings.TrimPrefix(strings.Join(parts[:n-2], ":"), "??"), uint32(l), uint32(c)
}

// randomText draws addresses from the sections of code.
func randomText(t testing.TB, file string, n int) []uint64 {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var code []span
	var size uint64
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Flags&elf.SHF_ALLOC != 0 && s.Size > 0 {
			code = append(code, span{s.Addr, s.Addr + s.Size})
			size += s.Size
		}
	}
	if size == 0 {
		t.Fatalf("%s has no code", file)
	}
	random := rand.New(rand.NewPCG(7, uint64(n)))
	addrs := make([]uint64, n)
	for i := range addrs {
		at := random.Uint64N(size)
		for _, s := range code {
			if at < s.hi-s.lo {
				addrs[i] = s.lo + at
				break
			}
			at -= s.hi - s.lo
		}
	}
	return addrs
}

// compareWithOracle compares what is read of a file with what llvm-symbolizer
// says of it, address by address and all at once.
func compareWithOracle(t *testing.T, file string, addrs []uint64) {
	t.Helper()
	compareWith(t, oracle(t, file, addrs), file, addrs)
}

func compareWith(t *testing.T, want [][]Frame, file string, addrs []uint64) {
	t.Helper()
	info, err := Open(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer info.Close()
	inlined, unknown, wrong := 0, 0, 0
	batch := info.LookupAll(addrs)
	for i, addr := range addrs {
		if len(batch[i]) > 1 {
			inlined++
		}
		if len(batch[i]) == 0 {
			unknown++
		}
		stream := info.Lookup(nil, addr)
		if same(batch[i], want[i]) && same(stream, want[i]) {
			continue
		}
		if wrong++; wrong <= 10 {
			t.Errorf("%#x:\nbatch  %+v\nstream %+v\nwant   %+v", addr, batch[i], stream, want[i])
		}
	}
	t.Logf("%d addresses, %d in inlined functions, %d unknown, %d wrong", len(addrs), inlined, unknown, wrong)
}

// same compares frames; llvm-symbolizer prints a frame of question marks where
// it knows nothing.
func same(got, want []Frame) bool {
	if len(got) == 0 {
		got = []Frame{{}}
	}
	return slices.EqualFunc(got, want, func(a, b Frame) bool {
		a.Linkage, b.Linkage = "", "" // which C has not
		return a == b
	})
}
