// SPDX-License-Identifier: Apache-2.0

package folded_test

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/folded"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/summary"
)

func TestCheck(t *testing.T) {
	k := formattest.New(t, "t_")
	for spec, want := range map[string]string{"t_read(count()[$stack])": "", "t_read(sum(count)[$pid, $ustack])": "", "t_read(count()[$pid])": "$stack or $ustack as a key",
		"t_read(hist(count)[$stack])": "count() or sum(x)", "t_read(count()[$stack], sum(count)[$stack])": "one item", "t_read(count)": "one item"} {
		k.Calls(spec)
		if err := folded.Check(summary.Of(k.Run.Plan)); err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}
