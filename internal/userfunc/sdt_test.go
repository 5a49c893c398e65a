// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMarks compares marks, as sys/sdt.h makes them, with what readelf lists: providers, names, arguments,
// and by nm and the program's headers where they are.
func TestMarks(t *testing.T) {
	if _, err := os.Stat("/usr/include/x86_64-linux-gnu/sys/sdt.h"); err != nil {
		t.Skip(err) // systemtap-sdt-dev
	}
	for name, compiler := range map[string][]string{
		"gcc": {"gcc", "-O2"}, "gcc-O0": {"gcc", "-O0"}, "no-pie": {"gcc", "-O2", "-no-pie"},
		"clang": {"clang", "-O2"}, "arm64": {"aarch64-linux-gnu-gcc", "-O2", "-isystem", "/usr/include/x86_64-linux-gnu"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(compiler[0]); err != nil {
				t.Skip(err)
			}
			file := filepath.Join(t.TempDir(), "sdt")
			output(t, compiler[0], append(compiler[1:], "-o", file, "testdata/sdt.c")...)
			arch := "amd64"
			if name == "arm64" {
				arch = name
			}
			f, err := Open(file, arch)
			if err != nil {
				t.Skip(err)
			}
			marks, err := f.Marks()
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, m := range marks {
				got = append(got, m.Provider+":"+m.Name+" "+m.Text)
				for _, a := range m.Args {
					if a.Unknown && m.Name != "global" { // an address of the linker
						t.Errorf("%s: %q is not understood", m.Name, m.Text)
					}
				}
			}
			listing := output(t, "readelf", "--wide", "-n", file)
			notes := regexp.MustCompile(`(?s)Provider: (\S+)\s+Name: (\S+)\s+Location: (0x[0-9a-f]+), Base: 0x[0-9a-f]+, Semaphore: 0x[0-9a-f]+\s+Arguments: ?([^\n]*)`).FindAllStringSubmatch(listing, -1)
			for _, n := range notes {
				want = append(want, n[1]+":"+n[2]+" "+strings.TrimSpace(n[4]))
				at := uint64(0)
				if _, err := fmt.Sscanf(n[3], "0x%x", &at); err != nil {
					t.Fatal(err)
				}
				place, ok := f.offset(at)
				found := false
				for _, m := range marks {
					found = found || m.Provider == n[1] && m.Name == n[2] && m.Place == place
				}
				if !ok || !found {
					t.Errorf("%s:%s: none at %#x", n[1], n[2], place)
				}
			}
			if len(notes) != 7 {
				t.Errorf("readelf lists %d", len(notes))
			}
			if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func sorted(list []string) map[string]int {
	counts := map[string]int{}
	for _, x := range list {
		counts[x]++
	}
	return counts
}

// TestArgs: operands as the assemblers write them (as(1), and examples of the notes' documentation).
func TestArgs(t *testing.T) {
	for _, tt := range []struct {
		text, arch string
		want       []Arg
	}{
		{"", "amd64", nil},
		{"-4@%edi 8@%rsi 1@%cl 2@%r8w 1@%ah 1@%sil -8@%r15", "amd64", []Arg{{Size: -4, Base: "di"}, {Size: 8, Base: "si"}, {Size: 1, Base: "cx"}, {Size: 2, Base: "r8"},
			{Size: 1, Base: "ax", Shift: 8}, {Size: 1, Base: "si"}, {Size: -8, Base: "r15"}}},
		{"-4@$-5 8@$0x10", "amd64", []Arg{{Size: -4, Disp: -5}, {Size: 8, Disp: 16}}},
		{"-4@-20(%rbp) 8@(%rax) 8@8(%rdi,%rcx,4) 4@(%rax,%rbx) 8@16(,%rdx,8)", "amd64", []Arg{{Size: -4, Memory: true, Base: "bp", Disp: -20}, {Size: 8, Memory: true, Base: "ax"},
			{Size: 8, Memory: true, Base: "di", Index: "cx", Scale: 4, Disp: 8}, {Size: 4, Memory: true, Base: "ax", Index: "bx", Scale: 1}, {Size: 8, Memory: true, Index: "dx", Scale: 8, Disp: 16}}},
		{"4@global(%rip) 8@%fs:0", "amd64", unknown(2)},
		{"8f@%xmm0 8f@%rax 4f@-4(%rbp) 16f@(%rsp)", "amd64", []Arg{{Size: 8, Unknown: true, Float: true}, {Size: 8, Unknown: true, Float: true}, {Size: 4, Unknown: true, Float: true}, {Size: 16, Unknown: true, Float: true}}},
		{"-4@x0 4@w3 8@5 -8@-1 8@[sp, 16] 4@[x2] 8@[x0, x1] 8@[sp]", "arm64", []Arg{{Size: -4, Base: "x0"}, {Size: 4, Base: "x3"}, {Size: 8, Disp: 5}, {Size: -8, Disp: -1},
			{Size: 8, Memory: true, Base: "sp", Disp: 16}, {Size: 4, Memory: true, Base: "x2"}, {Size: 8, Memory: true, Base: "x0", Index: "x1", Scale: 1}, {Size: 8, Memory: true, Base: "sp"}}},
		{"8f@d0", "arm64", []Arg{{Size: 8, Unknown: true, Float: true}}},
		{"3f@d0 -8f@x0 8f 3@x0 x@ @", "arm64", unknown(6)},
		{"8@%r+8 8@%r08 8@%r16 8@%r7 8@(,%rip,8) 8@(%rax,%rip) 8@(%r08) 8@(%rax,%rbx,3) +8@%rax 08@%rax", "amd64", unknown(10)},
		{"8@x+5 8@w007 8@x-0 8@x31 8@[x00] 8@[sp, w+1]", "arm64", unknown(6)},
	} {
		if diff := cmp.Diff(tt.want, parseArgs(tt.text, tt.arch)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.text, diff)
		}
	}
}

func unknown(n int) []Arg { return slices.Repeat([]Arg{{Size: 8, Unknown: true}}, n) }

func FuzzArgs(f *testing.F) {
	for _, s := range []string{"-4@%edi 8@8(%rdi,%rcx,4)", "8@[sp, 16] 4@w3", "8@$5"} {
		f.Add(s, "amd64")
		f.Add(s, "arm64")
	}
	f.Fuzz(func(t *testing.T, text, arch string) {
		for _, a := range parseArgs(text, arch) {
			if !a.Unknown && a.Size == 0 {
				t.Errorf("%q: %+v", text, a)
			}
		}
	})
}
