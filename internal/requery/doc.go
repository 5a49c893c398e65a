// SPDX-License-Identifier: Apache-2.0

// Package requery asks a recording again: it answers SPECs and filters that the run did not
// have, from the values that were recorded.
//
// [New] resolves new SPECs for the functions of a recorded plan. Each term of a new SPEC must
// follow from what was captured: it is a captured value itself, or it lies in captured bytes,
// as skb->len lies in *skb. What does not follow is a fault of the SPEC, found before the
// first record is read. [Answer.Records] then turns the recorded records into those that a run
// with the new SPECs would have sent, so that the other packages decode and print them like any
// others.
//
// Records are untrusted. A record is only read through the slots of its plan.
package requery
