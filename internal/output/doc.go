// SPDX-License-Identifier: Apache-2.0

// Package output renders events as text. Printers append to a slice and do no I/O. What
// depends only on a record's layout is worked out once.
//
// [Calls] prints the calls view, [Sessions] error stacks and call traces, [Tails] the
// stacks and branches of a call. Names of tasks, files and symbols come from the traced
// system and are escaped, so that no output acts on a terminal.
package output
