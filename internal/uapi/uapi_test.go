// SPDX-License-Identifier: Apache-2.0

package uapi

import (
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The look-up is a binary search.
func TestSorted(t *testing.T) {
	for _, table := range [][]constant{shared, ofAMD64, ofARM64} {
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
		if got, ok := Value(name, runtime.GOARCH); !ok || got != want {
			t.Errorf("%s is %d, %v, want %d", name, got, ok, want)
		}
	}
	for _, name := range []string{"", "A", "ZZZ", "O_NOFOLLO"} {
		if v, ok := Value(name, runtime.GOARCH); ok {
			t.Errorf("%q is %d", name, v)
		}
	}
}

// Values of arch/*/include/uapi/asm/fcntl.h, and of include/uapi/asm-generic/fcntl.h for what an
// architecture does not define.
func TestArchitectures(t *testing.T) {
	for name, want := range map[string][2]int64{
		"O_DIRECT":    {0o40000, 0o200000},
		"O_LARGEFILE": {0o100000, 0o400000},
		"O_DIRECTORY": {0o200000, 0o40000},
		"O_NOFOLLOW":  {0o400000, 0o100000},
		"O_TMPFILE":   {0o20000000 | 0o200000, 0o20000000 | 0o40000},
		"O_CLOEXEC":   {0o2000000, 0o2000000},
	} {
		for i, arch := range []string{"amd64", "arm64"} {
			if got, ok := Value(name, arch); !ok || got != want[i] {
				t.Errorf("%s of %s is %#o, want %#o", name, arch, got, want[i])
			}
		}
	}
	if _, ok := Value("MAP_32BIT", "arm64"); ok {
		t.Error("MAP_32BIT is of amd64 alone")
	}
}

func TestNames(t *testing.T) {
	names := slices.Collect(Names(runtime.GOARCH))
	if len(names) < 4000 || len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
		t.Errorf("%d names, not all different", len(names))
	}
	for _, name := range names {
		if _, ok := Value(name, runtime.GOARCH); !ok {
			t.Errorf("%s has no value", name)
		}
	}
	for name := range Names(runtime.GOARCH) { // may be left early
		if name != names[0] {
			t.Errorf("%s is the first", name)
		}
		break
	}
}
