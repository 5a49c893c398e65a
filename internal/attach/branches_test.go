// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

func TestParseBranchKinds(t *testing.T) {
	for _, c := range []struct {
		text string
		want BranchKinds // as in the kernel's UAPI
	}{
		{"any", 1 << 3}, {DefaultBranches, 1 << 5}, {"cond,call", 1<<10 | 1<<13}, {" ind_call , 0x800", 1<<6 | 1<<11},
		{"any_call,abort_tx,in_tx,no_tx,ind_jump,call_stack", 1<<4 | 1<<7 | 1<<8 | 1<<9 | 1<<12 | 1<<11},
	} {
		if got, err := ParseBranchKinds(c.text); got != c.want || err != nil {
			t.Errorf("%s: %#x, %v; want %#x", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "return", "any,", "0", "-1", "any cond"} {
		if got, err := ParseBranchKinds(bad); err == nil || !strings.Contains(err.Error(), "any_return") {
			t.Errorf("%q: %#x, %v; want an error that lists the kinds", bad, got, err)
		}
	}
}

func TestCPUs(t *testing.T) {
	online, present, err := cpus(fstest.MapFS{"online": {Data: []byte("0-1,3\n")}, "present": {Data: []byte("0-3\n")}})
	if err != nil || !slices.Equal(online, []int{0, 1, 3}) || !slices.Equal(present, []int{0, 1, 2, 3}) {
		t.Errorf("%v %v %v", online, present, err)
	}
	for _, bad := range []string{"x", "1-", "-2", "1,,2", "70000"} {
		if got, err := parseCPUs(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

// What it takes is said, and what may be in the way.
func TestNoBranchesError(t *testing.T) {
	for err, hint := range map[error]string{unix.ENOENT: "virtual machines", unix.EACCES: "root", unix.EBUSY: "nobody else", unix.EINVAL: "kinds"} {
		text := (&NoBranchesError{fmt.Errorf("cpu 0: %w", err)}).Error()
		for _, want := range []string{"Intel LBR", "AMD LbrExtV2", "Arm BRBE", hint} {
			if !strings.Contains(text, want) {
				t.Errorf("%v: %q does not say %q", err, text, want)
			}
		}
		if !errors.Is(&NoBranchesError{err}, err) {
			t.Errorf("%v is not wrapped", err)
		}
	}
}
