// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ksnoop/ksnoop/internal/unwind"
)

// TestFollowedCode: a stack with many addresses of large functions has no more code followed than steps are left. What was
// left out is found for the next stack.
func TestFollowedCode(t *testing.T) {
	const addr, addresses, most = 0x1000, 20, 8      // functions that are followed for a stack
	code := bytes.Repeat([]byte{0x90}, mostFunction) // nop
	c := codeFrames{bytes.NewReader(code), unwind.AMD64(), []elf.ProgHeader{{Vaddr: addr, Filesz: mostFunction}}, func(uint64) (lo, hi uint64, ok bool) { return addr, addr + mostFunction, true }, map[uint64]*unwind.Row{}}
	for stack, want := range []int{most, 2 * most, addresses, addresses} {
		left, found := most*mostFunction, 0
		for i := range uint64(addresses) {
			if c.row(addr+i, &left) != nil {
				found++
			}
		}
		if found != want || (left < 0) != (want < addresses) {
			t.Errorf("stack %d: %d addresses are found, want %d; %d steps are left", stack, found, want, left)
		}
	}
}

// TestSignalARM64: the vDSO of arm64 has no unwind information for the code that signal handlers return to, but what it does
// tells that the kernel has made the frame.
func TestSignalARM64(t *testing.T) {
	dir := t.TempDir()
	src, out := filepath.Join(dir, "a.S"), filepath.Join(dir, "a.so")
	const text = ".text\nnop\n.globl __kernel_rt_sigreturn\n__kernel_rt_sigreturn: mov x8, #139\nsvc #0\n.size __kernel_rt_sigreturn, . - __kernel_rt_sigreturn\n.globl f\nf: ret\nret\nret\n"
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if msg, err := exec.Command("aarch64-linux-gnu-gcc", "-shared", "-nostdlib", "-o", out, src).CombinedOutput(); err != nil {
		t.Skipf("%v %s", err, msg)
	}
	img := imageOf(t, out)
	file, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if kept, err := img.readUnwinding(file); !kept || err != nil {
		t.Fatalf("kept: %v, %v", kept, err)
	}
	left := mostFunction
	for _, f := range img.funcs {
		row := img.code.row(f.addr-1, &left) // as of a return address
		if signal := row != nil && row.Signal; signal != (f.name == "__kernel_rt_sigreturn") {
			t.Errorf("%s: %+v", f.name, row)
		}
	}
	if len(img.funcs) != 2 {
		t.Errorf("functions: %+v", img.funcs)
	}
}
