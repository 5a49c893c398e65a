// SPDX-License-Identifier: Apache-2.0

// Package shell reads what has been typed in a shell up to the cursor, and writes what completes it so
// that the line stays valid there.
//
// SPECs are full of characters that shells act on: parentheses, >, $, * and blanks. People quote them,
// with ' or ", or with a \ before each, and complete them before the quotes are closed. So this package
// does the quoting, in Go, where it can be tested; the scripts of the shells only pass on what they have.
package shell
