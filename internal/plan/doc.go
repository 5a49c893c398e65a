// SPDX-License-Identifier: Apache-2.0

// Package plan resolves a tracing request against one kernel. [Resolve] turns the names in
// SPECs into functions, types and offsets, and lets package layout give every value its
// place. [ResolveSession] does the same for sessions, and [Restore] for recordings.
//
// The result is a [Plan]. It never changes: methods that choose another way to attach, or
// look up addresses, return a new Plan. It holds no file descriptors, so a plan and
// recorded bytes suffice to decode and print on another machine.
//
// All faults of the SPECs come back at once, as expr.ErrorList values.
package plan
