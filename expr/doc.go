// SPDX-License-Identifier: Apache-2.0

// Package expr is ksnoop's expression language: C expressions over the
// parameters and the return value of one kernel function.
//
// A SPEC such as
//
//	ip_send_skb(skb->len == 84, return != 0, skb)
//
// goes through three stages, each of which can be used on its own:
//
//   - [Parse] turns the text into a syntax tree ([Spec], [Expr]). It knows no types.
//   - [Check] resolves the tree against the BTF types of one function ([Scope])
//     and returns typed terms ([Term]): every term has a C type, and with it a
//     width and a sign; every conversion that C makes silently is written out.
//   - [Eval] computes a term over a [Machine]. It is the definition of what an
//     expression means: BPF generated from the same term must agree with it on
//     every input.
//
// Faults of the text are values of type [*Error]. All faults of a SPEC are
// reported at once, as an [ErrorList] that can draw itself under the text.
package expr
