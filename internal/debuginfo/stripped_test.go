// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/elf"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestStripped has programs without debug info, of which the symbol table tells
// what it tells addr2line, with the functions that are linked by name only.
func TestStripped(t *testing.T) {
	for _, test := range []struct{ tools, script string }{
		{"gcc", "gcc -O2 *.c"},
		{"gcc strip", "gcc -O2 -g *.c && strip --strip-debug a.out"},
		{"gcc strip", "gcc -O2 -g -rdynamic *.c && strip a.out"},
		{"gcc strip", "gcc -O2 -g -shared -fPIC *.c && strip a.out"},
	} {
		t.Run(test.script, func(t *testing.T) {
			file := buildProgram(t, test.tools, test.script)
			if _, err := Open(file, Options{}); err == nil || !strings.Contains(err.Error(), "no debug info") {
				t.Errorf("without Stripped: %v", err)
			}
			info, err := Open(file, Options{Stripped: true})
			if err != nil {
				t.Fatal(err)
			}
			defer info.Close()
			addrs := sizedFunctions(t, file)
			for i, want := range addr2line(t, file, addrs) {
				if got := info.Outermost(addrs[i], ""); got != want {
					t.Errorf("%#x: %q, want %q", addrs[i], got, want)
				}
				if got := info.Lookup(nil, addrs[i]); len(got) > 0 {
					t.Errorf("%#x: %+v of a file without debug info", addrs[i], got)
				}
			}
		})
	}
}

// addr2line returns the function that GNU addr2line says is at each address.
func addr2line(t *testing.T, file string, addrs []uint64) []string {
	t.Helper()
	if _, err := exec.LookPath("addr2line"); err != nil {
		t.Skip("addr2line is not installed")
	}
	args := []string{"-f", "-e", file}
	for _, a := range addrs {
		args = append(args, fmt.Sprintf("%#x", a))
	}
	out, err := exec.Command("addr2line", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(out), "\n")
	if len(lines) != 2*len(addrs)+1 {
		t.Fatalf("%d lines for %d addresses", len(lines), len(addrs))
	}
	var names []string
	for i := range addrs {
		names = append(names, strings.TrimPrefix(lines[2*i], "??"))
	}
	return names
}

// sizedFunctions returns the first, a middle and the last address of each
// function whose size a symbol tells.
func sizedFunctions(t *testing.T, file string) (addrs []uint64) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		symbols, err = f.DynamicSymbols()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF && s.Size > 0 {
			addrs = append(addrs, s.Value, s.Value+s.Size/2, s.Value+s.Size-1)
		}
	}
	if len(addrs) < 12 {
		t.Fatalf("%d addresses", len(addrs))
	}
	return addrs
}

// TestNoSymbols has a program without anything that could tell.
func TestNoSymbols(t *testing.T) {
	file := buildProgram(t, "gcc strip", "gcc -O2 -static -g *.c && strip a.out")
	if _, err := Open(file, Options{Stripped: true}); err == nil || !strings.Contains(err.Error(), "neither debug info nor symbols") {
		t.Error(err)
	}
}
