// SPDX-License-Identifier: Apache-2.0

package ptregs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOffsets compares with the compiler's reading of the headers that user space
// is given: their struct is the kernel's, with an r before the old names.
func TestOffsets(t *testing.T) {
	gcc, err := exec.LookPath("x86_64-linux-gnu-gcc")
	if err != nil {
		t.Skip(err)
	}
	old := map[string]string{"flags": "eflags"}
	var source strings.Builder
	source.WriteString("#include <stddef.h>\n#include <asm/ptrace.h>\nunsigned long offsets[] = {\n")
	for _, name := range Names("amd64") {
		switch {
		case name == "":
			continue
		case old[name] != "":
			name = old[name]
		case name[0] != 'r':
			name = "r" + name
		}
		fmt.Fprintf(&source, "offsetof(struct pt_regs, %s) / 8 + 1,\n", name)
	}
	source.WriteString("};\n")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "o.c"), []byte(source.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(gcc, "-S", "-o", "-", filepath.Join(dir, "o.c"))
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("no compiler or headers: %v", err)
	}
	var want, got []int
	for line := range strings.Lines(string(out)) {
		var n int
		if _, err := fmt.Sscanf(strings.TrimSpace(line), ".quad %d", &n); err == nil {
			want = append(want, n-1)
		}
	}
	for i, name := range Names("amd64") {
		if name != "" {
			got = append(got, i)
		}
	}
	if !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("words %v, the compiler has %v", got, want)
	}
}

// What the psABIs say: System V, AAPCS64, and the table of syscall(2).
func TestCalls(t *testing.T) {
	for _, tt := range []struct {
		arch      string
		got, want []int
	}{
		{"amd64", Arguments("amd64"), []int{14, 13, 12, 11, 9, 8}},
		{"amd64", SyscallArguments("amd64"), []int{14, 13, 12, 7, 9, 8}},
		{"amd64", Results("amd64"), []int{10, 12}},
		{"arm64", Arguments("arm64"), []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{"arm64", SyscallArguments("arm64"), []int{0, 1, 2, 3, 4, 5}},
		{"arm64", Results("arm64"), []int{0, 1}},
		{"amd64", Words("amd64", "sp", "nothing"), []int{19, -1}},
		{"arm64", Words("arm64", "x29", "sp", "pc"), []int{29, 31, 32}},
		{"other", Arguments("other"), []int{}},
	} {
		if !slices.Equal(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.arch, tt.got, tt.want)
		}
	}
	for arch, want := range map[string][]int{"amd64": {10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0}, "arm64": {0, 1, 2, 3}} {
		for n, w := range want {
			if got, ok := DWARF(arch, uint64(n)); got != w || !ok {
				t.Errorf("%s: register %d is word %d, %v, want %d", arch, n, got, ok, w)
			}
		}
	}
	if _, ok := DWARF("amd64", 16); ok { // the return address, which is no register
		t.Error("amd64 has a register 16")
	}
	if _, ok := DWARF("arm64", 32); ok {
		t.Error("arm64 has a register 32")
	}
}
