// SPDX-License-Identifier: Apache-2.0

// Package seccomp executes the filters of seccomp again, and says which instruction has decided.
// A filter is a program of classic BPF over struct seccomp_data, as the kernel has checked it:
// it only jumps forward, and loads aligned words.
package seccomp
