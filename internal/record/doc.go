// SPDX-License-Identifier: Apache-2.0

// Package record writes and reads recordings: what a kernel sent, with everything needed to
// decode and print it on another machine. [NewWriter] starts a recording and [NewReader]
// opens one.
//
// A recording starts with 16 bytes of magic and version. Blocks follow. Each is compressed
// and has a checksum, so if the writer is killed, the recording is good up to its last
// whole block. The order of blocks is
//
//	info     the architecture, the host, and the version of the writer
//	file …   files of /proc and /sys: types, release
//	plan     SPECs; the function of each probe and how it was attached
//	symbols  of addresses in the records that follow, unless they came before
//	records  contents of the ring buffer
//	…
//	end      losses, and the number of records
//
// A series has such blocks, without the magic, of several runs, and at its end
//
//	page     what was made of the runs
//
// Types and symbols are those that the records can reach. A recording with all of them has
// the kernel's own files instead.
//
// Layouts are not stored. The reader makes the plan again from the recorded BTF, with the
// same code. Fingerprints make sure that it comes to the same layouts. A ksnoop that lays
// records out differently refuses the recording.
//
// All input is untrusted: sizes are bounded before memory is allocated for them.
package record
