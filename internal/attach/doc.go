// SPDX-License-Identifier: Apache-2.0

// Package attach is the only package that changes the kernel: it loads
// programs, attaches them and reads their ring buffer.
package attach
