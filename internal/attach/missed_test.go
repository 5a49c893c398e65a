// SPDX-License-Identifier: Apache-2.0

package attach

import "testing"

func TestMissedInProfile(t *testing.T) {
	profile := "  entry1_77                                                   12               3\n" +
		"  entry1_7                                                     5               9\n" +
		"  entry1_77                                                    0               4\n"
	for name, want := range map[string]uint64{"entry1_77": 7, "entry1_7": 9, "entry1": 0} {
		if got, err := missedInProfile([]byte(profile), name); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", name, got, err, want)
		}
	}
	if _, err := missedInProfile([]byte("a 1 b\n"), "a"); err == nil {
		t.Error("letters were taken for a number")
	}
}
