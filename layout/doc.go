// SPDX-License-Identifier: Apache-2.0

// Package layout decides where values are: in registers and on the stack when a function is
// called, and in the records that report a call.
//
// The work goes in three steps:
//
//   - [ParamsOf] assigns the parameters of a function to registers and stack slots, by the calling
//     convention of the architecture. [DeclareResult] does so for the result.
//   - A [Probe] is one place in the kernel, traced for one SPEC. It combines those parameters with
//     the items that expr.Check returned.
//   - [Probe.Lay] decides what happens at the entry of a call and what at its return ([Half]), and
//     gives every value a [Slot] in a [Record].
//
// Slots are assigned here and nowhere else. Package codegen generates the stores to them,
// and decoders load from them. In short, without the handling of errors:
//
//	probe := &layout.Probe{Name: "vfs_read", Spec: spec, Method: layout.MethodFentry,
//		Params: layout.ParamsOf(proto.Params, proto.Return, "amd64"), Result: proto.Return}
//	probe.Items, err = expr.Check(spec, scope) // scope has probe.Params
//	err = probe.Lay()
//	for _, slot := range probe.Entry.Stores { ... }
//
// [ClassOf] says which results of a function mean that it failed; sessions need it.
// [ArgsOf] says what to capture where all arguments of a call are wanted.
//
// Architectures are amd64 and arm64, named as in GOARCH. The package loads nothing and asks
// no kernel. It does not say how a probe is attached: a [Method] is only a name here, and
// package internal/attach knows the rest.
//
// examples/predicate in this module uses ParamsOf for a program of its own.
package layout
