// SPDX-License-Identifier: Apache-2.0

// Package kmod makes kernel modules for live tests: functions of any C
// signature, with BTF, that user space calls with any arguments. A test can so
// trace a function whose parameter types, arguments, memory and result it has
// chosen itself.
//
// A module is put together here byte by byte, so neither a compiler nor the
// kernel's headers are needed; the little that depends on the kernel, the
// layout of struct module, is taken from its BTF. Guests only: a module is
// never unloaded, and its functions do what they are told.
package kmod
