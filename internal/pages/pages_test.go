// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/internal/pages"
)

const page = `# Title

    $ ksnoop replay a.ks
    one 12

    two
    # ksnoop trace \
        vfs_read -- cat
    text

<!-- run: lines 1, any numbers -->

    # ksnoop doctor
    types 5
    ...

* an item

      not code, but a part of it

<!-- not run: it takes a network -->
` + "```console\n# ksnoop trace x\n```\n" + `
    ksnoop info x     what it is
    sudo ksnoop 'f(a == 1)' # why

    f(x)
`

func parsed(t *testing.T, text string) *pages.Page {
	t.Helper()
	p, err := pages.Parse("docs/page.md", text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestParse: each command has its output, and what the comment says.
func TestParse(t *testing.T) {
	p := parsed(t, page)
	var got []string
	for _, b := range p.Blocks {
		for _, c := range b.Commands {
			where := map[bool]string{true: "guest", false: "here"}[b.Guest]
			if b.List {
				where = "list"
			}
			if b.NotRun != "" {
				where = "not: " + b.NotRun
			}
			got = append(got, where+"|"+c.Text+"|"+c.Remark+c.Output)
		}
	}
	want := []string{
		"guest|ksnoop replay a.ks|one 12\n\ntwo\n", "guest|ksnoop trace vfs_read -- cat|text\n", "guest|ksnoop doctor|types 5\n...\n",
		"not: it takes a network|ksnoop trace x|", "list|ksnoop info x|what it is", "list|sudo ksnoop 'f(a == 1)'|why",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	for _, wrong := range []string{"<!-- run: lines x -->\n\n    # ksnoop x\n", "<!-- run: guets -->\n\n    # ksnoop x\n", "<!-- run: guest -->\n\ntext\n", "<!-- run: guest -->\n\n    no command\n"} {
		if _, err := pages.Parse("x.md", wrong); err == nil || !strings.Contains(err.Error(), "x.md:") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// TestUpdated: what a command prints takes the place of what the page has, and nothing else changes.
func TestUpdated(t *testing.T) {
	p := parsed(t, page)
	var results []pages.Result
	says := map[string]string{"ksnoop replay a.ks": "one 13\n\ntwo  \n", "ksnoop trace vfs_read -- cat": "text", "ksnoop doctor": "types 99\nand more\n"}
	if err := p.Run(true, func(c string) (string, error) { return says[c], nil }, func(r pages.Result) { results = append(results, r) }); err != nil {
		t.Fatal(err)
	}
	if len(results) != 3 || results[0].Differs() == "" || results[1].Differs() != "" || results[2].Differs() != "" {
		t.Fatalf("%+v", results)
	}
	if got, want := p.Updated(results), strings.Replace(page, "one 12", "one 13", 1); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestDiffers: what differs between runs is not compared, and all else is.
func TestDiffers(t *testing.T) {
	const head = "    # ksnoop x\n    "
	for _, c := range []struct {
		page, printed string
		same          bool
	}{
		{"cat     149    0         8.070115 f(a = 3)", "cat 7  1  1234.070999 f(a = 3)", true},
		{"cat     149    0         8.070115 f(a = 3)", "cat 7  1  1234.070999 f(a = 4)", false},
		{"cat     149    0         8.070115 f(a = 3)", "dd 7  1  1234.070999 f(a = 3)", false},
		{"16:03:42.190899 -> 16:03:42.213963 TID/PID 155/155 (a/a):", "01:03:42.190899 -> 16:03:42.213963 TID/PID 5/155 (a/a):", true},
		{"  852us [-ENOENT]  f+0x55", " 1us [-ENOENT]  f+0x5", true},
		{"  852us [-ENOENT]  f+0x55", " 1us [-EINVAL]  f+0x55", false},
		{"flags = 0x8000", "flags = 0x8001", false},
		{"p = 0xff15ed7b0122b5f0", "p = 0xffff888101227600", true},
		{"one\n    ...\n    last", "one\ntwo\nthree\nlast", true},
		{"one\n    ...\n    last", "one\ntwo\nthree", false},
		{"one", "one\ntwo", false},
		{"one\n    two", "two\none", false},
	} {
		p := parsed(t, head+c.page+"\n")
		if err := p.Run(true, func(string) (string, error) { return c.printed, nil }, func(r pages.Result) {
			if diff := r.Differs(); (diff == "") != c.same {
				t.Errorf("%q and %q: %s", c.page, c.printed, diff)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTwoPrint: a traced command and ksnoop both print, and either may be first.
func TestTwoPrint(t *testing.T) {
	p := parsed(t, "    # ksnoop x -- cat\n    one\n\n    two\n")
	for printed, same := range map[string]bool{"two\none": true, "one\ntwo\ntwo": false, "one": false} {
		if err := p.Run(true, func(string) (string, error) { return printed, nil }, func(r pages.Result) {
			if diff := r.Differs(); (diff == "") != same {
				t.Errorf("%q: %s", printed, diff)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDryRun: what traces is tried without tracing.
func TestDryRun(t *testing.T) {
	p := parsed(t, `
    ksnoop info x
    sudo ./ksnoop 'f(a == AF_INET)' --for 5s   # why
    ksnoop trace --format json -o x.json -e f -- make
    ksnoop trace SPEC
    ksnoop replay FILE
    make build
    ksnoop :net/x.c         needs debug info
`)
	var got []string
	for _, c := range p.Blocks[0].Commands {
		got = append(got, c.DryRun())
	}
	if want := []string{"ksnoop info x", "ksnoop trace --dry-run 'f(a == AF_INET)' --for 5s", "ksnoop trace --dry-run -e f -- make", "", "", "", ""}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestLinks: every link in the repository's pages leads somewhere.
func TestLinks(t *testing.T) {
	root := os.DirFS("../..")
	all, err := pages.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range pages.BrokenLinks(root, all) {
		t.Error(fault)
	}
	links := 0
	for _, p := range all {
		links += len(p.Links())
	}
	if links < 50 {
		t.Errorf("%d lines with links: are they found?", links)
	}
}

// TestBrokenLinks: links are found broken.
func TestBrokenLinks(t *testing.T) {
	root := fstest.MapFS{
		"README.md": {Data: []byte("[a](docs/a.md#one-two) [b](docs/b.md) [c](docs/a.md#three) [d](https://example.org)\n`[e](x)`\n\n    [f](y)\n")},
		"docs/a.md": {Data: []byte("# One, `two`\n\n    # Three\n\n[up](../README.md) [here](#one-two)\n")},
	}
	all, err := pages.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"README.md:1: docs/b.md: there is no docs/b.md", "README.md:1: docs/a.md#three: docs/a.md has no such heading"}
	if got := pages.BrokenLinks(root, all); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestIndex: docs/README.md leads to every page of docs.
func TestIndex(t *testing.T) {
	all, err := pages.Read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	linked := map[string]bool{}
	for _, p := range all {
		if p.Name == "docs/README.md" {
			for _, targets := range p.Links() {
				for _, target := range targets {
					linked["docs/"+target] = true
				}
			}
		}
	}
	for _, p := range all {
		if p.Dir() == "docs" && p.Name != "docs/README.md" && !linked[p.Name] {
			t.Errorf("docs/README.md does not lead to %s", p.Name)
		}
	}
}
