// SPDX-License-Identifier: Apache-2.0

package debuginfo

// A span is the addresses from lo up to, but not including, hi.
type span struct{ lo, hi uint64 }

func (s span) contains(addr uint64) bool { return s.lo <= addr && addr < s.hi }

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
