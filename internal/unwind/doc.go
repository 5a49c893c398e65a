// SPDX-License-Identifier: Apache-2.0

// Package unwind finds the callers of a thread of a process from its registers and a copy of
// the top of its stack.
//
// A [Table] has the unwind information of one ELF file, .eh_frame, and tells the [Row] of
// rules for an address: where the caller's registers are. [Walk] follows such rows from frame
// to frame. Where a file has none, it goes by the frame pointer; each [Frame] says by which
// way it was found.
//
// Files and stacks belong to whoever runs the process: they are untrusted. Reads stay inside
// of what was read, expressions and instructions have budgets, and the walk has a depth.
package unwind
