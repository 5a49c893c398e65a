// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/layout"
)

// TestBrowserTree: each call of a trace has its result, which reads as in ksnoop's text, whatever is known of its
// type.
func TestBrowserTree(t *testing.T) {
	b := newBrowser(t, 1400, 850)
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	bare, err := plan.Restore(nil, []plan.Recorded{{Func: kernel.Function{Name: "untyped"}, Role: layout.RoleInside, Method: layout.MethodKprobe}}, true, true, plan.Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	k.Run.Plan.Probes = append(k.Run.Plan.Probes, bare.Probes...)
	open, read, alloc, untyped := k.Probe("open"), k.Probe("read"), k.Probe("alloc"), bare.Probes[0]
	s := &session.Session{PID: 7, TID: 8, Comm: "cat", Start: 1000, End: 5000, Func: open,
		Chain: session.Chain{Frames: []session.Frame{{Func: open, Entry: 1000, Duration: 4000, Result: 3, Finished: true}}}}
	var want []string
	time := uint64(1100)
	for _, c := range []struct {
		f      *plan.Probe
		result uint64
		leaf   bool
		want   string
	}{
		{alloc, 0xffff_8881_0000_1000, false, "0xffff888100001000"}, {alloc, 0xffff_8881_0000_2000, true, "0xffff888100002000"}, {alloc, 0, true, "NULL"}, {alloc, formattest.Errno(12), true, "-ENOMEM"},
		{read, 0, false, "0"}, {read, 42, false, "42"}, {read, 1 << 20, true, "1048576"}, {read, 1<<20 + 1, false, "0x100001"},
		{untyped, 0xffff_8881_0000_1000, false, "0xffff888100001000"}, {untyped, 0xffff_fffe, true, "-ENOENT"}, {untyped, 1 << 53, false, "0x20000000000000"}, {untyped, 7, true, "7"},
	} {
		if text := output.ResultText(c.f, c.result); text != c.want {
			t.Errorf("%#x of %s is %s in text, not %s", c.result, c.f.Func.Name, text, c.want)
		}
		step := session.Step{Kind: session.StepLeaf, Depth: 1, Func: c.f, Time: time + 50, Duration: 50, Result: c.result}
		if !c.leaf {
			s.Trace = append(s.Trace, session.Step{Kind: session.StepEntry, Depth: 1, Func: c.f, Time: time})
			step.Kind = session.StepExit
		}
		s.Trace = append(s.Trace, step)
		want = append(want, c.want)
		time += 100
	}
	b.open(printed(t, New(k.Run), s))
	b.click(".row")
	got := eval[[]string](b, "[...document.querySelectorAll('#detail .callline')].map((c) => c.querySelector('.result')?.textContent ?? 'no result of ' + c.innerText)")
	if diff := cmp.Diff(append([]string{"3"}, want...), got); diff != "" {
		t.Error(diff)
	}
	if c := b.complaints(); len(c) > 0 {
		t.Error(c)
	}
}

// TestBrowserErrorOfCallee: the row of a session whose entry function returns void, or has not returned, has the error that came
// up to it.
func TestBrowserErrorOfCallee(t *testing.T) {
	b := newBrowser(t, 1200, 700)
	for name, of := range map[string]func(*formattest.Trace) *session.Session{
		"void": (*formattest.Trace).Quiet,
		"open": func(k *formattest.Trace) *session.Session {
			s := k.Failed()
			s.Chain.Frames[0].Finished = false
			return s
		},
	} {
		k := formattest.New(t, "t_")
		k.Sessions(false, "t_open", "t_read", "t_alloc")
		b.open(printed(t, New(k.Run), of(k)))
		if got, want := eval[string](b, "document.querySelector('.row').innerText"), "+0.000000\n1.000 µs\ncat\n8\nt_open\n-ENOMEM\nin t_alloc [NULL]   "; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// someCalls prints n calls of t_open, of which only the entry was recorded unless whole.
func someCalls(t *testing.T, n int, whole bool) []byte {
	t.Helper()
	k := formattest.New(t, "t_")
	k.Calls(map[bool]string{false: "t_open(flags)", true: "t_open(flags, return)"}[whole])
	var all []any
	for i := range uint64(n) {
		r := formattest.Record{Func: "open", Event: bpf.Event{Kind: bpf.KindEntry, Time: 1e9 + i*1000, PID: 7, TID: 7, Comm: formattest.Comm("cat")}, Words: []uint64{i}}
		raw := [][]byte{k.Raw(r)}
		if whole {
			r.Kind, r.Time = bpf.KindReturn, r.Time+500
			raw = append(raw, k.Raw(r))
		}
		for c := range k.Joined(raw...) {
			all = append(all, c)
			break
		}
	}
	return printed(t, New(k.Run), all...)
}

// TestBrowserUnmeasured: where there are no durations, the view of latencies says why.
func TestBrowserUnmeasured(t *testing.T) {
	b := newBrowser(t, 1200, 700)
	said := func() string { return eval[string](b, "document.getElementById('lengths').innerText") }
	b.open(someCalls(t, 20, false))
	b.press("3")
	if got := said(); !strings.HasPrefix(got, "No durations are known. ") || !strings.Contains(got, "has $duration") {
		t.Errorf("%q", got)
	}
	b.screenshot("unmeasured")
	b.press("1")
	b.click(".row")
	b.press("3")
	b.filter("nothing like that")
	if got := eval[string](b, "document.getElementById('detail').innerText"); strings.Contains(got, "flags") {
		t.Errorf("what does not pass the filter is shown: %q", got)
	}
	if got := said(); got != "There are no calls to measure among the events that pass the filter." {
		t.Errorf("%q", got)
	}
	b.open(someCalls(t, 20, true))
	b.press("3")
	if got := said(); got != "" {
		t.Errorf("%q of whole calls", got)
	}
}

// TestBrowserNarrow: a window may be narrow. Nothing is beside it.
func TestBrowserNarrow(t *testing.T) {
	for _, width := range []int{500, 360} {
		b := newBrowser(t, width, 700)
		k := formattest.New(t, "t_")
		k.Sessions(true, "t_open", "t_read", "t_alloc")
		k.Run.Host, k.Run.Options = strings.Repeat("a-host-with-a-long-name-", 3), []string{"--entry=do_sys_openat2(ustr(filename), return < 0)", "--allow=" + strings.Repeat("path_", 30)}
		b.open(printed(t, New(k.Run), k.Failed()))
		b.click(".row")
		for _, key := range []string{"1", "2", "3"} {
			b.press(key)
			beside := eval[[]string](b, `[...document.querySelectorAll("header, header *, #toolbar *, nav *, main section:not([hidden]), #lengths")].filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.tagName + " " + e.id + " " + e.className)`)
			if wide := eval[int](b, "document.documentElement.scrollWidth"); len(beside) > 0 || wide > width {
				t.Errorf("%d columns, view %s: %d are taken, %q beside", width, key, wide, beside)
			}
			if hidden := eval[int](b, "(() => { const a = document.getElementById('about'); return a.scrollHeight - a.clientHeight })()"); hidden > 0 {
				t.Errorf("%d columns: the header hides %d lines of dots", width, hidden)
			}
		}
		b.press("1")
		b.screenshot(fmt.Sprintf("narrow-%d", width))
	}
}

// TestBrowserCut: of a page that is cut off, wherever that is, all whole events are shown, and that some are missing.
func TestBrowserCut(t *testing.T) {
	b := newBrowser(t, 1200, 700)
	const n = 30_000
	page := someCalls(t, n, true)
	parts := partPattern.FindAllIndex(page, -1)
	if len(parts) < 4 {
		t.Fatalf("%d parts", len(parts))
	}
	last := parts[len(parts)-2]
	for _, c := range []struct {
		what string
		at   int
		all  bool
	}{
		{"before the data", parts[0][0], false}, {"in the first part", parts[0][0] + 500, false}, {"in the second part", (parts[1][0] + parts[1][1]) / 2, false},
		{"in the end of a part", parts[1][1] - 4, false}, {"between parts", parts[2][0], false}, {"in the begin of a part", parts[1][0] + 10, false},
		{"in the last events", (last[0] + last[1]) / 2, false}, {"before the losses", last[1], true}, {"in the losses", parts[len(parts)-1][1] - 30, true},
	} {
		b.open(page[:c.at])
		b.until("document.documentElement.dataset.loaded")
		notice := eval[string](b, "document.getElementById('notices').innerText")
		shown := eval[int](b, "Number(document.getElementById('shown').textContent.replace(/\\D/g, ''))")
		whole := bytes.Count(page[:c.at], []byte("</script>\n"))
		if !strings.Contains(notice, "The page is cut off: events at its end are missing.") || (shown == n) != c.all || whole > 3 && shown == 0 {
			t.Errorf("%s: %d events, %q", c.what, shown, notice)
		}
	}
	b.open(page)
	if got := eval[string](b, "document.getElementById('notices').innerText"); strings.Contains(got, "cut off") {
		t.Errorf("the whole page: %q", got)
	}
	// Without its script the page says by itself that something is wrong.
	script := bytes.Index(page, []byte("<script>"))
	for _, at := range []int{script, script + 1000} {
		b.call("Page.navigate", map[string]any{"url": "file://" + b.file(page[:at])}, nil)
		b.until("document.getElementById('reading')?.checkVisibility({ visibilityProperty: true })")
	}
	if c := slices.DeleteFunc(b.complaints(), func(c string) bool { return strings.Contains(c, "SyntaxError") }); len(c) > 0 {
		t.Error(c)
	}
}
