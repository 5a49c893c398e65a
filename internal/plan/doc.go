// SPDX-License-Identifier: Apache-2.0

// Package plan resolves a tracing request against one kernel: names become
// functions, types and offsets; every predicate gets the phase in which it is
// decided; every captured value gets its slot in a record.
//
// Slots are assigned here and nowhere else: package codegen stores to them,
// package event loads from them.
package plan
