// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// Files are as the kernel's cgroup-v2.rst and cgroups(7) have them.
func TestGroupMemory(t *testing.T) {
	for _, tt := range []struct {
		name   string
		group  string
		limits map[string]string
		want   uint64
	}{
		{"none", "0::/\n", nil, math.MaxUint64},
		{"no control groups", "", map[string]string{"": "5"}, math.MaxUint64},
		{"no limit", "0::/a/b\n", map[string]string{"/a": "max\n", "/a/b": "max\n"}, math.MaxUint64},
		{"its own", "0::/a/b\n", map[string]string{"/a": "max\n", "/a/b": "67108864\n"}, 64 << 20},
		{"one above", "0::/a/b\n", map[string]string{"/a": "1000\n", "/a/b": "67108864\n", "/c": "5\n"}, 1000},
		{"in a container", "0::/\n", map[string]string{"": "4096\n"}, 4096},
		{"of a container without a namespace", "0::/system.slice/docker-12.scope\n", map[string]string{"": "4096\n"}, 4096},
		{"outside of the namespace", "0::/../a\n", map[string]string{"": "4096\n"}, 4096},
		{"beside version 1", "12:memory:/x\n1:name=systemd:/x\n0::/a\n", map[string]string{"/a": "77\n"}, 77},
	} {
		root := fstest.MapFS{"proc/self/cgroup": {Data: []byte(tt.group)}}
		for group, limit := range tt.limits {
			root["sys/fs/cgroup"+group+"/memory.max"] = &fstest.MapFile{Data: []byte(limit)}
		}
		if got := groupMemory(root); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestTooManyReturns: kretprobes must not take a large part of a machine with many CPUs.
func TestTooManyReturns(t *testing.T) {
	for _, c := range []struct {
		functions, cpus, page int
		memory                uint64
		refused               bool
	}{
		{1652, 2, 4096, 2 << 30, false}, {5000, 64, 4096, 256 << 30, false}, {40_000, 64, 4096, 64 << 30, true},
		{5000, 128, 4096, 8 << 30, true}, {1000, 144, 64 << 10, 32 << 30, true}, {100, 144, 64 << 10, 32 << 30, false},
	} {
		if err := tooManyReturns(c.functions, c.cpus, c.page, c.memory); (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// Those of several events count together.
	t612 := Options{Kernel: kernel.Open(fstest.MapFS{"proc/sys/kernel/osrelease": {Data: []byte("6.12.0\n")}})}
	many := &Tracer{options: t612, kretprobes: 1 << 30}
	if err := many.affordReturns(1, atReturn); err == nil || !strings.Contains(err.Error(), fmt.Sprint(1<<30+1)) {
		t.Errorf("one more than 2^30: %v", err)
	}
	if err := many.affordReturns(1, atEntry); err != nil {
		t.Errorf("at entry: %v", err)
	}
}
