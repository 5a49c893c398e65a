// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"strings"
	"testing"
)

func TestFilterCheck(t *testing.T) {
	seventeen := make([]uint32, 17)
	for _, c := range []struct {
		filter Filter
		want   string // of the error; empty: none
	}{
		{Filter{}, ""},
		{Filter{PIDs: seventeen[:16], Comms: []string{"a", "b*", "*c*d"}}, ""},
		{Filter{PIDs: seventeen}, "a filter of 17 processes: there can be 16"},
		{Filter{NotPIDs: seventeen}, "17 processes left out"},
		{Filter{TIDs: seventeen}, "17 threads"},
		{Filter{UIDs: seventeen}, "17 users"},
		{Filter{Comms: []string{""}}, `task name "": it is empty`},
		{Filter{NotComms: []string{"a\x00b"}}, "zero byte"},
		{Filter{Comms: []string{"*abcdefghijklmnop"}}, "at most 15 bytes"},
		{Filter{Comms: []string{strings.Repeat("a*", 17)}}, "more than 16 parts"},
	} {
		err := c.filter.Check()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c.filter, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v, want %q in it", c.filter, err, c.want)
		}
		if _, err := Engine(Settings{Filter: c.filter, RingSize: 4096}); (err != nil) != (c.want != "") {
			t.Errorf("%+v: the engine says %v", c.filter, err)
		}
	}
}

func TestFilterActive(t *testing.T) {
	for _, c := range []struct {
		filter           Filter
		active, fleeting bool
	}{
		{Filter{}, false, false},
		{Filter{PIDs: []uint32{1}}, true, false},
		{Filter{NotPIDs: []uint32{1}}, true, false},
		{Filter{TIDs: []uint32{1}}, true, false},
		{Filter{NoIRQ: true}, true, false},
		{Filter{UIDs: []uint32{1}}, true, true},
		{Filter{Comms: []string{"a"}}, true, true},
		{Filter{NotComms: []string{"a"}}, true, true},
		{Filter{Family: true}, true, true},
		{Filter{Cgroup: Cgroup{ID: 1}}, true, true},
	} {
		if c.filter.Active() != c.active || c.filter.Fleeting() != c.fleeting {
			t.Errorf("%+v: active %v, fleeting %v", c.filter, c.filter.Active(), c.filter.Fleeting())
		}
	}
}

// TestPlainComms: one name, or how it begins, is compared at once.
func TestPlainComms(t *testing.T) {
	for _, c := range []struct {
		globs string
		plain bool
	}{
		{"", false}, {"a", true}, {"a*", true}, {"abcdefghijklmnopq", true},
		{"a b", false}, {"a*b", false}, {"*a", false}, {"a?", false},
	} {
		comms, err := encodeComms(strings.Fields(c.globs))
		if err != nil || (comms.Plain == 1) != c.plain {
			t.Errorf("%q: plain %d, %v", c.globs, comms.Plain, err)
		}
	}
}
