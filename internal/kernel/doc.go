// SPDX-License-Identifier: Apache-2.0

// Package kernel is a read-only view of one kernel: its types, functions and
// symbols, which functions can be attached to, and what files tell about its
// features. It reads files through an fs.FS, makes no bpf(2) calls and changes
// nothing.
package kernel
