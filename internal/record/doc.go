// SPDX-License-Identifier: Apache-2.0

// Package record writes and reads recordings: what a kernel sent, with all
// that is needed to decode and print it on another machine.
//
// A recording begins with 16 bytes that say what it is and a version, and goes
// on with blocks. A block is compressed and checksummed on its own, so that a
// recording whose writer was killed is good up to its last whole block. In
// this order there are
//
//	info     the architecture, and what wrote the recording
//	file …   files of /proc and /sys: BTF, symbols, release
//	plan     SPECs, and for each probe its function and how it was attached
//	records… what the ring buffer held
//	end      what was lost, and how many records there are
//
// Layouts are not stored. The plan is made anew from the recorded BTF, by the
// same code, and must come to the same layouts, of which there are fingerprints.
package record
