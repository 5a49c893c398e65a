// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
)

// TestPIDSpace: PIDs of filters, and our own, become the kernel's; one that is not
// known yet is asked for, and one that nobody has is a fault.
func TestPIDSpace(t *testing.T) {
	self := uint32(os.Getpid())
	running := map[uint32]uint32{self: 1000, 7: 1007, 8: 1008}
	ns := bpf.Namespace{Addr: 0xffff888000000000, Level: 1}
	asked := 0
	s := &pidSpace{list: func() (bpf.Namespace, map[uint32]uint32, error) {
		asked++
		return ns, maps.Clone(running), nil
	}}
	if err := s.read(); err != nil {
		t.Fatal(err)
	}
	running[9] = 1009
	filter := bpf.Filter{PIDs: []uint32{7, 0}, NotPIDs: []uint32{8}, TIDs: []uint32{9}, UIDs: []uint32{7}}
	got := bpf.Settings{Filter: filter}
	if err := s.set(&got); err != nil {
		t.Fatal(err)
	}
	want := bpf.Settings{Namespace: ns, Self: 1000, Filter: bpf.Filter{PIDs: []uint32{1007, 0}, NotPIDs: []uint32{1008}, TIDs: []uint32{1009}, UIDs: []uint32{7}}}
	if !reflect.DeepEqual(got, want) || asked != 2 {
		t.Errorf("settings %+v, want %+v; asked %d times, want 2", got, want, asked)
	}
	if filter.PIDs[0] != 7 {
		t.Error("the caller's filter was changed")
	}
	if err := s.set(&bpf.Settings{Filter: bpf.Filter{NotPIDs: []uint32{5}}}); !errors.Is(err, errNoSuch) || err.Error() != fmt.Sprintf("5: %v", errNoSuch) {
		t.Errorf("error %v", err)
	}
}

// TestPIDSpaceInitial: in the initial namespace PIDs are what they are, those of
// processes that do not run as well.
func TestPIDSpaceInitial(t *testing.T) {
	self := uint32(os.Getpid())
	listed := &pidSpace{list: func() (bpf.Namespace, map[uint32]uint32, error) {
		return bpf.Namespace{}, map[uint32]uint32{self: self}, nil
	}}
	if err := listed.read(); err != nil {
		t.Fatal(err)
	}
	filter := bpf.Filter{PIDs: []uint32{7}}
	got := bpf.Settings{Filter: filter}
	if err := listed.set(&got); err != nil || !reflect.DeepEqual(got, bpf.Settings{Self: self, Filter: filter}) {
		t.Errorf("settings %+v, %v", got, err)
	}
	if pid, err := listed.global(7); pid != 7 || err != nil {
		t.Errorf("7 is %d, %v", pid, err)
	}
}

// TestPIDSpaceWithoutSelf: a list that ksnoop is not in is of no use.
func TestPIDSpaceWithoutSelf(t *testing.T) {
	s := &pidSpace{list: func() (bpf.Namespace, map[uint32]uint32, error) {
		return bpf.Namespace{Addr: 1, Level: 1}, map[uint32]uint32{1 << 30: 1}, nil
	}}
	if err := s.read(); err == nil {
		t.Error("no fault")
	}
}
