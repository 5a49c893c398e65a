// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSupplement moves what two programs share into a third file. The answers are
// those that llvm-symbolizer gives of the program as it was before.
func TestSupplement(t *testing.T) {
	const share = " && cp a.out whole && cp a.out b.out && "
	for _, test := range []struct{ name, script string }{
		{"GNU, DWARF 5", "gcc -O2 -g -gdwarf-5 *.c" + share + "dwz -m shared.debug a.out b.out"},
		{"GNU, DWARF 4", "gcc -O2 -g -gdwarf-4 *.c" + share + "dwz -m shared.debug a.out b.out"},
		{"relative", "gcc -O2 -g *.c" + share + "mkdir sub && dwz -r -m sub/shared.debug a.out b.out"},
		{"DWARF 5", "gcc -O2 -g -gdwarf-5 *.c" + share + "dwz -5 -m shared.debug a.out b.out"},
		{"found by a link", "gcc -O2 -g *.c" + share + "dwz -r -m shared.debug a.out b.out && mkdir sub && mv a.out shared.debug sub && ln -s sub/a.out"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := buildProgram(t, "gcc dwz readelf", test.script)
			whole := filepath.Join(filepath.Dir(file), "whole")
			out, err := exec.Command("readelf", "-S", file).Output()
			if err != nil || !strings.Contains(string(out), ".gnu_debugaltlink") && !strings.Contains(string(out), ".debug_sup") {
				t.Skipf("dwz made no supplementary file: %v", err)
			}
			addrs := randomText(t, whole, 5000)
			compareWith(t, oracle(t, whole, addrs), file, addrs)
			compareInlined(t, file, whole)
		})
	}
}

// TestSupplementOfStripped: Debian's programs keep the link to what they share, and none of their debug info.
func TestSupplementOfStripped(t *testing.T) {
	file := buildProgram(t, "gcc dwz strip readelf", "gcc -O2 -g *.c && cp a.out b.out && dwz -m shared.debug a.out b.out && strip -g --keep-section=.gnu_debugaltlink a.out && rm shared.debug")
	if out, err := exec.Command("readelf", "-S", file).Output(); err != nil || !strings.Contains(string(out), ".gnu_debugaltlink") {
		t.Skipf("no link is left: %v", err)
	}
	info, err := Open(file, Options{Stripped: true})
	if err != nil {
		t.Fatal(err)
	}
	info.Close()
}

// compareInlined compares what two files have about inlined functions.
func compareInlined(t *testing.T, file, whole string) {
	t.Helper()
	var places [2][]Inlining
	for n, name := range []string{file, whole} {
		info, err := Open(name, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer info.Close()
		places[n] = info.InlinedNamed(func(name []byte) bool { return string(name) == "gcd" || string(name) == "mix" })
		slices.SortFunc(places[n], func(a, b Inlining) int { return compare(a.Addr, b.Addr) })
	}
	if diff := cmp.Diff(places[1], places[0]); diff != "" || len(places[1]) == 0 {
		t.Errorf("%d places: %s", len(places[1]), diff)
	}
}

// TestLongLink has links to files whose paths are longer than any path.
func TestLongLink(t *testing.T) {
	long := strings.Repeat("/x", 1<<19) + "\x00"
	for section, contents := range map[string]string{
		".gnu_debugaltlink": long + strings.Repeat("i", 20),
		".debug_sup":        "\x05\x00\x00" + long + "\x00",
	} {
		data := []byte(contents)
		file := filepath.Join(t.TempDir(), "file")
		var parts []part
		for _, name := range []string{".debug_info", ".debug_abbrev", section} {
			parts = append(parts, part{name: name, kind: elf.SHT_PROGBITS, contents: data})
		}
		if err := os.WriteFile(file, written(t, elf.ET_DYN, parts...), 0o600); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("open debug info %s: section %s: a path of %d bytes", file, section, len(data))
		if _, err := Open(file, Options{}); err == nil || err.Error() != want {
			t.Errorf("%.200v, want %s", err, want)
		}
	}
}
