// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/jsonlines"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/show"
)

var (
	_ show.CallPrinter    = (*Printer)(nil)
	_ show.SessionPrinter = (*Printer)(nil)
	_ show.SummaryPrinter = (*Printer)(nil)
)

// An eventPrinter is what prints calls and sessions.
type eventPrinter interface {
	show.CallPrinter
	show.SessionPrinter
}

// printed returns what a printer makes of calls and sessions.
func printed(t testing.TB, p eventPrinter, all ...any) []byte {
	t.Helper()
	text, err := p.AppendHeader(nil)
	for _, e := range all {
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case *calls.Call:
			text, err = p.AppendCall(text, e)
		case *session.Session:
			text, err = p.AppendSession(text, e)
		case event.Loss:
			text = p.AppendLoss(text, e)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	totals := output.Totals{Records: uint64(len(all)), Losses: event.Losses{Lost: [bpf.Counters]uint64{bpf.LostRingbuf: 3}}}
	if text, err = p.AppendEnd(text, &totals); err != nil {
		t.Fatal(err)
	}
	return text
}

var partPattern = regexp.MustCompile(`<script type="text/plain" class="(events|notes)">([A-Za-z0-9+/=]*)</script>\n`)

// unpacked returns the lines that a page has, what was lost, and how many parts there are.
func unpacked(t *testing.T, page []byte) (lines, notes string, parts int) {
	t.Helper()
	for _, part := range partPattern.FindAllSubmatch(page, -1) {
		packed, err := base64.StdEncoding.DecodeString(string(part[2]))
		if err != nil {
			t.Fatal(err)
		}
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if string(part[1]) == "notes" {
			notes += string(text)
		} else {
			lines += string(text)
			parts++
		}
	}
	return lines, notes, parts
}

// evil are names that would act on HTML, on scripts or on the direction of text.
var evil = [...]string{"</script><script>hacked=1</script>", `"><img src=x onerror=hacked=1>`, "\u2028\u2029\u202etxet\u2066", "]]>--><svg onload=hacked=1>", "__proto__", formattest.Evil}

// TestPage: the page has the lines that the format json has, and nothing else of a run: whatever is in it, all
// else of the page is the same.
func TestPage(t *testing.T) {
	var rest []byte
	for i, name := range append([]string{"t_"}, evil[:]...) {
		k := formattest.New(t, "t_")
		k.Sessions(true, "t_open", "t_read", "t_alloc")
		s := k.Failed()
		if i > 0 {
			k.Run.Host, k.Run.Writer, k.Run.Options = name, name, []string{name}
			for _, p := range k.Run.Plan.Probes {
				p.Name, p.Func.Name, p.Func.Module = name, name, name
			}
			s.Comm, s.Leader = name, name
		}
		loss := event.Loss{Cause: bpf.LostRingbuf, Count: 3, Time: 1500}
		page := printed(t, New(k.Run), s, loss)
		lines, notes, _ := unpacked(t, page)
		if want := string(printed(t, jsonlines.New(k.Run, false), s, loss)); lines != want {
			t.Errorf("%q: lines\n%s\nwant\n%s", name, lines, want)
		}
		if !strings.Contains(notes, "3 ") || !strings.Contains(notes, "ring buffer was full") {
			t.Errorf("%q: what was lost is %q", name, notes)
		}
		if other := partPattern.ReplaceAll(page, nil); rest == nil {
			rest = other
		} else if !bytes.Equal(other, rest) {
			t.Errorf("%q is in the page", name)
		}
	}
	if n := strings.Count(string(rest), "<script"); n != 2 {
		t.Errorf("%d scripts", n)
	}
}

// TestParts: a part is written as soon as it is full, so that memory does not grow with the run.
func TestParts(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count, return)")
	p := New(k.Run)
	if _, err := p.AppendHeader(nil); err != nil {
		t.Fatal(err)
	}
	written, most := 0, 0
	var all []byte
	for i := range 20_000 {
		for c := range k.Joined(k.Raw(formattest.Record{Func: "read", Event: bpf.Event{Kind: bpf.KindReturn, Time: uint64(i), PID: 1, TID: 1}, Words: []uint64{uint64(i)}})) {
			part, err := p.AppendCall(nil, c)
			if err != nil {
				t.Fatal(err)
			}
			if len(part) > 0 {
				written++
			}
			all, most = append(all, part...), max(most, len(p.lines))
		}
	}
	end, err := p.AppendEnd(nil, &output.Totals{})
	if err != nil {
		t.Fatal(err)
	}
	lines, _, parts := unpacked(t, append(all, end...))
	if n := strings.Count(lines, `"kind":"call"`); n != 20_000 || written < 3 || parts != written+1 || most >= partSize {
		t.Errorf("%d calls in %d parts, %d before the end, with %d bytes kept", n, parts, written, most)
	}
}

