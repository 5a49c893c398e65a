// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"strings"
	"testing"
)

// TestStyle: a Writer with colours shows marks as sequences, however the text is cut. One
// without escapes them, and so does AppendName.
func TestStyle(t *testing.T) {
	text := append(AppendStyle(nil, Bad), "é"...)
	text = append(AppendStyle(text, Plain), "\x1b[31m\u009b"...)
	text = append(text, "\U0010ff05 \U0010feff\n"...) // other private runes
	const want = "\x1b[31mé\x1b[0m" + `\x1b[31m\xc2\x9b\xf4\x8f\xbc\x85 \xf4\x8f\xbb\xbf` + "\n"
	for cut := range text {
		var out bytes.Buffer
		w := NewWriter(&out)
		w.Colour(true)
		for _, part := range [][]byte{text[:cut], text[cut:]} {
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != want {
			t.Errorf("cut at %d: %q, want %q", cut, &out, want)
		}
	}
	var out strings.Builder
	if _, err := NewWriter(&out).Write(text); err != nil || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%v, without colours: %q", err, out.String())
	}
	for s := range styles {
		if got := Name(string(AppendStyle(nil, s))); strings.ContainsRune(got, firstMark+rune(s)) {
			t.Errorf("a name keeps the mark of style %d: %q", s, got)
		}
	}
	if w := NewWriter(&out); w.IsTerminal() {
		t.Error("a strings.Builder is a terminal")
	}
}

// TestStyledLayout: marks do not keep newlines and tabs from being shown as they are.
func TestStyledLayout(t *testing.T) {
	if got := string(appendStyled(nil, []byte("a\t"+string(AppendStyle(nil, Strong))+"b\n\xf4\x8f\xbc"))); got != "a\t\x1b[1mb\n"+`\xf4\x8f\xbc` {
		t.Errorf("%q", got)
	}
}
