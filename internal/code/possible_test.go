// SPDX-License-Identifier: Apache-2.0

package code

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/ptregs"
)

// possibleSource has functions of which those up to "known" need nothing but their arguments. The
// compiler makes jumps, moves and sets by conditions, masks and sign extensions of them.
const possibleSource = `#include <stdio.h>
#define F __attribute__((noinline, noclone))
volatile int word = 3;
F int other(int n) { return n > 2 ? -22 : word; }
F long flags(long a, long b, long c) { if (b & ~0xc1) return -22; if ((a & 3) == 3 || c < -5) return -1; return a > b ? -7 : 0; }
F long sizes(long a, long b, long c) { unsigned char x = a; short y = b; if (x > 200) return -3; if (y < -2) return -4; return (int)c < 0 ? -5 : x == (unsigned)b ? -6 : 1; }
F long select(long a, long b, long c) { switch ((int)a) { case 1: return b > 64 ? -22 : 0; case 2: return -9; case 17: return c ? -8 : 4; case 255: case 256: return -11; default: return -95; } }
F long both(long a, long b, long c) { return (a != 0) != (b > 0) ? -22 : (c == 5) ^ (a < b) ? -14 : 2; }
F long shifts(long a, long b, long c) { unsigned t = a & 0xff; if (((unsigned)a >> 8) & 3) return -22; if (t - 7 <= 2 && t != 8) return -33; return ((b << 3) & 0x20) ? -2 : -(c & 1); }
F long stack(long a, long b, long c) { long v[3] = { a, b, 7 }; volatile long n = c; return v[1] > 4 ? -22 : n == 2 ? -1 : v[0] < 0; }
F long loop(long a, long b, long c) { long s = 0; for (int i = 0; i < (a & 7); i++) s += i ^ b; return s > 20 ? -22 : -(c > 0); }
F long known(long a, long b, long c) { return 0; }
F long calls(long a, long b, long c) { int n = other(a); if (n < 0) return n; if (b & 4) return -22; return other(c) < 0 ? -5 : word; }
F long memory(long a, long b, long c) { if (word == a) return -22; return b == 9 ? -3 : word; }
int main(void) {
	long (*all[])(long, long, long) = { flags, sizes, select, both, shifts, stack, loop, known, calls, memory };
	long numbers[] = { 0, 1, 2, 3, 5, 9, 17, 64, 65, 128, 255, 256, -1, -3, -6, 0x7fffffff, 0x80000000l, 1l << 40 };
	for (int f = 0; f < 10; f++) for (int i = 0; i < 18; i++) for (int j = 0; j < 18; j++) for (int k = 0; k < 18; k += 5)
		printf("%d %ld %ld %ld %ld\n", f, numbers[i], numbers[j], numbers[k], all[f](numbers[i], numbers[j], numbers[k]));
	return 0;
}
`

// compilers are those of each architecture, with the options that only it has.
var compilers = map[string][]string{
	"amd64": {"gcc", "-mno-red-zone", "-mgeneral-regs-only"},
	"arm64": {"aarch64-linux-gnu-gcc", "-mgeneral-regs-only"},
}

// compile compiles a program as kernels are: without vectors and tables of jumps, and with calls that keep to
// the convention. It returns what the program prints, which is the same on all architectures.
func compile(t *testing.T, arch, level, source string) (file, printed string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("another processor")
	}
	dir := t.TempDir()
	file = filepath.Join(dir, "a")
	if err := os.WriteFile(file+".c", []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, to := range [...]string{"amd64", arch} {
		args := append(slices.Clone(compilers[to][1:]), level, "-fno-jump-tables", "-fno-ipa-ra", "-no-pie", "-o", file+to, file+".c")
		if out, err := exec.Command(compilers[to][0], args...).CombinedOutput(); err != nil {
			t.Skipf("%v: %s", err, out)
		}
	}
	out, err := exec.Command(file + "amd64").Output()
	if err != nil {
		t.Fatal(err)
	}
	return file + arch, string(out)
}

