// SPDX-License-Identifier: Apache-2.0

// Package samples turns calls and sessions into weighted stacks, for the formats that add
// such stacks up: pprof and folded stacks.
//
// Of the calls view each call is one sample: the traced function, below the stack that was
// captured with it. Of a session each recorded call is one, with the time that was spent in
// the function itself; what the calls that it made took is theirs. So the sum over all
// stacks through a function is the function's total.
//
// A failure counts once, where it began: in a call that failed while no recorded call that
// it made did.
package samples
