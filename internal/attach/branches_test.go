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

// Drivers offer snapshots, and the static call itself does not; where none does,
// it is not the hardware that is to blame.
func TestOffersSnapshot(t *testing.T) {
	for symbols, want := range map[string]bool{
		"0 T vfs_read\n0 t intel_pmu_snapshot_branch_stack\n":                            true,
		"0 t amd_pmu_v2_snapshot_branch_stack\n":                                         true,
		"0 d __SCK__perf_snapshot_branch_stack\n0 t __SCT__perf_snapshot_branch_stack\n": false,
		"0 t brbe_read_filtered_entries\n0 T bpf_get_branch_snapshot\n":                  false,
	} {
		if got, err := offersSnapshot(fstest.MapFS{"kallsyms": {Data: []byte(symbols)}}); got != want || err != nil {
			t.Errorf("%q: %v, %v", symbols, got, err)
		}
	}
	if _, err := offersSnapshot(fstest.MapFS{}); err == nil {
		t.Error("no symbols, no error")
	}
	if text := (&NoBranchesError{errNoSnapshot}).Error(); strings.Contains(text, "LBR") {
		t.Errorf("%q is about hardware", text)
	}
}

// What it takes is said, and what may be in the way.
func TestNoBranchesError(t *testing.T) {
	for err, hint := range map[error]string{unix.ENOENT: "virtual machines", unix.EACCES: "root", unix.EBUSY: "nobody else", unix.EINVAL: "kinds"} {
		text := (&NoBranchesError{fmt.Errorf("cpu 0: %w", err)}).Error()
		for _, want := range []string{"Intel LBR", "AMD LbrExtV2", hint} {
			if !strings.Contains(text, want) {
				t.Errorf("%v: %q does not say %q", err, text, want)
			}
		}
		if !errors.Is(&NoBranchesError{err}, err) {
			t.Errorf("%v is not wrapped", err)
		}
	}
}
