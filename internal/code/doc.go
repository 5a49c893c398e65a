// SPDX-License-Identifier: Apache-2.0

// Package code reads the machine code of one function: its instructions, its basic blocks and
// what decides each conditional jump. From what probes on these jumps saw it tells which way a
// call has taken. It is pure: the code is bytes, and the registers are words of struct pt_regs,
// numbered as in package ptregs.
package code
