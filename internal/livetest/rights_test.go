// SPDX-License-Identifier: Apache-2.0

package livetest

import (
	"os"
	"strings"
	"testing"
)

// TestRightsDocumented: the table is what the live test tries.
func TestRightsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/safety.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range Rights {
		names := []string{"nothing"}
		for i, c := range r.Needs {
			names = append(names[:i], CapabilityNames[c])
		}
		if row := "| " + r.Feature + " | " + strings.Join(names, ", ") + " |\n"; !strings.Contains(string(text), row) {
			t.Errorf("docs/safety.md lacks\n%s", row)
		}
	}
}
