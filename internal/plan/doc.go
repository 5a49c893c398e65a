// SPDX-License-Identifier: Apache-2.0

// Package plan resolves a tracing request against one kernel: names become
// functions, types and offsets, and package layout gives every value its place. A
// Plan does not change once it is made.
package plan
