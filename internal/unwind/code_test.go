// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"debug/elf"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// TestCodeIsTable follows the stack pointer through all functions of files and compares what comes
// out at each call with the compiler's own unwind information.
func TestCodeIsTable(t *testing.T) {
	for _, file := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libm.so.6"} {
		table := tableOf(t, file)
		f, err := elf.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		text := f.Section(".text")
		code, err := text.Data()
		if err != nil {
			t.Fatal(err)
		}
		calls, found, wrong, byFrame := 0, 0, 0, 0
		for i := range table.entries {
			e := &table.entries[i]
			if e.lo < text.Addr || e.hi > text.Addr+text.Size {
				continue
			}
			body := code[e.lo-text.Addr : e.hi-text.Addr]
			for at := uint64(0); at < uint64(len(body)); {
				inst, size, ok := decodeAt(body[at:])
				if !ok {
					break
				}
				pc := e.lo + at
				at += size
				if inst.Op != x86asm.CALL {
					continue
				}
				want := table.Row(pc, steps())
				if want == nil || want.cfa.kind != regOffset {
					continue
				}
				if first := table.Row(e.lo, steps()); first != nil && first.cfa != (rule{kind: regOffset, reg: rsp, off: 8}) {
					break // a part of a function, which is jumped to
				}
				calls++
				got := CodeRow(body, e.lo, pc, steps())
				switch {
				case got == nil:
				case want.cfa.reg != rsp:
					byFrame++
				case got.cfa != want.cfa:
					if wrong++; wrong < 10 {
						t.Errorf("%s %#x: %+v, want %+v", file, pc, got.cfa, want.cfa)
					}
				default:
					found++
					for _, reg := range []uint8{rbx, rbp, r12, 13, 14, 15} {
						if g, w := got.regs[reg], want.regs[reg]; w.kind == offset && g != w {
							if wrong++; wrong < 10 {
								t.Errorf("%s %#x: register %d %+v, want %+v", file, pc, reg, g, w)
							}
						}
					}
				}
			}
		}
		t.Logf("%s: %d calls, %d as the table, %d wrong, %d by another register", file, calls, found, wrong, byFrame)
		if found < calls*3/4 {
			t.Errorf("%s: %d of %d calls", file, found, calls)
		}
	}
}

func FuzzCodeRow(f *testing.F) {
	f.Add([]byte("\x48\x83\xec\x10\x6a\x00\xe8\x00\x00\x00\x00\x48\x83\xc4\x18\xc3"), uint64(10))
	f.Fuzz(func(t *testing.T, code []byte, pc uint64) {
		if row := CodeRow(code, 0, pc, steps()); row != nil && row.cfa.off < 8 {
			t.Errorf("a frame of %d bytes", row.cfa.off)
		}
	})
}