// givenTo returns what a function is called with.
func givenTo(arch string, args []int64) (given []Given) {
	for i, a := range args {
		given = append(given, Given{ptregs.Arguments(arch)[i], uint64(a), 8})
	}
	return given
}

// TestPossible compares with what compiled functions return.
func TestPossible(t *testing.T) {
	for arch := range compilers {
		for _, level := range []string{"-O2", "-Os", "-O0"} {
			t.Run(arch+level, func(t *testing.T) { testPossible(t, arch, level) })
		}
	}
}

func testPossible(t *testing.T, arch, level string) {
	names := []string{"flags", "sizes", "select", "both", "shifts", "stack", "loop", "known", "calls", "memory"}
	file, out := compile(t, arch, level, possibleSource)
	code := functionsOf(t, arch, file, names)
	other := functionsOf(t, arch, file, []string{"other"})[0].Parts[0].Addr
	single := 0
	for line := range strings.Lines(out) {
		var n int
		var a [3]int64
		var result int64
		if _, err := fmt.Sscan(line, &n, &a[0], &a[1], &a[2], &result); err != nil {
			t.Fatal(err)
		}
		f := &code[n]
		ways, ok := f.Possible(f.graph, f.sites, givenTo(arch, a[:]), nil, nil)
		is := func(p Possible) bool { return !p.Ended || int32(p.Result) == int32(result) }
		if !ok || !slices.ContainsFunc(ways, is) {
			t.Fatalf("%s %s%v = %d is not possible: %v, %d ways", level, names[n], a, result, ok, len(ways))
		}
		if n <= slices.Index(names, "known") && len(ways) == 1 && ways[0].Ended {
			single++
		}
		if names[n] == "calls" && level == "-O2" {
			calledSame(t, f, other, a, result)
		}
		if level == "-O2" && n <= slices.Index(names, "known") && (len(ways) != 1 || !ways[0].Ended) {
			t.Errorf("%s%v: %d ways", names[n], a, len(ways))
		}
	}
	t.Logf("%s: one way of %d", level, single)
}

// calledSame checks that what calls of other returned, the same each time, leaves but one way.
func calledSame(t *testing.T, f *compiled, other uint64, a [3]int64, result int64) {
	t.Helper()
	called := Called{Addr: other, Result: 0xffffffea, Size: 4, Calls: 1} // the error, and so the only call
	if int32(a[0]) <= 2 {
		if called.Result = 3; a[1]&4 == 0 {
			called.Calls = 2
		}
		if called.Calls == 2 && int32(a[2]) > 2 {
			return // which returns something else
		}
	}
	ways, ok := f.Possible(f.graph, f.sites, givenTo(f.Arch, a[:]), []Called{called}, nil)
	// In the end it returns what is in memory.
	if !ok || len(ways) != 1 || ways[0].Beyond || ways[0].Ended == (called.Calls == 2) || ways[0].Ended && int32(ways[0].Result) != int32(result) {
		t.Errorf("calls%v with %+v: %v %+v", a, called, ok, ways)
	}
}

type compiled struct {
	Function
	graph *Graph
	sites []Site
}

// functionsOf reads functions of a program.
func functionsOf(t *testing.T, arch, file string, names []string) []compiled {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]compiled, len(names))
	for _, s := range symbols {
		i := slices.Index(names, s.Name)
		if i < 0 || s.Size == 0 {
			continue
		}
		section := f.Sections[s.Section]
		text := make([]byte, s.Size)
		if _, err := section.ReadAt(text, int64(s.Value-section.Addr)); err != nil {
			t.Fatal(err)
		}
		c := &out[i]
		c.Function = Function{Arch: arch, Parts: []Part{{s.Value, text}}}
		if c.graph, err = NewGraph(&c.Function); err != nil {
			t.Fatal(err)
		}
		c.sites = c.graph.Sites(nil)
	}
	return out
}
