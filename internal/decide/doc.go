// SPDX-License-Identifier: Apache-2.0

// Package decide names the condition that decided what a call has returned, in the words of the
// kernel's source: from the way that the call took, what the code says of its values, BTF and,
// where there is some, debug info. It is pure, and it never guesses: what has no name is left
// to the registers.
package decide
