// SPDX-License-Identifier: Apache-2.0

package uapi

import (
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The look-up is a binary search.
func TestSorted(t *testing.T) {
	for _, table := range tables {
		if !slices.IsSortedFunc(table, func(a, b constant) int { return strings.Compare(a.name, b.name) }) {
			t.Error("a table of constants is not sorted")
		}
	}
}

// Values that Go's own package has from other headers; O_NOFOLLOW differs between
// architectures.
func TestValue(t *testing.T) {
	for name, want := range map[string]int64{
		"AF_INET6": syscall.AF_INET6, "O_NOFOLLOW": syscall.O_NOFOLLOW, "O_CLOEXEC": syscall.O_CLOEXEC, "CLONE_NEWNS": syscall.CLONE_NEWNS,
		"IPPROTO_TCP": syscall.IPPROTO_TCP, "SIGKILL": int64(syscall.SIGKILL), "EINVAL": int64(syscall.EINVAL), "MS_RDONLY": syscall.MS_RDONLY,
	} {
		if got, ok := Value(name); !ok || got != want {
			t.Errorf("%s is %d, %v, want %d", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "A", "ZZZ", "O_NOFOLLO"} {
		if v, ok := Value(name); ok {
			t.Errorf("%q is %d", name, v)
		}
	}
}

func TestNames(t *testing.T) {
	names := slices.Collect(Names())
	if len(names) < 4000 || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
		t.Errorf("%d names, not all different", len(names))
	}
	for _, name := range names {
		if _, ok := Value(name); !ok {
			t.Errorf("%s has no value", name)
		}
	}
	for name := range Names() { // may be left early
		if name != names[0] {
			t.Errorf("%s is the first", name)
		}
		break
	}
}
