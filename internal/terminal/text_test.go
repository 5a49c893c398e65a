// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"
)

// unwanted are the properties, by the Unicode standard, of what a terminal acts
// on or shows in another order or not at all.
var unwanted = []*unicode.RangeTable{unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Cs}

// safe reports whether nothing in a text can act on a terminal.
func safe(text []byte, keep string) bool {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 || unicode.In(r, unwanted...) && !strings.ContainsRune(keep, r) {
			return false
		}
		text = text[n:]
	}
	return true
}

func TestName(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"", ""},
		{"ip_send_skb.isra.0", "ip_send_skb.isra.0"},
		{"größe→日本🙂", "größe→日本🙂"},
		{`C:\x1b\n"'`, `C:\x1b\n"'`},
		{"a\x1b]0;owned\x07b", `a\x1b]0;owned\x07b`},
		{"a\nb\tc\rd\x00\x7f", `a\nb\tc\rd\x00\x7f`},
		{"\u009b31m", `\xc2\x9b31m`},
		{"\x9b31m", `\x9b31m`}, // the same in Latin-1
		{"abc\u202edef\u2066\u200e\u061c", `abc\xe2\x80\xaedef\xe2\x81\xa6\xe2\x80\x8e\xd8\x9c`},
		{"a\u00a0b\u2028c\ufeff", `a\xc2\xa0b\xe2\x80\xa8c\xef\xbb\xbf`},
		{"\xed\xa0\x80\xf4\x90\x80\x80\xc0\x9b\xe2\x80", `\xed\xa0\x80\xf4\x90\x80\x80\xc0\x9b\xe2\x80`}, // surrogate, too large, too long, cut
		{"\ufffd", "\ufffd"},
	} {
		if got := Name(test.name); got != test.want {
			t.Errorf("%q: %s, want %s", test.name, got, test.want)
		}
		if got := string(AppendName([]byte("x"), []byte(test.name))); got != "x"+test.want {
			t.Errorf("%q: appended as %s, want x%s", test.name, got, test.want)
		}
		if got := Name(test.want); got != test.want {
			t.Errorf("%s: a second time %s", test.want, got)
		}
	}
}

// No rune that the Unicode standard gives such a property is shown raw, and all
// letters and digits are.
func TestEveryRune(t *testing.T) {
	for r := range rune(unicode.MaxRune + 1) {
		encoded := string(r)
		name := Name(encoded)
		if !safe([]byte(name), "") {
			t.Errorf("%U is shown as %q", r, name)
		}
		if unicode.In(r, unicode.L, unicode.N) && name != encoded {
			t.Errorf("%U is shown as %s", r, name)
		}
	}
	for b := range 256 {
		if name := Name(string([]byte{byte(b)})); !safe([]byte(name), "") {
			t.Errorf("byte %#x is shown as %q", b, name)
		}
	}
}

func TestClean(t *testing.T) {
	const clean = "vfs_read größe"
	dst := make([]byte, 0, 100)
	if n := testing.AllocsPerRun(100, func() { dst = AppendName(dst[:0], clean); dst = AppendName(dst, "\x1b\u009b"); _ = Name(clean) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Text passes the Writer with its lines, however it was cut.
func TestWriter(t *testing.T) {
	const text = "größe → 日本🙂\n\tnext\x1b[31m \u009b2J\r\n \u202e\xff \xe2\x80 end\xf0\x9f\x99"
	const want = "größe → 日本🙂\n\tnext\\x1b[31m \\xc2\\x9b2J\\r\n \\xe2\\x80\\xae\\xff \\xe2\\x80 end\\xf0\\x9f\\x99"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := NewWriter(&out)
		for at := 0; at < len(text); at += size {
			piece := text[at:min(at+size, len(text))]
			if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("in pieces of %d: %s", size, out.String())
		}
	}
	failing := NewWriter(iotest.TruncateWriter(failingWriter{}, 0))
	if _, err := failing.Write([]byte("text")); err != nil {
		t.Error("a writer that drops what it gets:", err)
	}
	if _, err := NewWriter(failingWriter{}).Write([]byte("text\xe2")); err != errFailed {
		t.Error(err)
	}
}

var errFailed = iotest.ErrTimeout

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errFailed }

// What is not to be escaped is not copied either.
func TestWriterAllocates(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	line := []byte("        return = (int)0 größe\n")
	if n := testing.AllocsPerRun(100, func() { out.Reset(); w.Write(line) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkWriter(b *testing.B) {
	w := NewWriter(discard{})
	text := bytes.Repeat([]byte("            workload     154    1         5.575847 array_map_alloc_check(\n"), 60)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		w.Write(text)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// A literal is read back by Go, whose strings have the same escapes.
func FuzzLiteral(f *testing.F) {
	f.Add([]byte("\x1b[0m\"\\\n\u202e\xff"), 1)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		literal := AppendLiteral(nil, text)
		if back, err := strconv.Unquote(`"` + string(literal) + `"`); err != nil || back != string(text) || !safe(literal, "") {
			t.Errorf("%q: %s, %v", text, literal, err)
		}
		name := AppendName(nil, text)
		if !safe(name, "") || !bytes.Equal(AppendName(nil, name), name) {
			t.Errorf("%q: %q", text, name)
		}
		var out bytes.Buffer
		w := NewWriter(&out)
		cut = min(max(cut, 0), len(text))
		w.Write(text[:cut])
		w.Write(text[cut:])
		w.Flush()
		if !safe(out.Bytes(), "\n\t") || !bytes.Equal(out.Bytes(), appendEscaped(nil, text, "\n\t")) {
			t.Errorf("%q cut at %d: %q", text, cut, out.Bytes())
		}
	})
}
