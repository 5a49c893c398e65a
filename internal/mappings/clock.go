// SPDX-License-Identifier: Apache-2.0

package mappings

import "golang.org/x/sys/unix"

// Now is the time as events have it: CLOCK_MONOTONIC ns.
func Now() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // which does not fail
	return uint64(t.Nano())
}
