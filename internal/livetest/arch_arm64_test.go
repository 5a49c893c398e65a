// SPDX-License-Identifier: Apache-2.0

package livetest_test

// What tests call things that differ between architectures.
const (
	sys        = "__arm64_sys_" // begins the names of the functions that serve system calls
	firstArg   = "$x0"          // the registers of the first and the third argument
	thirdArg   = "$x2"
	thirdReg   = "regs[2]"   // the latter in struct pt_regs
	syscallReg = "syscallno" // where that has the number of the system call

	// syscallEntry is where a system call comes from, innermost first.
	syscallEntry = "invoke_syscall do_el0_svc el0_svc el0t_64_sync_handler el0t_64_sync"
)