// TestPolicy: the page's policy names exactly the scripts and styles that it has, and no source else.
func TestPolicy(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read")
	page := string(printed(t, New(k.Run)))
	between := func(begin, end string) (all []string) {
		for rest := page; ; {
			_, after, ok := strings.Cut(rest, begin)
			if !ok {
				return all
			}
			content, next, _ := strings.Cut(after, end)
			all, rest = append(all, content), next
		}
	}
	want := "default-src 'none'; base-uri 'none'; form-action 'none'; style-src"
	for _, content := range append(between("<style>", "</style>"), "script", between("<script>", "</script>")[0], between("<script>", "</script>")[1]) {
		if content == "script" {
			want += "; script-src"
			continue
		}
		sum := sha256.Sum256([]byte(content))
		want += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	if got := between(`http-equiv="Content-Security-Policy" content="`, `"`); !slices.Equal(got, []string{want}) {
		t.Errorf("policy %q, want %q", got, want)
	}
	for _, bad := range []string{"http://", "https://", "<link", "<iframe", " onclick", " src="} {
		shell := page[:strings.Index(page, `<pre id="licenses"`)]
		if i := strings.Index(shell, bad); i >= 0 {
			t.Errorf("%q in %q", bad, shell[max(0, i-40):i+40])
		}
	}
}

// TestSinks: no part of the page's script makes HTML or code of text. What is shown goes through one function.
func TestSinks(t *testing.T) {
	sink := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\("(on|style|href|src)|createContextualFragment|\.html\(|DOMParser|setTimeout\("`)
	names, err := fs.Glob(files, "page/*.js")
	if err != nil || len(names) != len(scripts) {
		t.Fatalf("%d scripts, %d of them used: %v", len(names), len(scripts), err)
	}
	for _, name := range names {
		content := text(name)
		if m := sink.FindString(content); m != "" {
			t.Errorf("%s: %s", name, m)
		}
		if strings.Contains(strings.ToLower(content), "</script") || !slices.Contains(scripts[:], path.Base(name)) {
			t.Errorf("%s ends the script, or is not used", name)
		}
	}
	if strings.Contains(strings.ToLower(text("assets/vendor.js")), "</script") {
		t.Error("vendor.js ends the script")
	}
}

// TestKinds: the page has a place for each kind of line that jsonlines writes. Steps of sessions that are still
// running are not in reports, nor is the page of why, which is no event.
func TestKinds(t *testing.T) {
	content, err := os.ReadFile("../jsonlines/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct{ Kind struct{ Enum []string } }
	}
	if err := json.Unmarshal(content, &schema); err != nil || len(schema.Properties.Kind.Enum) < 12 {
		t.Fatalf("%v, %v", schema, err)
	}
	_, read, _ := strings.Cut(text("page/model.js"), "\nfunction read(line)")
	read, _, _ = strings.Cut(read, "\n}\n")
	for _, kind := range schema.Properties.Kind.Enum {
		if kind != "trace" && kind != "why" && !strings.Contains(read, "\tcase \""+kind+"\":\n") {
			t.Errorf("no place for %s", kind)
		}
	}
}

// TestAssets: what is embedded of npm is what SHA256SUMS says, and its licences are there.
func TestAssets(t *testing.T) {
	sums, err := os.ReadFile("assets/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	listed := []string{"README.md", "SHA256SUMS"}
	for line := range strings.Lines(string(sums)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		content, err := os.ReadFile(filepath.Join("assets", name))
		sum := sha256.Sum256(content)
		if err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not what was made: make report-assets (%v)", name, err)
		}
		listed = append(listed, name)
	}
	entries, err := os.ReadDir("assets")
	if err != nil || len(entries) != len(listed) {
		t.Errorf("%d files, %d listed: %v", len(entries), len(listed), err)
	}
	lock, err := os.ReadFile("assets/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var packages struct {
		Packages map[string]struct {
			Version string
			Dev     bool
		}
	}
	if err := json.Unmarshal(lock, &packages); err != nil {
		t.Fatal(err)
	}
	n := 0
	for name, p := range packages.Packages {
		name, ok := strings.CutPrefix(name, "node_modules/")
		if !ok || p.Dev {
			continue
		}
		if n++; !strings.Contains(text("assets/LICENSES.txt"), fmt.Sprintf("==== %s %s\n", name, p.Version)) {
			t.Errorf("no licence of %s %s", name, p.Version)
		}
	}
	for _, want := range []string{"d3-flame-graph 5.0.0", "uplot 1.6.32"} {
		if !strings.Contains(text("assets/LICENSES.txt"), "==== "+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if n < 3 {
		t.Errorf("%d packages", n)
	}
}

// TestFailing: an event that cannot be printed leaves nothing of it in the page.
func TestFailing(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count)")
	p := New(k.Run)
	before := len(p.lines)
	failed := errors.New("no")
	if _, err := p.collect(nil, func(lines []byte) ([]byte, error) { return append(lines, "half"...), failed }); !errors.Is(err, failed) || len(p.lines) != before {
		t.Errorf("%v, %q", err, p.lines)
	}
}
