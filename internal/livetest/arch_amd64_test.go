// SPDX-License-Identifier: Apache-2.0

package livetest_test

// What tests call things that differ between architectures.
const (
	sys        = "__x64_sys_" // begins the names of the functions that serve system calls
	firstArg   = "$di"        // the registers of the first and the third argument
	thirdArg   = "$dx"
	thirdReg   = "dx"      // the latter in struct pt_regs
	syscallReg = "orig_ax" // where that has the number of the system call

	// syscallEntry is where a system call comes from, innermost first.
	syscallEntry = "do_syscall_64 entry_SYSCALL_64_after_hwframe"
)
