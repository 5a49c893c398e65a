// SPDX-License-Identifier: Apache-2.0

package plural

import "testing"

func TestOf(t *testing.T) {
	for _, c := range []struct {
		n          uint64
		text, want string
	}{
		{0, "call{s}", "0 calls"},
		{1, "call{s}", "1 call"},
		{2, "call{s}", "2 calls"},
		{1, "process{es} not followed", "1 process not followed"},
		{3, "{entry|entries}", "3 entries"},
		{1, "record{s} without {its|their} branches", "1 record without its branches"},
		{1 << 63, "record{s} without {its|their} branches", "9223372036854775808 records without their branches"},
		{1, "of them", "1 of them"},
		{1, "open {", "1 open "}, // no text of ours
		{1, "", "1 "},
	} {
		if got := Of(c.n, c.text); got != c.want {
			t.Errorf("%d of %q: %q, want %q", c.n, c.text, got, c.want)
		}
	}
	if got := Text(1, "call{s} ended"); got != "call ended" {
		t.Error(got)
	}
}
