// SPDX-License-Identifier: Apache-2.0

// Package codegen compiles checked expressions to BPF. Its input is a probe that package
// layout has laid out; its output is BPF instructions for amd64 or arm64 kernels.
//
// There are two ways to use it:
//
//   - [Condition] compiles predicates to one BPF function, for a program of your own. bpf.Link joins
//     the two. The function needs nothing else of ksnoop. examples/predicate does this.
//   - [Compile] compiles a probe to the programs that ksnoop attaches, one for each end of a call or
//     one for both ([Programs]). [Programs.Link] joins them with the engine in package bpf, which has
//     the maps, the filters and the ring buffer.
//
// In short, without the handling of errors:
//
//	functions, err := codegen.Condition("wanted", probe, predicates, codegen.Options{Arch: runtime.GOARCH})
//	instructions, err := bpf.Link(functions...)
//
// [Options] hold all that is known of the kernel and of the request, such as BTF ids of
// kernel functions. The package is a pure function of a probe and these: it loads nothing
// and asks no kernel. The same input gives the same instructions.
//
// A generated program evaluates its predicates first, cheap ones before dear ones. It calls
// the engine only for a call that is wanted. The engine then calls back the generated
// capture function, which stores the values into the record.
//
// Code generation is simple: R0 is the accumulator, a second operand is in R2, and what
// must survive it is spilled to the stack. The context stays in R1 until a helper is
// called. A call whose predicate is false thus costs a few instructions, and no register is
// saved for it. Every instruction carries the text it stands for as its source, so that the
// verifier's log quotes the SPEC.
//
// Limits: a program has 512 bytes of stack and Compile checks this; only the kernel's
// verifier decides whether a program loads.
package codegen
