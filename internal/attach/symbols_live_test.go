// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveSearchSymbols: a search finds the lines that /proc/kallsyms has, with
// names of any length, of vmlinux and of modules, hidden addresses or not.
func TestLiveSearchSymbols(t *testing.T) {
	guest.Require(t)
	const file = "/proc/sys/kernel/kptr_restrict"
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(file, before, 0); err != nil {
			t.Error(err)
		}
	})
	// Their first 8 bytes are all that a search looks at.
	names := []string{"vfs_read", "tun_get_user", "fput", "ip_send_skb", "name_of_nothing"}
	for _, restrict := range []string{"1", "2"} {
		if err := os.WriteFile(file, []byte(restrict), 0); err != nil {
			t.Fatal(err)
		}
		all, err := os.ReadFile("/proc/kallsyms")
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for line := range strings.Lines(string(all)) {
			name := strings.Fields(line)[2]
			if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(name, n[:min(len(n), 8)]) }) {
				want = append(want, strings.TrimLeft(line, "0"))
			}
		}
		found, err := SearchSymbols(kernel.OpenRunning())(names)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(found)
		if err != nil {
			t.Fatal(err)
		}
		found.Close()
		var lines []string
		for line := range bytes.Lines(got) {
			lines = append(lines, strings.TrimLeft(string(line), "0"))
		}
		if !slices.Equal(lines, want) || len(want) < 4 {
			t.Errorf("kptr_restrict %s: found\n%swant\n%s", restrict, strings.Join(lines, ""), strings.Join(want, ""))
		}
	}
}
