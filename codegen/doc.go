// SPDX-License-Identifier: Apache-2.0

// Package codegen turns typed terms and the slots of a plan into BPF
// instructions. It is a pure function of the plan and of the target: it loads
// nothing and asks no kernel.
//
// A probe becomes up to two programs. Each evaluates its predicates first,
// those that cost least before the others, and calls into the engine (package
// bpf) only for a call that is wanted; the engine calls back the generated
// capture function, which stores the values into the record.
//
// Values are computed in R0, the accumulator. A second operand is in R2, what
// has to survive it is spilled to the stack. The context stays where it is, in
// R1, as long as no helper is called, so that a call whose predicate is false
// costs a few instructions and saves no register.
package codegen
