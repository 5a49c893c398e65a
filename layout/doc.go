// SPDX-License-Identifier: Apache-2.0

// Package layout says where values lie: in registers and on the stack when a
// function is called, and in the records that tell of the call.
//
// A Probe is one place of the kernel that is traced for one SPEC, with the items
// that package expr has checked. Lay decides what is done at the entry of a call
// and what at its return, and gives every value its slot. Slots are assigned here
// and nowhere else: package codegen stores to them, decoders load from them.
package layout
