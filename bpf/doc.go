// SPDX-License-Identifier: Apache-2.0

// Package bpf holds the kernel side of ksnoop that is the same for every
// request: C functions, their committed objects, the layout of records and its
// Go mirror, and the linker that joins the functions with generated code.
package bpf
