// SPDX-License-Identifier: Apache-2.0

// Package session decodes the records of sessions into call trees, error stacks and
// branches. It is pure: it does no I/O, reads no clock, and takes all times from the
// records.
//
// A [Decoder] collects the parts that the engine sends of each [Session], keeps them within
// a memory limit, and returns the session once it is complete. [Chain] is a stack of calls,
// [Step] a row of a call trace. Records are untrusted input.
package session
