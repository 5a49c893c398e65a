// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm"
)

// TestShareOut: kernels that have all tests share the repeats; those of a smoke run have none.
func TestShareOut(t *testing.T) {
	t.Setenv(vm.KernelsEnv, "")
	var kernels []target
	for _, c := range vm.Choices(vm.TestKernels) {
		kernels = append(kernels, target{Kernel: vm.Kernel{Name: c.Name}, smoke: c.Smoke})
	}
	shareOut(kernels)
	var shares []string
	for _, k := range kernels {
		if k.smoke == (k.share != (share{})) {
			t.Errorf("%s: smoke %v, share %s", k.Name, k.smoke, k.share)
		}
		if !k.smoke {
			shares = append(shares, k.share.String())
		}
	}
	if !slices.Equal(shares, []string{"0/2", "1/2"}) {
		t.Errorf("shares %q", shares)
	}
}

// TestOnce: each test that runs once exists, runs in one of the guests that share them, and in one that shares nothing.
func TestOnce(t *testing.T) {
	have := liveTestNames(t)
	first, second := share{0, 2}.others(), share{1, 2}.others()
	for _, name := range livetest.Once {
		if have[name] != 1 || slices.Contains(first, name) == slices.Contains(second, name) {
			t.Errorf("%s: there are %d of it; left to others by the first: %v, by the second: %v", name, have[name], slices.Contains(first, name), slices.Contains(second, name))
		}
	}
	if n := len(share{}.others()) + len(share{0, 1}.others()); n != 0 {
		t.Errorf("a guest that shares nothing leaves out %d tests", n)
	}
}
