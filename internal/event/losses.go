// SPDX-License-Identifier: Apache-2.0

package event

import "github.com/ksnoop/ksnoop/bpf"

// Losses say what is missing in a stream of records, as it is known when all is over.
type Losses struct {
	Lost      [bpf.Counters]uint64 // by cause
	Cut       uint64               // records that there was no more time for after an interrupt
	Uncounted bool                 // the kernel has not counted all that it skipped
}
