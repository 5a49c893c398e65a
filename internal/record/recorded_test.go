// SPDX-License-Identifier: Apache-2.0

package record

import (
	"os"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
)

// TestRecordings reads what was recorded in a guest.
func TestRecordings(t *testing.T) {
	for _, c := range []struct {
		file     string
		sessions bool
		records  int
	}{
		{"../../testdata/calls.ks", false, 3},   // the workload reads so often
		{"../../testdata/sessions.ks", true, 1}, // it makes one call that fails
	} {
		data, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		r, raw, err := read(data)
		if err != nil {
			t.Fatalf("%s: %v", c.file, err)
		}
		if end := r.Losses(); len(raw) != c.records || (r.info.Sessions != nil) != c.sessions || end.Lost[bpf.LostRingbuf] != 0 || end.Cut != 0 {
			t.Errorf("%s: %d records, want %d; sessions: %+v, lost: %+v", c.file, len(raw), c.records, r.info.Sessions, end)
		}
	}
}
