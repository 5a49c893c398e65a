// SPDX-License-Identifier: Apache-2.0

// Package output renders events. Its printers append to a slice and do no
// input or output of their own.
package output
