// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

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
		if k.smoke == (k.share != "") {
			t.Errorf("%s: smoke %v, share %q", k.Name, k.smoke, k.share)
		}
		if k.share != "" {
			shares = append(shares, k.share)
		}
	}
	if !slices.Equal(shares, []string{"0/2", "1/2"}) {
		t.Errorf("shares %q", shares)
	}
}
