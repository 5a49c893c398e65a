// SPDX-License-Identifier: Apache-2.0

// Package calls pairs the records of the two ends of a call. It is pure: it does no I/O,
// reads no clock, and takes all times from the events.
//
// A [Joiner] reads events (package event) and yields a [Call] as soon as a call is
// complete, or once it is clear that nothing more will come. Its memory is bounded; what it
// gives up is counted.
package calls
