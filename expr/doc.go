// SPDX-License-Identifier: Apache-2.0

// Package expr is ksnoop's expression language: C expressions over the parameters and the
// return value of one kernel function.
//
// A SPEC such as
//
//	ip_send_skb(skb->len == 84, return != 0, skb)
//
// names functions and lists items. An item is a predicate, which selects calls, or a
// capture, a value to show. A SPEC goes through three stages:
//
//   - [Parse] turns the text into a syntax tree ([Spec], [Expr]). It knows no types.
//   - [Check] resolves the tree against one function and the BTF types of its kernel ([Scope]).
//     It returns items ([Item]) made of typed terms ([Term]). Every term has a C type, and with
//     it a width and a sign. Conversions that C makes implicitly are terms of their own.
//   - [Eval] computes a term over a [Machine], which answers for one call: registers, memory,
//     the task. Eval defines what an expression means. BPF generated from the same term
//     (package codegen) must give the same value for every input.
//
// In short, without the handling of errors:
//
//	spec, err := expr.Parse("close(fd < 0, fd)")
//	items, err := expr.Check(spec, &expr.Scope{Func: "close", Params: params, Types: types})
//	holds, err := expr.Eval(items[0].Predicate, machine)
//
// Faults of the text are values of type [*Error]. Parse and Check report all faults of a
// SPEC at once, as an [*ErrorList] that draws each one under the text.
//
// The package does no I/O and asks no kernel: the caller supplies types ([Types]) and
// macros ([Macros]). It does not expand globs; package internal/plan does. Integers have at
// most 64 bits. Floats and 128-bit integers can be captured but not computed with. Strings
// can be compared with literals only. Text is bounded by [MaxLength] and [MaxNesting].
//
// docs/language.md describes the language for its users.
package expr
