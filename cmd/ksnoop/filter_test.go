// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestFilterItself: ksnoop leaves itself out of all that it traces, so its own PID would select nothing. What leaves it out says no
// more than that.
func TestFilterItself(t *testing.T) {
	own := uint(os.Getpid())
	for name, tt := range map[string]struct {
		flags filterFlags
		want  string
	}{
		"process":           {filterFlags{pids: []uint{own}}, "that is ksnoop itself"},
		"and its children":  {filterFlags{pids: []uint{own}, follow: true}, "that is ksnoop itself"},
		"beside another":    {filterFlags{pids: []uint{1, own}}, "that is ksnoop itself"},
		"thread":            {filterFlags{tids: []uint{own}}, "that is a thread of ksnoop itself"},
		"left out":          {filterFlags{notPIDs: []uint{own}}, ""},
		"another":           {filterFlags{pids: []uint{1}}, ""},
		"another's threads": {filterFlags{tids: []uint{1}}, ""},
	} {
		_, err := tt.flags.filter(false)
		var usage usageError
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (!errors.As(err, &usage) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v", name, err)
		}
	}
}
