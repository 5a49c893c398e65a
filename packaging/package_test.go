// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"testing"
)

// TestPackageVersion: dpkg orders the versions of packages as Go orders those of the module.
func TestPackageVersion(t *testing.T) {
	ordered := []string{"0.0.0-20261124050825-9e62b23c9f7d", "0.1.0-rc.1", "0.1.0", "0.1.1-0.20261125000000-0123456789ab", "0.1.1", "0.10.0"}
	want := []string{"0.0.0~20261124050825.9e62b23c9f7d", "0.1.0~rc.1", "0.1.0", "0.1.1~0.20261125000000.0123456789ab", "0.1.1", "0.10.0"}
	for i, v := range ordered {
		if got := packageVersion(v); got != want[i] {
			t.Errorf("%s: %s, want %s", v, got, want[i])
		}
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg is not installed: it orders the versions")
	}
	for i := range ordered[1:] {
		if err := exec.Command("dpkg", "--compare-versions", packageVersion(ordered[i]), "lt", packageVersion(ordered[i+1])).Run(); err != nil {
			t.Errorf("%s is not before %s: %v", ordered[i], ordered[i+1], err)
		}
	}
}
