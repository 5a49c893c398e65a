// SPDX-License-Identifier: Apache-2.0

package output

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// TestFitted: a line is cut to the columns that it takes; styles take none, and end where it
// is cut.
func TestFitted(t *testing.T) {
	style := func(s terminal.Style) string { return string(terminal.AppendStyle(nil, s)) }
	strong, plain := style(terminal.Strong), style(terminal.Plain)
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"abcdef", 6, "abcdef"},
		{"abcdef", 5, "ab..."},
		{"→→→→→→", 5, "→→..."},
		{strong + "abcdef" + plain, 6, strong + "abcdef" + plain},
		{strong + "abcdef" + plain, 5, strong + "ab" + plain + "..."},
		{"abc" + strong + "def" + plain + "ghi", 6, "abc" + strong + plain + "..."},
		{"", 5, ""},
	} {
		if got := string(appendFitted([]byte("x"), []byte(c.line), c.width)); got != "x"+c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.line, c.width, got, c.want)
		}
	}
	columns := 0
	printer := NewCompactCalls(Names{}, 0)
	printer.Columns = func() int { return columns }
	for _, columns = range []int{0, 90, 50} {
		got := string(printer.fit([]byte("above\n"+strings.Repeat("0123456789", 10)+"\n"), len("above\n")))
		want := 100
		if columns > 0 {
			want = max(columns, leastLine)
		}
		if !strings.HasPrefix(got, "above\n0123") || len(got) != len("above\n\n")+want || strings.HasSuffix(got, "...\n") != (columns > 0) {
			t.Errorf("%d columns: %q", columns, got)
		}
	}
}
