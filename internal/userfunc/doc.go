// SPDX-License-Identifier: Apache-2.0

// Package userfunc finds functions in programs and libraries of user space: where in the file
// their code begins, which is how the kernel is told where to put a uprobe.
//
// [Locate] finds the file of a name, and [Open] reads its symbols. [File.Named] selects
// functions, and [File.Place] says where in the file an instruction of one is. Files belong to
// anybody and may claim anything: sizes are bounded, and code is decoded before a place inside a
// function is given out, since a breakpoint in the middle of an instruction breaks the program.
package userfunc
