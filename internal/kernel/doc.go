// SPDX-License-Identifier: Apache-2.0

// Package kernel is a read-only view of one kernel: its types, functions and symbols, which
// functions can be attached to, and what files tell about its features. It reads files
// through an fs.FS, makes no bpf(2) calls and changes nothing.
//
// [Open] returns a [View], which reads each file when it is first needed. Functions come
// from [View.Function], [View.Match] and [View.Select]; types from [View.TypesByName];
// names of addresses from [View.Symbol]; what a kernel offers from [View.Facts]. Files may
// come from a recording: sizes are bounded, and damaged BTF is an error.
package kernel
