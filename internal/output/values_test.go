// SPDX-License-Identifier: Apache-2.0

package output

import (
	"strings"
	"testing"
)

func TestCutLines(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"abcdef", 0, "abcdef"},
		{"abcdef", 6, "abcdef"},
		{"abcdef", 5, "ab..."},
		{"→→→→→→", 6, "→→→→→→"},
		{"→→→→→→", 5, "→→..."},
		{"short\nabcdefghi\n\nlast one", 6, "short\nabc...\n\nlas..."},
		{"ab\n", 1, "...\n"},
	} {
		if got := string(cutLines([]byte("name="+c.text), len("name="), c.width)); got != "name="+c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// TestWidths: no value takes more columns than it gets, in any layout.
func TestWidths(t *testing.T) {
	for _, form := range []ArgsForm{ArgsCompact, ArgsMultiline, ArgsVerbose} {
		r := fakeResolver{}
		o, sessions := sessionCases(t)["compact"](r)
		s := sessions[0]
		text := strings.Repeat("0123456789", 20)
		for i := range s.Chain.Frames[1].Values.Args {
			if a := &s.Chain.Frames[1].Values.Args[i]; a.Text {
				a.Target = []byte(text)
			}
		}
		o.Resolver, o.Boot, o.Args, o.ArgsWidth = r, boot, form, DefaultArgsWidth
		got, err := NewSessions(o).AppendSession(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(got), text[:DefaultArgsWidth]) || !strings.Contains(string(got), text[:DefaultArgsWidth-40]) {
			t.Errorf("%s: a text of %d bytes is not cut to %d columns:\n%s", form, len(text), DefaultArgsWidth, got)
		}
	}
}
