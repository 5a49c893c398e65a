// SPDX-License-Identifier: Apache-2.0

package process

import (
	"debug/elf"
	"io"

	"github.com/ksnoop/ksnoop/internal/unwind"
)

// codeFrames tell how far the frames of functions reach that have no unwind information, by their
// code: musl's C library is built without, and so is some assembly. Of arm64 it is only those that the kernel makes
// for signals.
type codeFrames struct {
	r       io.ReaderAt
	machine *unwind.Machine
	loads   []elf.ProgHeader
	// function returns where the function at an address begins and ends.
	function func(pc uint64) (lo, hi uint64, ok bool)

	rows map[uint64]*unwind.Row
}

// mostFunction bounds what is read of a function, in bytes.
const mostFunction = 1 << 15

// row returns the rules at a linked address of a function; nil if its code does not tell, or to follow it takes more steps
// than are left.
func (c *codeFrames) row(pc uint64, left *int) *unwind.Row {
	if row, known := c.rows[pc]; known {
		return row
	}
	const most = 1 << 12
	if len(c.rows) >= most {
		clear(c.rows)
	}
	row := c.read(pc, left)
	if *left >= 0 {
		c.rows[pc] = row
	}
	return row
}

// read is row without a memory.
func (c *codeFrames) read(pc uint64, left *int) *unwind.Row {
	// A signal handler returns to the first instruction of a function that nobody has called.
	if row := c.machine.SignalRow(c.code(pc+1, uint64(c.machine.SigreturnSize()))); row != nil {
		return row
	}
	if !c.machine.OnStack() {
		return nil
	}
	lo, hi, ok := c.function(pc)
	if !ok || hi <= lo {
		return nil
	}
	return unwind.CodeRow(c.code(lo, hi-lo), lo, pc, left)
}

// code reads code at a linked address: as much of it as there is.
func (c *codeFrames) code(addr, size uint64) []byte {
	for _, p := range c.loads {
		if addr < p.Vaddr || addr-p.Vaddr >= p.Filesz || p.Off > 1<<62 {
			continue
		}
		code := make([]byte, min(size, p.Filesz-(addr-p.Vaddr), mostFunction))
		n, _ := c.r.ReadAt(code, int64(p.Off+addr-p.Vaddr)) // a file that is shorter has less code
		return code[:n]
	}
	return nil
}
