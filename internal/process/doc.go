// SPDX-License-Identifier: Apache-2.0

// Package process names addresses of processes, from their maps and from the symbols of the
// mapped files.
//
// [Symbols] keeps what it has read, so that stacks of a process can be named after it has
// ended. [Symbols.Process] selects the process and [Process.AppendFrame] names an address.
// Files belong to whoever runs the process: they are untrusted, and sizes are bounded.
// [NumberingOf] tells which numbers /proc has for a thread.
package process
