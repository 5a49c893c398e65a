// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// An entered is a piece of code that QEMU has entered, and where the stack pointer was.
type entered struct{ pc, sp uint64 }

// An executedLog reads what QEMU logs with "exec,cpu": of each piece of code that it enters, a line and then the registers.
type executedLog struct {
	mark     uint64 // the function by whose calls the traced task says that it begins and ends
	switchTo uint64 // __switch_to_asm: the second parameter is the task that is to run
	switched uint64 // finish_task_switch: it is the current one now. In between it has its stack, and is not.

	task, owner uint64 // the current one; which has begun
	following   uint64 // the one that is switched to
	open        bool
	run         []entered // what the task has entered between its two marks, interrupts included
	runs        int       // how many there were

	pending   entered // it has no effect yet: QEMU can say next that it did not begin
	next      uint64
	isPending bool
}

var errStopped = errors.New("what has not begun is not what was to begin")

// read reads up to a line that is the end, also behind one that is wrong: QEMU waits until it can write.
func (l *executedLog) read(in *bufio.Reader, end string) (fault error) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return cmp.Or(fault, err)
		}
		if line == end {
			l.settle()
			return fault
		}
		if err := l.line(line); err != nil && fault == nil {
			fault = fmt.Errorf("%q: %w", line, err)
		}
	}
}

func (l *executedLog) line(line string) (err error) {
	hex := func(from int) uint64 {
		if err != nil || len(line) < from+16 {
			err = cmp.Or(err, io.ErrUnexpectedEOF)
			return 0
		}
		v, bad := strconv.ParseUint(line[from:from+16], 16, 64)
		err = cmp.Or(err, bad)
		return v
	}
	switch {
	case strings.HasPrefix(line, "Trace "):
		l.settle()
		l.pending, l.isPending = entered{pc: hex(strings.IndexByte(line, '/') + 1)}, true
	case strings.HasPrefix(line, "Stopped execution "):
		if l.isPending = l.pending.pc != hex(strings.IndexByte(line, '[')+1); l.isPending {
			err = cmp.Or(err, errStopped)
		}
	case strings.HasPrefix(line, "RSI="):
		l.next, l.pending.sp = hex(len("RSI=")), hex(strings.Index(line, "RSP=")+len("RSP="))
	}
	return err
}

// settle takes the piece that was begun.
func (l *executedLog) settle() {
	if !l.isPending {
		return
	}
	l.isPending = false
	switch {
	case l.pending.pc == l.switchTo:
		l.following = l.next
		return
	case l.pending.pc == l.switched:
		l.task = l.following
		return
	case l.pending.pc == l.mark && !l.open:
		l.open, l.owner, l.run = true, l.task, nil
	case l.pending.pc == l.mark && l.task == l.owner:
		l.open = false
		l.runs++
	}
	if l.open && l.task == l.owner {
		l.run = append(l.run, l.pending)
	}
}

// A frame is a call of a function, and the code of it that was entered.
type frame struct {
	function int
	sp       uint64
	pcs      []uint64
	last     int
}

// stackSize is that of the kernel's stacks on amd64, which begin at multiples of it.
const stackSize = 16 << 10

// framesOf returns the calls of each function, in the order in which they returned.
func framesOf(run []entered, functions []*plan.Probe) [][]*frame {
	calls := make([][]*frame, len(functions))
	open := map[uint64][]*frame{} // by stack
	for i, e := range run {
		n := slices.IndexFunc(functions, func(p *plan.Probe) bool {
			return p.Way != nil && slices.ContainsFunc(p.Way.Code.Parts, func(c code.Part) bool { return e.pc-c.Addr < uint64(len(c.Bytes)) })
		})
		if n < 0 {
			continue
		}
		entry := e.pc == functions[n].Way.Code.Parts[0].Addr
		stack := open[e.sp/stackSize]
		for len(stack) > 0 {
			// What is called begins below its caller, and what has jumped to another function is over.
			if top := stack[len(stack)-1]; e.sp < top.sp || e.sp == top.sp && !entry && top.function == n {
				break
			}
			stack = stack[:len(stack)-1]
		}
		if entry {
			f := &frame{function: n, sp: e.sp}
			stack, calls[n] = append(stack, f), append(calls[n], f)
		}
		if len(stack) > 0 && stack[len(stack)-1].function == n {
			top := stack[len(stack)-1]
			top.pcs, top.last = append(top.pcs, e.pc), i
		}
		open[e.sp/stackSize] = stack
	}
	for _, c := range calls {
		slices.SortStableFunc(c, func(a, b *frame) int { return cmp.Compare(a.last, b.last) })
	}
	return calls
}

// wayOf returns which blocks a call has entered; ok is false if it was in code that is in none.
func wayOf(w *plan.Way, pcs []uint64) (way []bool, ok bool) {
	g := w.Graph()
	way, ok = make([]bool, len(g.Blocks)), true
	for i, pc := range pcs {
		n := slices.IndexFunc(g.Blocks, func(b code.Block) bool { return b.Start <= pc && pc < b.End })
		if n < 0 {
			ok = false
			continue
		}
		for way[n] = true; goesOn(w, n, pcs[i+1:]); way[n] = true {
			n = g.Blocks[n].Next
		}
	}
	return way, ok
}

// goesOn reports whether execution, without a further line of the log, has gone on from a block to
// the next one. It tells by what was entered later.
func goesOn(w *plan.Way, block int, later []uint64) bool {
	g := w.Graph()
	b := &g.Blocks[block]
	if b.Next == code.None {
		return false
	}
	for i := range g.Instructions {
		in := &g.Instructions[i]
		if in.End() != b.End || in.Addr < b.Start {
			continue
		}
		switch name := w.Code.Mnemonic(in.Addr); {
		case strings.HasPrefix(name, "j"), strings.HasPrefix(name, "call"), strings.HasPrefix(name, "loop"), strings.HasPrefix(name, "ret"),
			strings.HasPrefix(name, "ud"), strings.HasPrefix(name, "int"):
			return false // QEMU's piece of code ends here
		}
		// An instruction that has faulted is tried again, or execution goes on where the fault leads to.
		return b.Fault == code.None || len(later) == 0 || later[0] != in.Addr && later[0] != g.Blocks[b.Fault].Start
	}
	return false
}
