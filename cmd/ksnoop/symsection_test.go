// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// moduleSource is code in several sections, as a kernel module has it.
const moduleSource = `
int work(int n);
static inline __attribute__((always_inline)) int twice(int n)
{
	return work(n) + work(n + 1);
}

int run(int n)
{
	return twice(n) * 3;
}

__attribute__((section(".init.text"))) int start(int n)
{
	if (n > 7)
		return twice(n + 5);
	return work(n);
}

__attribute__((section(".exit.text"))) int leave(int n)
{
	return twice(n) - 1;
}
`

// symModule compiles an object file with code in several sections.
func symModule(t *testing.T, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, file := filepath.Join(dir, "m.c"), filepath.Join(dir, "m.ko")
	if err := os.WriteFile(source, []byte(moduleSource), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", append(flags, "-O2", "-c", source, "-o", file)...).CombinedOutput(); err != nil {
		t.Skipf("gcc: %v\n%s", err, out)
	}
	return file
}

// readelfSymbols returns where "readelf -s" has the functions of an object file.
func readelfSymbols(t *testing.T, file string) map[string]struct {
	section     string
	value, size uint64
} {
	t.Helper()
	text, err := exec.Command("readelf", "-sSW", file).Output()
	if err != nil {
		t.Skipf("readelf: %v", err)
	}
	sections := map[string]string{}
	symbols := map[string]struct {
		section     string
		value, size uint64
	}{}
	for line := range strings.Lines(string(text)) {
		line = strings.Replace(line, "[ ", "[", 1)
		fields := strings.Fields(line)
		if len(fields) > 1 && strings.HasPrefix(fields[0], "[") {
			sections[strings.Trim(fields[0], "[]")] = fields[1]
		}
		if len(fields) == 8 && fields[3] == "FUNC" {
			s := symbols[fields[7]]
			s.section = sections[fields[6]]
			if _, err := fmt.Sscanf(fields[1]+" "+fields[2], "%x %d", &s.value, &s.size); err != nil {
				t.Fatal(err)
			}
			symbols[fields[7]] = s
		}
	}
	return symbols
}

// TestSymOfSections asks for all addresses of functions in several sections, in
// each of the ways, and has addr2line tell what is there.
func TestSymOfSections(t *testing.T) {
	for _, flags := range [][]string{{"-g"}, {"-g", "-gdwarf-4"}, {"-g", "-ffunction-sections"}, {"-g", "-gno-as-loc-support"}} {
		file := symModule(t, flags...)
		functions := readelfSymbols(t, file)
		if len(functions) != 3 {
			t.Fatalf("readelf has %v", functions)
		}
		for name, at := range functions {
			offsets := []string{"-j", at.section, "-fie", file}
			var bySymbol, bySection []string
			for n := range at.size {
				offsets = append(offsets, fmt.Sprintf("%#x", at.value+n))
				bySymbol = append(bySymbol, fmt.Sprintf("%s+%#x", name, n))
				bySection = append(bySection, fmt.Sprintf("%s+%#x", at.section, at.value+n))
			}
			out, err := exec.Command("addr2line", offsets...).Output()
			if err != nil {
				t.Fatal(err)
			}
			var want strings.Builder
			for line := range strings.Lines(string(out)) {
				line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), " (discriminator")
				want.WriteString(line + "\n")
			}
			for _, args := range [][]string{offsets, append([]string{"-e", file}, bySymbol...), append([]string{"-e", file}, bySection...)} {
				if got := sym(t, "", args...); got != want.String() {
					t.Errorf("%v: %s: %s", flags, name, firstDifference(got, want.String()))
				}
			}
		}
	}
}

// TestSymOfBareOffsets has numbers that could be in any section: the answer says
// which one it is, and a hint that there are others.
func TestSymOfBareOffsets(t *testing.T) {
	file := symModule(t, "-g")
	functions := readelfSymbols(t, file)
	c := newSymCommand()
	var out, stderr bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&stderr)
	c.SetArgs([]string{"-apse", file, "1", "2", fmt.Sprintf("%x", functions["run"].size+1000)})
	if err := c.Execute(); err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(out.String(), "\n")
	if want := ".text+0x0000000000000001: run at m.c:"; !strings.HasPrefix(first, want) {
		t.Errorf("%s, want %s", first, want)
	}
	if want := fmt.Sprintf("0x%016x: ?? at ??:?\n", functions["run"].size+1000); !strings.HasSuffix(rest, "\n"+want) {
		t.Errorf("%s, want %s last", rest, want)
	}
	if hint := stderr.String(); strings.Count(hint, "\n") != 1 || !strings.Contains(hint, "0x1 is taken for .text+0x1, the next is .init.text+0x1 (-j chooses one)") {
		t.Errorf("hint: %s", hint)
	}
	if got, want := sym(t, "", "-apse", file, "start"), ".init.text+0x0000000000000000: start at m.c:"; !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestSymSectionFaults names sections that are not there.
func TestSymSectionFaults(t *testing.T) {
	file := symModule(t, "-g")
	for _, test := range []struct{ args, want string }{
		{"-j .no -e " + file + " 0", "no section .no is loaded"},
		{"-j .debug_info -e " + file + " 0", "no section .debug_info is loaded"},
		{"-j .text 0", "give --exe as well"},
	} {
		c := newSymCommand()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs(strings.Fields(test.args))
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.args, err, test.want)
		}
	}
	if got := sym(t, "", "-e", file, ".init.text+0x100000"); got != "??\n??:?\n" {
		t.Errorf("behind the section: %s", got)
	}
}
