// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// absent is what Debian's cloud kernels cannot do: QEMU's processor records no
// branches, and 6.1 is older than some and built without FPROBE.
var absent = map[string][]Capability{
	"newest":       {CapBranchSnapshot},
	"newest-arm64": {CapTracingMulti, CapBranchSnapshot},
	"7.0":          {CapTracingMulti, CapBranchSnapshot},
	"6.19":         {CapFsession, CapTracingMulti, CapBranchSnapshot},
	"6.18":         {CapFsession, CapTracingMulti, CapBranchSnapshot},
	"6.12":         {CapFsession, CapTracingMulti, CapBranchSnapshot},
	"6.1":          {CapKprobeMulti, CapKretprobeMulti, CapKprobeSession, CapFsession, CapTracingMulti, CapRdonlyCast, CapBranchSnapshot},
}

func TestLiveProbe(t *testing.T) {
	guest.Require(t)
	missing, known := absent[guest.Kernel()]
	if !known {
		t.Skipf("what kernel %q can do is not known", guest.Kernel())
	}
	want := make(map[Capability]bool)
	for c := range numCapabilities {
		want[c] = true
	}
	for _, c := range missing {
		want[c] = false
	}
	before := links(t)
	cs := Probe(t.Context())
	for _, s := range cs {
		t.Logf("%-22s %v", s.Capability, s.Err)
		if has := s.Err == nil; has != want[s.Capability] {
			t.Errorf("%s: has it %v, want %v: %v", s.Capability, has, want[s.Capability], s.Err)
		}
		if s.Err != nil && !errors.Is(s.Err, ebpf.ErrNotSupported) {
			t.Errorf("%s: %v, want ErrNotSupported", s.Capability, s.Err)
		}
	}
	if after := links(t); after != before {
		t.Errorf("%d links after probing, %d before", after, before)
	}
}

// links counts what is attached by links.
func links(t *testing.T) int {
	t.Helper()
	n := 0
	var it link.Iterator
	defer it.Close()
	for it.Next() {
		n++
	}
	if err := it.Err(); err != nil && !errors.Is(err, ebpf.ErrNotSupported) {
		t.Fatal(err)
	}
	return n
}
