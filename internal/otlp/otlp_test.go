// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/layout"
)

// at is the time of day that the kernel's clock stands for.
func at(ns int64) string { return strconv.FormatInt(formattest.Boot.UnixNano()+ns, 10) }

// printed prints the calls that records are of.
func printed(t *testing.T, k *formattest.Trace, p *Printer, raw ...[]byte) []byte {
	t.Helper()
	out, err := p.AppendHeader(nil)
	if err != nil {
		t.Fatal(err)
	}
	for c := range k.Joined(raw...) {
		if out, err = p.AppendCall(out, c); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestClock: events go by the time of day as it is by now, if it was set; so does what is said at the end, without one.
func TestClock(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count)")
	now := formattest.Boot
	k.Run.Booted = func() time.Time { return now }
	p := New(k.Run, Options{})
	for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
		now = formattest.Boot.Add(by)
		p.saw(7)
		if got, want := p.at(5), uint64(now.UnixNano()+5); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
	now = formattest.Boot
	if _, err := p.AppendEnd(nil, &output.Totals{}); err != nil || p.at(5) != uint64(now.UnixNano()+5) {
		t.Errorf("at the end %d, %v", p.at(5), err)
	}
}

// TestCalls: a call is a log record, or a span, of its process and cgroup, with typed values.
func TestCalls(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Owner = layout.OwnerUID | layout.OwnerCgroup
	k.Calls("t_read(count, quick, return)")
	k.Run.Cgroup = func(id uint64) container.Group {
		return map[uint64]container.Group{5: {Path: "/a\x1b/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/crio-81e5c2990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75d5f",
			Names: container.Names{Container: "app", Pod: "web-0", Namespace: "prod"}}}[id]
	}
	entry := bpf.Event{Kind: bpf.KindEntry, Time: 1000, PID: 7, TID: 8, CPU: 3, Comm: formattest.Comm("cat")}
	returned := entry
	returned.Kind, returned.Time = bpf.KindReturn, 1500
	owner := bpf.Owner{UID: 1000, Cgroup: 5}
	raw := [][]byte{
		k.Raw(formattest.Record{Func: "read", Event: entry, Owner: owner, Words: []uint64{4096, 1}, Stack: []uint64{formattest.Read + 5, formattest.Open + 0x50, formattest.Syscall + 0x60}}),
		k.Raw(formattest.Record{Func: "read", Event: returned, Owner: owner, Words: []uint64{formattest.Errno(5)}}),
	}
	values := `thread.id=8 thread.name="cat" cpu.logical_number=3 user.id="1000" code.function.name="t_read" error.type="EIO" ksnoop.duration_ns=500 ` +
		`ksnoop.value.count=4096 ksnoop.value.quick=true code.stacktrace="t_open fs/open.c:1400\ndo_syscall entry/common.c:81\nentry_SYSCALL_64 entry/entry.S:121\n" ksnoop.value.return=-5`
	resource := ` process.pid=7 process.linux.cgroup="/a\\x1b/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/crio-81e5c2990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75d5f" ` +
		`container.id="81e5c2990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75d5f" container.runtime="cri-o" k8s.pod.uid="068e8fa0-9213-11e7-a01f-507b9d4141fa" k8s.pod.name="web-0" k8s.namespace.name="prod" k8s.container.name="app"`
	log := `log` + resource + ` {time_unix_nano=` + at(1500) + ` severity_number=SEVERITY_NUMBER_WARN severity_text="WARN" body="t_read: EIO" attributes=[` + values +
		`] observed_time_unix_nano=` + at(1500) + ` event_name="ksnoop.call"}`
	if diff := cmp.Diff([]string{log}, read(t, printed(t, k, New(k.Run, Options{}), raw...))); diff != "" {
		t.Error(diff)
	}
	span := ` name="t_read" kind=SPAN_KIND_INTERNAL start_time_unix_nano=` + at(1000) + ` end_time_unix_nano=` + at(1500) + ` attributes=[` + values + `] status={message="EIO" code=STATUS_CODE_ERROR}}`
	got := read(t, printed(t, k, New(k.Run, Options{Spans: true}), raw...))
	if len(got) != 1 || !strings.HasPrefix(got[0], "span"+resource+" {trace_id=") || !strings.HasSuffix(got[0], span) {
		t.Errorf("%q\nwant %s", got, span)
	}
	if again := read(t, printed(t, k, New(k.Run, Options{Spans: true}), raw...)); cmp.Diff(got, again) != "" {
		t.Error("exported again, a call has other numbers")
	}
}

// TestSession: the calls of a session are the spans of one trace, each a child of its caller.
func TestSession(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	x := k.Failed()
	x.Lost.Deep = 3
	p := New(k.Run, Options{Attributes: []Attribute{{"service.name", "shop"}, {"x\x1b", "\xff"}}})
	out, err := p.AppendHeader(nil)
	if err == nil {
		out, err = p.AppendSession(out, x)
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := read(t, out)
	if len(lines) != 3 {
		t.Fatalf("%q", lines)
	}
	ids := map[string]string{}
	trace, parent := "", ""
	for i, want := range []string{"t_open", "t_read", "t_alloc"} {
		var span string
		rest, ok := strings.CutPrefix(lines[i], `span{attributes=[service.name="shop" x\x1b="\\xff" host.arch="amd64" os.type="linux" process.pid=7 {trace_id=`)
		if !ok {
			t.Fatal(lines[i])
		}
		of, rest, _ := strings.Cut(rest, " span_id=")
		span, rest, _ = strings.Cut(rest, " ")
		if i == 0 {
			trace = of
		} else if rest, ok = strings.CutPrefix(rest, "parent_span_id="+parent+" "); !ok || of != trace {
			t.Errorf("%s is no child of %s in %s: %s", want, parent, trace, lines[i])
		}
		if ids[span] != "" || len(span) != 16 || len(of) != 32 || !strings.HasPrefix(rest, `name="`+want+`"`) {
			t.Errorf("span %s is %s, too; want %s: %s", span, ids[span], want, rest)
		}
		ids[span], parent = want, span
		errno := "ENOMEM"
		if i == 2 {
			errno = "NULL"
		}
		if !strings.HasSuffix(rest, `status={message="`+errno+`" code=STATUS_CODE_ERROR}}`) {
			t.Errorf("%s failed with %s: %s", want, errno, rest)
		}
		if has := strings.Contains(rest, "code.stacktrace="); has != (i != 1) {
			t.Errorf("%s: stack %v, and it is for where the session began and where the failure did", want, has)
		}
	}
	if want := `events=[{time_unix_nano=` + at(2000) + ` name="calls were nested deeper than is kept" attributes=[ksnoop.count=3]}]`; !strings.Contains(lines[0], want) {
		t.Errorf("%s\nwant %s", lines[0], want)
	}
	if out, err = p.AppendSession(p.forget(nil), k.Quiet()); err != nil {
		t.Fatal(err)
	}
	if root := read(t, out)[0]; !strings.HasSuffix(root, `status={message="ENOMEM" code=STATUS_CODE_ERROR}}`) || !strings.Contains(root, ` error.type="ENOMEM"`) {
		t.Errorf("a session whose entry function returns void: %s", root)
	}
	x.State = session.Hung
	if out, err = p.AppendSession(p.forget(nil), x); err != nil {
		t.Fatal(err)
	}
	if lines := read(t, out); len(lines) != 1 || !strings.Contains(lines[0], `event_name="ksnoop.session.open"`) {
		t.Errorf("a session that is open: %q", lines)
	}
}

// TestSpans: numbers of spans are not 0, and differ.
func TestSpans(t *testing.T) {
	known := map[[8]byte]bool{{}: true}
	tr := trace{seed: 1}
	for i := range 100_000 {
		if id := tr.span(i); known[id] {
			t.Fatalf("%d: %x", i, id)
		} else {
			known[id] = true
		}
	}
}

// TestLosses: what is missing is a sum that only grows, told once a second and at the end.
func TestLosses(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_open(flags)")
	p := New(k.Run, Options{})
	out, _ := p.AppendHeader(nil)
	out = p.AppendLoss(out, event.Loss{Cause: bpf.LostRingbuf, Count: 3, Time: 2 * second})
	out = p.AppendLoss(out, event.Loss{Cause: bpf.LostRingbuf, Count: 2, Time: 2*second + 1})
	totals := output.Totals{}
	totals.Lost[bpf.LostRingbuf] = 6
	out, err := p.AppendEnd(out, &totals)
	if err != nil {
		t.Fatal(err)
	}
	want := func(n, to int) string {
		return fmt.Sprintf(`metric {name="ksnoop.lost" description="What is missing among events and in other metrics, by cause." unit="1" sum={data_points=[{start_time_unix_nano=%s time_unix_nano=%s as_int=%d attributes=[cause="records lost because the ring buffer was full"]}] aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE is_monotonic=true}}`,
			at(2*second), at(int64(to)), n)
	}
	if diff := cmp.Diff([]string{want(3, 2*second), want(6, 2*second+1)}, read(t, out)); diff != "" {
		t.Error(diff)
	}
}

// summarized prints two summaries, each with what fill adds, and returns the last metrics.
func summarized(t *testing.T, specs string, fill func(*formattest.Summed)) (lines []string) {
	t.Helper()
	return summarizedAs(t, Options{}, specs, fill)
}

func summarizedAs(t *testing.T, o Options, specs string, fill func(*formattest.Summed)) (lines []string) {
	t.Helper()
	k := formattest.New(t, "t_")
	k.Calls(specs)
	p := New(k.Run, o)
	s := k.Summed()
	first, err := p.AppendHeader(nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(s)
	if first, err = p.AppendSummary(first, s.Summary()); err != nil {
		t.Fatal(err)
	}
	fill(s)
	both, err := p.AppendSummary(first, s.Summary())
	if err != nil {
		t.Fatal(err)
	}
	lines = read(t, both)
	lines = lines[len(lines)/2:]
	last := len(lines) - 1
	if !strings.Contains(lines[last], `"ksnoop.lost"`) || !strings.Contains(lines[last], " as_int=4 ") {
		t.Errorf("each summary lacks 2 calls: %s", lines[last])
	}
	return lines[:last]
}

// TestTables: metrics have what was added up since the first summary, with keys as attributes.
func TestTables(t *testing.T) {
	got := summarized(t, "t_read(count()[return, $comm])", func(s *formattest.Summed) {
		s.Add(0, []any{-2, "a\x1b"}, 0, 0, 0)
		s.Add(0, []any{5, ""}, 0)
	})
	if len(got) != 1 || !strings.Contains(got[0], `metric {name="ksnoop.calls" description="Calls." unit="{call}" sum={data_points=[{`) ||
		!strings.Contains(got[0], ` as_int=6 attributes=[ksnoop.spec="t_read(count()[return, $comm])" ksnoop.item="count()" return="-ENOENT" comm="a\\x1b"]}`) ||
		!strings.Contains(got[0], ` as_int=2 `) || !strings.HasSuffix(got[0], `aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE is_monotonic=true}}`) {
		t.Errorf("%q", got)
	}
	values := map[string]string{}
	for _, line := range summarized(t, "t_open(stats($duration), sum(flags), quantiles($duration), top(1, return))", func(s *formattest.Summed) {
		s.Add(0, nil, 10, 20)
		s.Add(1, nil, uint64(1<<64-7))
		s.Add(2, nil, 10, 20)
		s.Add(3, nil, 4, 4, 5)
	}) {
		name := strings.Split(line, `"`)[1]
		for _, point := range strings.Split(line, "as_int=")[1:] {
			values[name] += strings.Fields(point)[0] + " "
		}
		if strings.Contains(name, "sum") && strings.Contains(line, "is_monotonic") != (name == "ksnoop.duration.sum") {
			t.Errorf("%s: only a sum of unsigned numbers only grows", line)
		}
	}
	if diff := cmp.Diff(map[string]string{"ksnoop.duration.calls": "4 4 ", "ksnoop.duration.sum": "60 ", "ksnoop.duration.min": "10 ", "ksnoop.duration.max": "20 20 ", "ksnoop.duration.quantile": "10 20 20 20 ",
		"ksnoop.flags.calls": "2 ", "ksnoop.flags.sum": "-14 ", "ksnoop.return.top": "4 ", "ksnoop.return.top.too_many": "0 "}, values); diff != "" {
		t.Error(diff)
	}
}

// TestHistograms holds every bucket to a count of the values.
func TestHistograms(t *testing.T) {
	for _, spec := range []string{"t_read(hist(count))", "t_open(hist(flags, 4))", "t_open(lhist(flags, -20, 40, 10))"} {
		signed := strings.HasPrefix(spec, "t_open")
		var values []int64
		lines := summarized(t, spec, func(s *formattest.Summed) {
			for range 500 {
				v := rand.Int64N(1 << rand.Int64N(31))
				if signed && v%3 == 0 {
					v = -v
				}
				s.Add(0, nil, uint64(v))
				values = append(values, v)
			}
		})
		if len(lines) != 1 || !strings.Contains(lines[0], "histogram={") || !strings.Contains(lines[0], " count=1000 ") {
			t.Fatalf("%s: %q", spec, lines)
		}
		list := func(name string) []string {
			_, rest, _ := strings.Cut(lines[0], name+"=[")
			text, _, _ := strings.Cut(rest, "]")
			return strings.Fields(text)
		}
		counts, bounds := list("bucket_counts"), list("explicit_bounds")
		if len(counts) != len(bounds)+1 {
			t.Fatalf("%s: %d counts, %d bounds", spec, len(counts), len(bounds))
		}
		var sum, below int
		last := -1e300
		for i, bound := range bounds {
			n, _ := strconv.Atoi(counts[i])
			b, err := strconv.ParseFloat(bound, 64)
			if err != nil || b <= last {
				t.Fatalf("%s: bound %s behind %g", spec, bound, last)
			}
			last, sum, below = b, sum+n, 0
			for _, v := range values {
				if float64(v) <= b {
					below++
				}
			}
			if sum != below {
				t.Errorf("%s: %d values up to %s, want %d", spec, sum, bound, below)
			}
		}
	}
}

// TestMany: a metric with many data points becomes several, which requests can hold.
func TestMany(t *testing.T) {
	lines := summarized(t, "t_read(count()[count])", func(s *formattest.Summed) {
		for i := range 2500 {
			s.Add(0, []any{i}, 0)
		}
	})
	points := 0
	for _, line := range lines {
		points += strings.Count(line, "as_int=2 ")
	}
	if len(lines) != 3 || points != 2500 {
		t.Errorf("%d metrics, %d points", len(lines), points)
	}
}

// TestFull: when a table is full, what was added up is since the summary after that.
func TestFull(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count()[count])")
	p := New(k.Run, Options{})
	s := k.Summed()
	const keys = 1 << 16
	for i := range keys {
		s.Add(0, []any{i}, 0)
	}
	for n := range 3 {
		out, err := p.AppendHeader(nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Add(0, []any{7}, 0)
		x := s.Summary()
		x.Start, x.End = uint64(1+n)*second, uint64(2+n)*second
		if out, err = p.AppendSummary(out, x); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			continue // all keys
		}
		text := read(t, out)[0]
		if want := fmt.Sprintf("start_time_unix_nano=%s time_unix_nano=%s as_int=%d ", at(2*second), at(int64(2+n)*second), n); strings.Count(text, "as_int=") != 1 || !strings.Contains(text, want) {
			t.Errorf("summary %d lacks %s: %.500s", n, want, text)
		}
	}
}

// TestClockSet: what sums are since stays the same time of day when the clock is set. They begin anew if it is set to before that.
func TestClockSet(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_read(count())")
	now := formattest.Boot
	k.Run.Booted = func() time.Time { return now }
	p := New(k.Run, Options{})
	s := k.Summed()
	for n, c := range []struct {
		set                time.Duration
		began, sum, losing int64
	}{
		{0, second, 1, second},
		{time.Hour, second, 2, second},
		{30 * time.Minute, second, 3, second},
		{-time.Hour, 4*second - int64(time.Hour), 1, 5*second - int64(time.Hour)},
		{0, 4*second - int64(time.Hour), 2, 5*second - int64(time.Hour)},
	} {
		now = formattest.Boot.Add(c.set)
		s.Add(0, nil, 0)
		x := s.Summary()
		x.Start, x.End = uint64(1+n)*second, uint64(2+n)*second
		out, err := p.AppendHeader(nil)
		if err == nil {
			out, err = p.AppendSummary(out, x)
		}
		if err != nil {
			t.Fatal(err)
		}
		lines, to := read(t, out), at(int64(2+n)*second+int64(c.set))
		for i, want := range []string{
			fmt.Sprintf("start_time_unix_nano=%s time_unix_nano=%s as_int=%d ", at(c.began), to, c.sum),
			fmt.Sprintf("start_time_unix_nano=%s time_unix_nano=%s as_int=%d ", at(c.losing), to, 2*(n+1)),
		} {
			if !strings.Contains(lines[i], want) {
				t.Errorf("summary %d lacks %s: %s", n, want, lines[i])
			}
		}
	}
}

// TestRedacted: a value that was not captured is not a number.
func TestRedacted(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Redact = []string{"count"}
	k.Calls("t_read(count, quick)")
	raw := k.Raw(formattest.Record{Func: "read", Event: bpf.Event{Kind: bpf.KindEntry, Time: 100, PID: 7, TID: 7}, Words: []uint64{0, 1}})
	if lines := strings.Join(read(t, printed(t, k, New(k.Run, Options{}), raw)), "\n"); !strings.Contains(lines, `ksnoop.value.count="<redacted>" ksnoop.value.quick=true`) {
		t.Error(lines)
	}
}

// TestResourceLater: what comes to be known of a process's cgroup is in the resources of later calls.
func TestResourceLater(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Owner = layout.OwnerCgroup
	k.Calls("t_open(flags)")
	known := []container.Group{{}, {Path: "/a"}, {Path: "/a"}}
	k.Run.Cgroup = func(uint64) (g container.Group) { g, known = known[0], known[1:]; return g }
	var raw [][]byte
	for i := range known {
		raw = append(raw, k.Raw(formattest.Record{Func: "open", Event: bpf.Event{Time: uint64(1000 + i), PID: 7, TID: 7}, Owner: bpf.Owner{Cgroup: 5}, Words: []uint64{3}}))
	}
	p := New(k.Run, Options{})
	lines := read(t, printed(t, k, p, raw...))
	for i, want := range []string{"log process.pid=7 {", `log process.pid=7 process.linux.cgroup="/a" {`, `log process.pid=7 process.linux.cgroup="/a" {`} {
		if len(lines) <= i || !strings.HasPrefix(lines[i], want) {
			t.Errorf("%d: %q, want %s", i, lines, want)
		}
	}
	if n := len(p.known.numbers); n != 2 {
		t.Errorf("%d resources", n)
	}
}

// TestForget: a resource that was forgotten is described again.
func TestForget(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Calls("t_open(flags)")
	var raw [][]byte
	for i := range uint32(2*mostResources + 10) {
		raw = append(raw, k.Raw(formattest.Record{Func: "open", Event: bpf.Event{Time: uint64(1000 + i), PID: 1 + i, TID: 7}, Words: []uint64{3}}))
	}
	p := New(k.Run, Options{})
	if lines := read(t, printed(t, k, p, raw...)); len(lines) != len(raw) || len(p.known.numbers) > mostResources {
		t.Errorf("%d lines, %d resources", len(lines), len(p.known.numbers))
	}
}

// FuzzPrinter: whatever a recording has, messages have published fields only, and no text acts on a
// terminal.
func FuzzPrinter(f *testing.F) {
	formattest.Fuzz(f, "../../testdata/calls.ks", "../../testdata/sessions.ks", func(r output.Run) formattest.Printer { return New(r, Options{Spans: true}) }, func(t *testing.T, out []byte) {
		for _, line := range read(t, out) {
			if raw := formattest.Unsafe(line); raw != "" {
				t.Errorf("%q is in %q", raw, line)
			}
		}
	})
}

// FuzzNext: frames that are none are refused.
func FuzzNext(f *testing.F) {
	frame := Frame{Span, 1, 2, []byte("x")}
	f.Add(frame.append(nil))
	f.Fuzz(func(t *testing.T, stream []byte) {
		for len(stream) > 0 {
			_, rest, err := Next(stream)
			if err != nil {
				return
			}
			if len(rest) >= len(stream) {
				t.Fatal("no end")
			}
			stream = rest
		}
	})
}

// TestPlaces: rows of one container are one data point, which has its name and, since others can have that name, its ID.
func TestPlaces(t *testing.T) {
	k := formattest.New(t, "t_")
	id := strings.Repeat("9b", 32)
	path := "/kubepods/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/crio-" + id
	k.Run.Cgroup = func(n uint64) container.Group {
		return container.Group{Path: map[uint64]string{1: path, 2: path + "/x", 3: "/user.slice"}[n], Names: container.Names{Container: "app", Pod: "web-0", Namespace: "prod"}}
	}
	k.Calls("t_read(count()[$container, $pod])")
	p := New(k.Run, Options{})
	s := k.Summed()
	for n := range 3 {
		s.Add(0, []any{n + 1, n + 1}, 0)
	}
	out, err := p.AppendHeader(nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, err = p.AppendSummary(out, s.Summary()); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(read(t, out), "\n")
	if !strings.Contains(text, ` as_int=2 attributes=[ksnoop.spec="t_read(count()[$container, $pod])" ksnoop.item="count()" container="prod/web-0/app" container.id="`+id+`" pod="prod/web-0" pod.uid="068e8fa0-9213-11e7-a01f-507b9d4141fa"]`) ||
		strings.Count(text, " as_int=1 ") != 1 {
		t.Error(text)
	}
}
