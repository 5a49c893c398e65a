// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm"
)

// TestShareOut: kernels with all features share tests and repeats; those of a smoke run have a share of the repeats,
// if there is one.
func TestShareOut(t *testing.T) {
	t.Setenv(vm.KernelsEnv, "")
	var kernels []target
	for _, c := range vm.Choices(vm.TestKernels) {
		kernels = append(kernels, target{Kernel: vm.Kernel{Name: c.Name}, smoke: c.Smoke})
	}
	shareOut(kernels, 0)
	var whole, smoke []string
	for _, k := range kernels {
		if k.smoke {
			smoke = append(smoke, k.share.String())
		} else {
			whole = append(whole, k.share.String())
		}
	}
	if !slices.Equal(whole, []string{"0/2", "1/2"}) || !slices.Equal(smoke, []string{"0/2", "1/2", "0/2"}) {
		t.Errorf("shares %q, of smoke runs %q", whole, smoke)
	}
	alone := []target{{smoke: true}, {}}
	if shareOut(alone, 1); alone[0].share != (share{}) || alone[1].share.String() != "0/1" {
		t.Errorf("shares with one kernel that has all features: %v, %v", alone[0].share, alone[1].share)
	}
}

// TestOthers: in each turn one of the guests runs a test, in the next another one; all run those of onEach.
func TestOthers(t *testing.T) {
	pkg := &livePackage{Dir: "../../livetest"}
	files, err := filepath.Glob(pkg.Dir + "/*_live_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		pkg.XTestGoFiles = append(pkg.XTestGoFiles, filepath.Base(f))
	}
	tests, err := pkg.liveTests()
	if err != nil || len(tests) < 100 {
		t.Fatalf("%d live tests, %v", len(tests), err)
	}
	for _, name := range tests {
		runs := "" // which guests run it in four turns
		for turn := range 4 {
			for mine := range 2 {
				if !slices.Contains(share{mine, 2, turn}.others(tests), name) {
					runs += strconv.Itoa(mine)
				}
			}
		}
		each := slices.Contains(onEach[:], name)
		if each && runs != "01010101" || !each && runs != "0101" && runs != "1010" {
			t.Errorf("%s runs in the guests %s", name, runs)
		}
		// What else there is does not decide.
		if first := slices.Contains(share{0, 2, 0}.others(tests), name); first != slices.Contains(share{0, 2, 0}.others([]string{name}), name) {
			t.Errorf("%s alone runs elsewhere", name)
		}
	}
	for turn := range 2 {
		if n := len(share{0, 2, turn}.others(tests)); n < len(tests)/4 || n > len(tests)/2 {
			t.Errorf("turn %d: %d of %d tests are left to the other guest", turn, n, len(tests))
		}
	}
	if n := len(share{}.others(tests)) + len(share{0, 1, 3}.others(tests)); n != 0 {
		t.Errorf("a guest that shares nothing leaves out %d tests", n)
	}
}

// TestHalved: the two guests of a kernel have each of its tests once.
func TestHalved(t *testing.T) {
	var order []string
	for _, k := range halved([]target{{Kernel: vm.Kernel{Name: "a"}}, {Kernel: vm.Kernel{Name: "b"}}, {Kernel: vm.Kernel{Name: "c"}, smoke: true}, {Kernel: vm.Kernel{Name: "d"}, smoke: true}}) {
		order = append(order, fmt.Sprint(k.Name, int(k.half)))
	}
	if want := []string{"a1", "b1", "a2", "b2", "c0", "d0"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
	tests := []string{"TestLiveStack", "TestLiveKernels", "TestLiveMethods", "TestLiveTour", "TestLiveJSON", "TestLiveFilters"}
	first, second := half(1).others(tests), half(2).others(tests)
	if both := slices.Sorted(slices.Values(slices.Concat(first, second))); !slices.Equal(both, slices.Sorted(slices.Values(tests))) || len(first) == 0 || len(second) == 0 {
		t.Errorf("left to others are %q and %q", first, second)
	}
	if all := half(0).others(tests); len(all) != 0 {
		t.Errorf("one guest leaves out %q", all)
	}
}

// TestRepeats: in four turns each guest has each half of the tests with each half of the repeats.
func TestRepeats(t *testing.T) {
	got := map[string]bool{}
	for turn := range 4 {
		for mine := range 2 {
			s := share{mine, 2, turn}
			got[fmt.Sprint(mine, s.others([]string{"TestLiveStack"}), s)] = true
		}
	}
	for mine := range 2 {
		s, again := share{mine, 2, 65535}, share{mine, 2, 65535 % 4}
		if s.String() != again.String() || len(s.others([]string{"TestLiveStack"})) != len(again.others([]string{"TestLiveStack"})) {
			t.Errorf("%v is not shared as %v", s, again)
		}
	}
	if len(got) != 8 {
		t.Errorf("%d different ones in four turns: %v", len(got), got)
	}
}
