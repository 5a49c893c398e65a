// SPDX-License-Identifier: Apache-2.0

package unwind

// A signalFrame is what the kernel puts on the stack for a signal handler, struct rt_sigframe. The handler returns to code
// that has the kernel take it off again. The stack pointer is then at the frame, or behind its first word.
type signalFrame struct {
	sigreturn string // the code
	context   int64  // where uc_mcontext has the registers, from the stack pointer
	// registers are their numbers in DWARF, in this order. The last one is the program counter: on arm64 it is
	// besides the link register, which is the interrupted code's own.
	registers []uint8
}

var (
	signalAMD64 = signalFrame{
		sigreturn: "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", // mov $15,%rax; syscall
		context:   40,                                     // behind flags, link and stack of struct ucontext
		registers: []uint8{8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16},
	}
	signalARM64 = signalFrame{
		sigreturn: "\x68\x11\x80\xd2\x01\x00\x00\xd4", // mov x8,#139; svc #0
		context:   128 + 176 + 8,                      // behind struct siginfo, what struct ucontext begins with, and the fault's address
		registers: []uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32},
	}
)
