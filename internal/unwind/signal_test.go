// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os/exec"
	"testing"
)

// interrupted is a program whose function leaf, which has no frame of its own, is interrupted by a signal. Its handler
// prints its registers, the code that it returns to, and the stack.
const interrupted = `
#include <signal.h>
#include <unistd.h>

static char *top;

__asm__(".text\n.type leaf, %function\n.globl leaf, fault\nleaf: .cfi_startproc\nmov x9, #0\n"
	"fault: udf #0\nret\n.cfi_endproc\n.size leaf, . - leaf\n");
int leaf(int);

__attribute__((noinline)) int caller(int n) { return leaf(n) + 1; }

static void handler(int number, siginfo_t *info, void *context)
{
	unsigned long r[33] = {0};

	__asm__ volatile("stp x19, x20, [%0, #152]\nstp x21, x22, [%0, #168]\nstp x23, x24, [%0, #184]\nstp x25, x26, [%0, #200]\n"
		"stp x27, x28, [%0, #216]\nstp x29, x30, [%0, #232]\nmov x9, sp\nadr x10, .\nstp x9, x10, [%0, #248]" :: "r"(r) : "x9", "x10", "memory");
	write(1, r, sizeof(r));
	write(1, __builtin_return_address(0), 8);
	write(1, (char *)r[31], top - (char *)r[31]);
	_exit(0);
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	top = __builtin_frame_address(0) + 64;
	sigaction(SIGILL, &action, 0);
	return caller(1);
}
`

// tableAndSignal is a program, and the code that its signal handler returns to.
type tableAndSignal struct {
	table     *Table
	returns   uint64
	sigreturn *Row
}

func (c *tableAndSignal) Row(pc uint64, left *int) (*Row, Way, What) {
	if pc+1 == c.returns {
		return c.sigreturn, ByCode, Mapped
	}
	return c.table.Row(pc, left), ByTable, Mapped
}

// TestSignalARM64: behind a signal handler come the function that was interrupted, even one without a frame, at its
// instruction, and its caller.
func TestSignalARM64(t *testing.T) {
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip(err)
	}
	for _, frame := range []string{"-fomit-frame-pointer", "-fno-omit-frame-pointer"} {
		t.Run(frame, func(t *testing.T) {
			file := build(t, "a.c", interrupted, "aarch64-linux-gnu-gcc", "-O1", "-static", "-fno-optimize-sibling-calls", frame)
			out, err := exec.Command(qemu, file).Output()
			if err != nil {
				t.Fatal(err)
			}
			m := ARM64()
			var words [33]uint64
			if err := binary.Read(bytes.NewReader(out), binary.LittleEndian, &words); err != nil {
				t.Fatal(err)
			}
			out = out[8*len(words):]
			regs := Regs{PC: words[32]}
			for reg := uint8(19); reg < 32; reg++ {
				regs.Set(reg, words[reg])
			}
			code := &tableAndSignal{table: tableOf(t, file), sigreturn: m.SignalRow(out[:8])}
			if code.sigreturn == nil {
				t.Fatalf("%x is what the handler returns to", out[:8])
			}
			stack := Stack{Addr: words[31], Bytes: out[8:]}
			w := Walker{Machine: m, Depth: 2}
			frames, _ := w.Walk(nil, &regs, stack, code)
			code.returns = frames[1].PC
			w.Depth = 5
			if frames, _ = w.Walk(nil, &regs, stack, code); len(frames) < 5 {
				t.Fatalf("%+v", frames)
			}
			symbols := symbolsOf(t, file)
			if f := frames[2]; f.PC != symbols["fault"].Value || !f.Exact {
				t.Errorf("interrupted at %#x, exact %v; want %#x", f.PC, f.Exact, symbols["fault"].Value)
			}
			for n, name := range map[int]string{0: "handler", 2: "leaf", 3: "caller", 4: "main"} {
				if s := symbols[name]; frames[n].PC-s.Value >= s.Size {
					t.Errorf("frame %d: %+v, want %s: %#x and %d bytes", n, frames[n], name, s.Value, s.Size)
				}
			}
		})
	}
}

func symbolsOf(t *testing.T, file string) map[string]elf.Symbol {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]elf.Symbol{}
	for _, s := range all {
		named[s.Name] = s
	}
	return named
}
