// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// words is how many arguments a system call has at most.
const words = 6

// An abi is where the kernel has the registers of a system call.
type abi struct {
	number  string // in the registers
	args    [words]string
	ip      string // where the process is
	serving string // what names of functions that serve system calls begin with
	compat  compatABI
	x32     uint64 // the bit of numbers that makes them those of x32; 0: there is no x32
}

// A compatABI is what is different in 32-bit system calls, which have numbers, registers and functions of their own.
type compatABI struct {
	state   string // where the kernel has that a call is one
	bit     uint64 // in state
	args    [words]string
	serving string
	audit   uint32 // by which filters of seccomp know the architecture
	// symbol is one that kernels have which serve such calls.
	symbol string
}

var abis = map[string]abi{
	"amd64": {number: "regs->orig_ax", args: [words]string{"regs->di", "regs->si", "regs->dx", "regs->r10", "regs->r8", "regs->r9"}, ip: "regs->ip", serving: "__x64_sys_",
		// TS_COMPAT: a 64-bit program can make such calls, too, so that its segments do not tell.
		compat: compatABI{state: "$task->thread_info.status", bit: 2, args: [words]string{"regs->bx", "regs->cx", "regs->dx", "regs->si", "regs->di", "regs->bp"}, serving: "__ia32_sys_",
			audit: unix.AUDIT_ARCH_I386, symbol: "__ia32_sys_write"},
		x32: 1 << 30},
	"arm64": {number: "regs->syscallno", args: [words]string{"regs->orig_x0", "regs->regs[1]", "regs->regs[2]", "regs->regs[3]", "regs->regs[4]", "regs->regs[5]"}, ip: "regs->pc", serving: "__arm64_sys_",
		// PSR_MODE32_BIT: only 32-bit programs make such calls.
		compat: compatABI{state: "regs->pstate", bit: 0x10, args: [words]string{"regs->orig_x0", "regs->regs[1]", "regs->regs[2]", "regs->regs[3]", "regs->regs[4]", "regs->regs[5]"}, serving: "__arm64_sys_",
			audit: unix.AUDIT_ARCH_ARM, symbol: "compat_sys_call_table"}},
}

// maxNumber is more than the number of any system call.
const maxNumber = 1024

// A foreignCall says that a system call is none of those that the kernel's table has. "": it is one.
type foreignCall string

const (
	call32  foreignCall = "32-bit"
	callX32 foreignCall = "x32"
)

// foreign returns which kind of system call one is by its number and by what the kernel says of it.
func (a *abi) foreign(number, state uint64) foreignCall {
	switch {
	case state&a.compat.bit != 0:
		return call32
	case number&a.x32 != 0:
		return callX32
	}
	return ""
}

// failing is the SPEC of each system call that fails. served is the value that tells which function serves a
// call; "" if the kernel does not tell where its table is.
func (a *abi) failing(table uint64) (spec, served string) {
	number := a.number
	if a.x32 != 0 {
		number = fmt.Sprintf("(%s & ~%#xul)", a.number, a.x32)
	}
	exit := []string{"ret < 0", "ret >= -4095", fmt.Sprintf("%s < %d", number, maxNumber), a.number, a.ip, a.compat.state}
	if table != 0 {
		served = fmt.Sprintf("*(unsigned long *)(%#x + %s * 8)", table, a.number)
		exit = append(exit, served)
	}
	for _, arg := range a.args {
		exit = append(exit, arg, textItem(arg))
	}
	for _, arg := range a.compat.args {
		if !slices.Contains(exit, arg) {
			exit = append(exit, arg)
		}
	}
	return "rawtp:sys_exit(" + strings.Join(exit, ", ") + ")", served
}

// Filters of seccomp are executed by seccompFunction, whose parameter deniedNumber is the number of the system call.
const (
	seccompFunction = "__seccomp_filter"
	deniedNumber    = "this_syscall"
)

// denied is the SPEC of each system call that a filter of seccomp refuses, which refused tells, with what is to be known of
// the call beside its number: state, as a.compat has it, and served as in failing. They are "" if the kernel does not tell.
func (a *abi) denied(refused string, table uint64) (spec, state, served string) {
	items := []string{deniedNumber, refused}
	if strings.HasPrefix(a.compat.state, "$task") { // else it is in the registers, which lead nowhere here
		state = a.compat.state
		items = append(items, state)
		if table != 0 {
			served = fmt.Sprintf("*(unsigned long *)(%#x + %s * 8)", table, deniedNumber)
			items = append(items, served)
		}
	}
	return seccompFunction + "(" + strings.Join(items, ", ") + ")", state, served
}
