// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/folded"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/requery"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/layout"
)

// recorded returns the page of a recording in the module's testdata, and what its calls and sessions are as folded stacks.
func recorded(t *testing.T, name string, weight folded.Weight) (page []byte, stacks string) {
	t.Helper()
	content, err := os.ReadFile("../../testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	write := func(open func(output.Run) eventPrinter) []byte {
		r, err := record.NewReader(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		info := r.Info()
		printer := open(output.Run{Plan: r.Plan(), Kernel: r.Kernel(), Resolver: symbols.New(r.Kernel(), nil, symbols.LevelNone), Boot: info.Boot, Arch: info.Arch, Host: info.Host, Writer: info.Writer, Options: info.Options})
		var view show.View = &show.Calls{Plan: r.Plan(), Join: true, Printer: printer}
		if info.Sessions != nil {
			view = &show.Sessions{Plan: r.Plan(), Traced: info.Sessions.Traced, Printer: printer}
		}
		var out bytes.Buffer
		if err := view.Write(&out, r.Records(), nil); err != nil {
			t.Fatal(err)
		}
		if err := view.End(&out, r.Losses(), nil); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	page = write(func(r output.Run) eventPrinter { return New(r) })
	return page, string(write(func(r output.Run) eventPrinter { return folded.New(r, weight) }))
}

// TestBrowserSessions: a recorded session is in the list and on the timeline. Clicked, it shows its calls, values and stack.
func TestBrowserSessions(t *testing.T) {
	b := newBrowser(t, 1400, 850)
	page, _ := recorded(t, "sessions.ks", folded.Time)
	b.open(page)
	if got := eval[string](b, "document.querySelector('.row').innerText"); got != "+0.000000\n8.667 ms\nworkload\n173\n__sys_bpf\n-EINVAL\nin array_map_alloc_check   cmd=BPF_MAP_CREATE  uattr={.kernel=0x179e55915c84, .user=0x179e55915c84}  size=20" {
		t.Errorf("row %q", got)
	}
	// What ksnoop prints of this session, testdata/sessions.txt, as the page has it.
	b.click(".row")
	text := eval[string](b, "document.getElementById('detail').innerText")
	for _, want := range []string{"__sys_bpf", "-EINVAL", "7.634 ms", "array_map_alloc_check", "6.315 ms", "map_create", "cmd=BPF_MAP_CREATE", "size=20", "2026-11-23T06:51:03.429268054Z",
		"map_create+0x120", "__sys_bpf+0x218c", "entry_SYSCALL_64_after_hwframe+0x76", "pid 173"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	// The values of the innermost call, which come when they are unfolded.
	eval[any](b, "for (const d of document.querySelectorAll('#detail details.call')) d.open = true")
	b.until("document.querySelectorAll('#detail details.captured').length === 2")
	b.click("#detail details.captured:nth-of-type(1) > summary")
	b.until("document.querySelector('#detail .captured .value')")
	if got := eval[string](b, "document.querySelector('#detail .captured').innerText"); !strings.Contains(got, "cmd") || !strings.Contains(got, "BPF_MAP_CREATE") {
		t.Errorf("values %q", got)
	}
	b.screenshot("session")
	// The same by the timeline: the lane's bar takes all of the time.
	b.press("Escape")
	eval[any](b, "showing = document.getElementById('detail').replaceChildren()")
	at := eval[[]float64](b, "(() => { const r = document.querySelector('#timeline canvas').getBoundingClientRect(); return [r.x + 600, r.y + 29] })()")
	b.drag(at[0], at[1], at[0], at[1])
	if got := eval[string](b, "document.querySelector('#detail h2').innerText"); !strings.HasPrefix(got, "__sys_bpf") {
		t.Errorf("the timeline shows %q", got)
	}
	if c := b.complaints(); len(c) > 0 {
		t.Error(c)
	}
}

// TestBrowserCalls: recorded calls are filtered by text, errors and time, and their values are read back.
func TestBrowserCalls(t *testing.T) {
	b := newBrowser(t, 1400, 850)
	k := formattest.New(t, "t_")
	k.Owner = layout.OwnerUID | layout.OwnerCgroup
	k.Run.Cgroup = func(id uint64) container.Group { return container.Group{Path: "/web.slice/" + strconv.Itoa(int(id))} }
	k.Calls("t_read(path, count, return)", "t_open(flags, return)")
	var all []any
	var raw [][]byte
	owner := bpf.Owner{UID: 1000, Cgroup: 77}
	for i := range uint64(200) {
		entry := bpf.Event{Kind: bpf.KindEntry, Time: 1_000_000_000 + i*1_000_000, PID: 7 + uint32(i%3), TID: 7 + uint32(i%3), Comm: formattest.Comm("cat" + strconv.Itoa(int(i%3)))}
		back := entry
		back.Kind, back.Time = bpf.KindReturn, entry.Time+1000*(i+1)
		result := i
		if i%10 == 9 {
			result = formattest.Errno(2 + i%4)
		}
		if i%2 == 0 {
			raw = append(raw, k.Raw(formattest.Record{Func: "open", Event: entry, Owner: owner, Words: []uint64{i}}), k.Raw(formattest.Record{Func: "open", Event: back, Owner: owner, Words: []uint64{result}}))
		} else {
			raw = append(raw, k.Raw(formattest.Record{Func: "read", Event: entry, Owner: owner, Words: []uint64{0xffff_8880_0000_1234, i}, Text: "/file/" + strconv.Itoa(int(i))}), k.Raw(formattest.Record{Func: "read", Event: back, Owner: owner, Words: []uint64{result}}))
		}
	}
	for c := range k.Joined(raw...) {
		kept, entry, back := *c, *c.Entry, *c.Return // which are valid until the next
		entry.Data, back.Data = slices.Clone(entry.Data), slices.Clone(back.Data)
		kept.Entry, kept.Return = &entry, &back
		all = append(all, &kept)
	}
	b.open(printed(t, New(k.Run), all...))
	b.click(".row")
	if got := eval[string](b, "document.getElementById('detail').innerText"); !strings.Contains(got, "1000") || !strings.Contains(got, "/web.slice/77") {
		t.Errorf("no user and cgroup in %q", got)
	}
	shown := func() string { return eval[string](b, "document.getElementById('shown').textContent") }
	if got := shown(); got != "200 events" {
		t.Errorf("%q", got)
	}
	for text, want := range map[string]int{"t_open": 100, "cat1": 67, "cat1 t_open": 33, "-t_open": 100, "-cat1 -cat2": 67, `"t_read cat0"`: 33, ">150us": 50, "<10µs": 9, ">10us <20us": 9, "esrch": 10, "nothing": 0, "ESRCH -cat0": 6} {
		b.filter(text)
		if got := shown(); got != fmt.Sprintf("%d of 200 events", want) {
			t.Errorf("filter %q: %q, want %d", text, got, want)
		}
	}
	b.filter("")
	b.click("#errors")
	if got := shown(); got != "20 of 200 events" {
		t.Errorf("errors: %q", got)
	}
	b.click("#errors")
	// The next failure by its key, and the one before. Calls 9, 19 and 29 are the first that failed.
	b.press("Escape")
	for key, want := range map[string]string{"eee": "+0.029000", "eeeE": "+0.019000"} {
		b.press("Home")
		for _, c := range key {
			b.press(string(c))
		}
		if got := eval[string](b, "document.querySelector('.row.chosen span').textContent"); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	b.press("End")
	if got := eval[string](b, "document.querySelector('.row.chosen').innerText"); !strings.HasPrefix(got, "+0.199000\n200.0 µs\ncat1\n8\nt_read\n-EIO") {
		t.Errorf("the last: %q", got)
	}
	// All of the canvas is 202 ms (1 % more at both sides): a third of it in the middle.
	at := eval[[]float64](b, "(() => { const r = document.querySelector('#timeline canvas').getBoundingClientRect(); return [r.x + 150, r.y + 60, (r.width - 150) / 3] })()")
	b.drag(at[0]+at[2], at[1], at[0]+2*at[2], at[1])
	n, _ := strconv.Atoi(strings.Fields(shown())[0])
	if n < 65 || n > 70 {
		t.Errorf("a third of the time: %q", shown())
	}
	b.screenshot("range")
	b.press("0")
	if got := shown(); got != "200 events" {
		t.Errorf("%q after 0", got)
	}
	// Sorted by duration, the longest first; and by function.
	b.click("#list .head button[data-key=length]")
	if got := eval[string](b, "document.querySelector('.row').innerText"); !strings.HasPrefix(got, "+0.199000\n200.0 µs") {
		t.Errorf("the longest: %q", got)
	}
	if c := b.complaints(); len(c) > 0 {
		t.Error(c)
	}
}

// flameStacks are the sums of the flame graph, as folded stacks: what is at the end of each stack.
const flameStacks = `(() => {
	const out = {}, walk = (node, path) => {
		const self = node.value - node.children.reduce((n, c) => n + c.value, 0), names = path.concat(node.name);
		if (self > 0) out[names.join(";")] = self;
		node.children.forEach((c) => walk(c, names));
	};
	const root = document.querySelector("#flame").__data__;
	if (root) root.data.children.forEach((c) => walk(c, []));
	return out;
})()`

// TestBrowserFlame: the flame graph adds up to what the format folded prints, for each weight, of calls and of sessions.
func TestBrowserFlame(t *testing.T) {
	b := newBrowser(t, 1400, 700)
	for _, name := range []string{"sessions.ks", "calls.ks"} {
		for weight, of := range map[string]folded.Weight{"time": folded.Time, "calls": folded.Calls, "errors": folded.Errors} {
			page, stacks := recorded(t, name, of)
			b.open(page)
			b.press("2")
			eval[any](b, fmt.Sprintf("(() => { const w = document.getElementById('weight'); w.value = %q; w.dispatchEvent(new Event('change')) })()", weight))
			got, want := eval[map[string]int](b, flameStacks), map[string]int{}
			for line := range strings.Lines(stacks) {
				i := strings.LastIndexByte(line, ' ')
				n, err := strconv.Atoi(strings.TrimSpace(line[i:]))
				if err != nil {
					t.Fatal(err)
				}
				want[line[:i]] += n
			}
			maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s by %s: (-folded +page)\n%s", name, weight, diff)
			}
			if weight == "time" && name == "sessions.ks" {
				time.Sleep(time.Second) // the graph moves
				b.screenshot("flame")
			}
		}
	}
	// Clicked, a frame is as wide as all; found, it is marked.
	page, _ := recorded(t, "sessions.ks", folded.Time)
	b.open(page)
	b.press("2")
	eval[any](b, "document.getElementById('find').value = 'ALLOC_check'; document.getElementById('find').dispatchEvent(new Event('input'))")
	if got := eval[string](b, "document.getElementById('frame').textContent"); !strings.HasPrefix(got, "1 frame, 6.315 ms of 7.634 ms") {
		t.Errorf("found: %q", got)
	}
	if c := b.complaints(); len(c) > 0 {
		t.Error(c)
	}
}

// TestBrowserLatency: the table of latencies has what can be worked out by hand, and both plots are there.
func TestBrowserLatency(t *testing.T) {
	b := newBrowser(t, 1400, 850)
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	var all []any
	for i := range uint64(100) { // t_open takes 1 to 100 us, of which t_read takes 200 ns and t_alloc in it 100 ns
		s := k.Failed()
		open, read, alloc := k.Probe("open"), k.Probe("read"), k.Probe("alloc")
		start := 1e9 + i*1e6
		s.Start, s.End = start, start+(i+1)*1000
		s.Chain.Frames = []session.Frame{{Func: open, Entry: start, Duration: (i + 1) * 1000, Result: formattest.Errno(12), Finished: true, Failed: true},
			{Func: read, Entry: start + 100, Duration: 200, Result: formattest.Errno(12), Finished: true, Failed: true}, {Func: alloc, Entry: start + 150, Duration: 100, Finished: true, Failed: true}}
		all = append(all, s)
	}
	b.open(printed(t, New(k.Run), all...))
	b.press("3")
	got := eval[[]string](b, "[...document.querySelectorAll('#latencies tr')].map(r => [...r.children].map(c => c.textContent).join('\\t'))")
	want := []string{
		"function\tcalls\tfailed\ttotal\tself\taverage\tp50\tp90\tp99\tmax",
		"t_open\t100\t100\t5.050 ms\t5.030 ms\t50.50 µs\t50.00 µs\t90.00 µs\t99.00 µs\t100.0 µs",
		"t_read\t100\t100\t20.00 µs\t10.00 µs\t200 ns\t200 ns\t200 ns\t200 ns\t200 ns",
		"t_alloc [mod]\t100\t100\t10.00 µs\t10.00 µs\t100 ns\t100 ns\t100 ns\t100 ns\t100 ns",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := eval[int](b, "document.querySelectorAll('.plots canvas').length"); n != 2 {
		t.Errorf("%d plots", n)
	}
	b.click("#latencies tr:nth-child(3)")
	if got := eval[string](b, "document.getElementById('plotted').textContent"); got != "t_read: 100 durations" {
		t.Errorf("plotted: %q", got)
	}
	b.screenshot("latency")
	b.press("t")
	b.screenshot("latency-dark")
	if c := b.complaints(); len(c) > 0 {
		t.Error(c)
	}
}

// TestBrowserTables: what SPECs add up is shown as tables, and nothing else of a run that does nothing else.
func TestBrowserTables(t *testing.T) {
	b := newBrowser(t, 1200, 700)
	content, err := os.ReadFile("../../testdata/calls.ks")
	if err != nil {
		t.Fatal(err)
	}
	r, err := record.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := expr.Parse("vfs_read(hist(count)[exit($comm)], top(5, count))")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := requery.New(r.Plan(), r.Kernel(), requery.Question{Specs: []*expr.Spec{spec}, Arch: r.Info().Arch})
	if err != nil {
		t.Fatal(err)
	}
	p := New(output.Run{Plan: answer.Plan(), Kernel: r.Kernel(), Boot: r.Info().Boot, Arch: r.Info().Arch})
	view := show.Summaries{Records: &show.Calls{Plan: answer.Plan(), Join: true, Printer: p}, Printer: p, Last: func() (*summary.Summary, error) { return answer.Summary(), nil }}
	var out bytes.Buffer
	if err := view.Write(&out, answer.Records(r.Records()), nil); err != nil {
		t.Fatal(err)
	}
	if err := view.End(&out, event.Losses{}, nil); err != nil {
		t.Fatal(err)
	}
	b.open(out.Bytes())
	// Three reads of 33 bytes: testdata/recordings.sh.
	got := eval[string](b, "document.getElementById('view-tables').innerText")
	for _, want := range []string{"hist(count)", "by exit($comm)", "workload", "32", "63", "top(5, count)", "33", "3"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	b.screenshot("tables")
}

// TestBrowserHostile: nothing that a recording has in it runs in the page, reaches the network, or can be read as
// what it is not.
func TestBrowserHostile(t *testing.T) {
	b := newBrowser(t, 1200, 700)
	for _, name := range evil {
		k := formattest.New(t, "t_")
		k.Sessions(true, "t_open", "t_read", "t_alloc")
		s := k.Failed()
		k.Run.Host, k.Run.Writer, k.Run.Options = name, name, []string{"--entry=" + name}
		read := k.Probe("read")
		for _, p := range k.Run.Plan.Probes {
			p.Name, p.Func.Name, p.Func.Module = name+p.Name, name, name
		}
		s.Comm, s.Leader = name, name
		values := session.Values{Args: []session.Arg{{Param: &read.Params[0], Value: []byte{1, 0, 0, 0, 0, 0, 0, 0}, Text: true, Target: []byte(name)}}}
		s.Chain.Frames[1].Values = values
		b.open(printed(t, New(k.Run), s, event.Loss{Cause: bpf.LostRingbuf, Count: 3, Time: 1500}))
		b.press("e")
		eval[any](b, "for (let i = 0; i < 5; i++) for (const d of document.querySelectorAll('details')) d.open = true")
		for _, key := range []string{"2", "3", "1", "?"} {
			b.press(key)
		}
		b.press("Escape")
		if eval[bool](b, "'hacked' in window") {
			t.Errorf("%q ran", name)
		}
		seen := eval[string](b, "document.title + document.body.innerText + [...document.querySelectorAll('text, title, option')].map(e => e.textContent).join()")
		if bad := formattest.Unsafe(strings.NewReplacer("\t", "").Replace(seen)); bad != "" {
			t.Errorf("%q is shown with %q", name, bad)
		}
		if name == "__proto__" || strings.HasPrefix(name, "<") {
			if !strings.Contains(seen, name) {
				t.Errorf("%q is not shown", name)
			}
		}
	}
	if c := b.complaints(); len(c) > 0 {
		t.Error(c)
	}
	// The policy holds: what a fault of the page would let in does not run, and cannot call.
	eval[any](b, `document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='hacked=1'>"); const s = document.createElement("script"); s.textContent = "hacked = 1"; document.body.append(s); fetch("https://example.com/").catch(() => 0)`)
	time.Sleep(300 * time.Millisecond)
	if eval[bool](b, "'hacked' in window") {
		t.Error("the policy lets scripts run")
	}
	if c := strings.Join(b.complaints(), "\n"); strings.Count(c, "Content Security Policy") < 3 {
		t.Errorf("the policy has refused too little: %s", c)
	}
}

// manyCalls yields the records of n calls with both ends in one.
func manyCalls(k *formattest.Trace, n int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i := range uint64(n) {
			result := i % 4096
			if i%100 == 0 {
				result = formattest.Errno(2)
			}
			at := 1e9 + i*20_000
			if !yield(k.Raw(formattest.Record{Func: "open", Event: bpf.Event{Kind: bpf.KindCall, Time: at + 5000 + i%3000, EntryTime: at, PID: uint32(i % 50), TID: uint32(i % 50), CPU: uint16(i % 4), Comm: formattest.Comm("task" + strconv.Itoa(int(i%50)))},
				Words: []uint64{i, result}, Stack: []uint64{formattest.Open + 0x50, formattest.Syscall + 0x60}}), nil) {
				return
			}
		}
	}
}

// TestBrowserLarge: 100,000 events are shown and filtered. How long that takes is told with -v, the best of three times.
func TestBrowserLarge(t *testing.T) {
	const n = 100_000
	b := newBrowser(t, 1400, 850)
	k := formattest.New(t, "t_")
	k.Calls("t_open(flags, return < 5000)")
	p := New(k.Run)
	view := &show.Calls{Plan: k.Run.Plan, Join: true, Printer: p}
	var page bytes.Buffer
	if err := view.Write(&page, manyCalls(k, n), nil); err != nil {
		t.Fatal(err)
	}
	if err := view.End(&page, event.Losses{}, nil); err != nil {
		t.Fatal(err)
	}
	best := map[string]float64{}
	measured := func(what string, ms float64) {
		if was, ok := best[what]; !ok || ms < was {
			best[what] = ms
		}
	}
	number := func(key string) float64 {
		return eval[float64](b, "Number(document.documentElement.dataset."+key+")")
	}
	for range 3 {
		b.open(page.Bytes())
		measured("paint", eval[float64](b, "performance.getEntriesByName('first-contentful-paint')[0].startTime"))
		measured("rows", number("rows"))
		measured("loaded", number("loaded"))
		for text, want := range map[string]string{"task7 -enoent": "2,000", "flags=4242": "11", ">7.9us": "3,267", "nothing like that": "0"} {
			b.filter(text)
			measured("filter "+text, number("filter"))
			if got := eval[string](b, "document.getElementById('shown').textContent"); got != want+" of 100,000 events" {
				t.Errorf("%q: %q, want %s", text, got, want)
			}
		}
		b.filter("")
		measured("filter none", number("filter"))
		for _, view := range []string{"flame", "latency", "events"} {
			measured(view, eval[float64](b, fmt.Sprintf("(() => { const t = performance.now(); document.querySelector('[data-view=%s]').click(); return performance.now() - t })()", view)))
		}
		// To the end and back by keys: rows are there wherever one looks.
		b.press("1")
		b.press("End")
		if got := eval[string](b, "document.querySelector('.row.chosen').innerText"); !strings.HasPrefix(got, "+1.999980\n") {
			t.Errorf("the last row: %q", got)
		}
	}
	t.Logf("%d bytes; ms: %v", page.Len(), best)
	b.screenshot("large")
}
