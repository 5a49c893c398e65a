// SPDX-License-Identifier: Apache-2.0

package event

import "github.com/ksnoop/ksnoop/bpf"

// A Loss says that records are missing at a place of a stream.
type Loss struct {
	Cause bpf.Counter
	Count uint64
	// Time is CLOCK_MONOTONIC ns, and CPU where the mark was made. Both are 0 for losses that
	// are known only when all is over.
	Time uint64
	CPU  uint16
}

// Losses say what is missing in a stream of records, as it is known when all is over.
type Losses struct {
	Lost      [bpf.Counters]uint64 // by cause
	Cut       uint64               // records that there was no more time for after an interrupt
	Uncounted bool                 // the kernel has not counted all that it skipped
	Unread    error                // why Lost could not be read; nil if it was
}
