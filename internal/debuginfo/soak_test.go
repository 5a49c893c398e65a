// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"testing"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// TestSoak reads damaged programs: symbols, DWARF, unwind tables, compressed sections and notes.
func TestSoak(t *testing.T) {
	s := livetest.Soak{Name: "ELF files", Quick: 60, Full: 3000, Memory: 1 << 28, Read: use}
	for _, flags := range shapes {
		s.Seeds = append(s.Seeds, small(t, flags...))
	}
	s.Seeds = append(s.Seeds, small(t, "-g", "-Wa,--noexecstack", "-Wl,--build-id"))
	s.Run(t)
}
