// SPDX-License-Identifier: Apache-2.0

// Package diff compares what two runs did: call by call, value by value.
//
// A [Collector] takes the events of one run, as any printer does, and makes a [Run] of them: a tree
// of calls for each thread. [Compare] aligns two of them from the top: calls of one parent are
// aligned with those of the other parent by their functions, so that as many as possible have a
// partner, and partners are then compared in the same way. Text and JSON are made of the [Result].
//
// Arguments are kept as the bytes that were captured: the shape of each, made of its type once,
// says what is compared of them, and texts are made of what differs only. Values that SPECs ask for,
// which have many forms, are compared as package jsonlines writes them. What no two runs have in
// common is left out: addresses, times, numbers of processes and CPUs; [Ignore] says what else.
//
// Recordings are untrusted input. The memory of a Run is bounded, and so is the time of an
// alignment. All text goes through internal/terminal.
package diff
