// SPDX-License-Identifier: Apache-2.0

// Package typed hands out the captured values of calls with their types, to formats that have
// types of their own: numbers, bools and pointers as such, strings as their characters, and
// anything else as ksnoop writes it on one line.
package typed
