// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/layout"
)

var (
	_ show.CallPrinter    = (*Collector)(nil)
	_ show.SessionPrinter = (*Collector)(nil)
	_ show.SummaryPrinter = (*Collector)(nil)
	_ CallPrinter         = (*output.Calls)(nil)
)

// textsOf returns what prints the events of a run.
func textsOf(k *formattest.Trace) Texts {
	calls := output.NewCalls(output.Names{})
	calls.Tails = &output.Tails{Kernel: k.Run.Resolver}
	return Texts{Call: calls, Row: output.NewCompactCalls(output.Names{}, 80), Session: output.NewSessions(output.SessionOptions{Resolver: k.Run.Resolver, Boot: formattest.Boot}),
		Summary: output.NewSummaries(k.Run, nil, false), Loss: calls.AppendLoss}
}

// A source has events in memory.
type source struct {
	k      *formattest.Trace
	all    []any // calls, sessions and losses
	notes  string
	err    error
	most   int // events that the store has room for; 0: as ever
	asked  []string
	stores []*Store
}

func (*source) Name() string { return "test.ks" }

func (s *source) Read(specs string, store *Store) (*Collector, func() (string, error), error) {
	s.asked, s.stores = append(s.asked, specs), append(s.stores, store)
	if specs == "wrong" {
		return nil, nil, errors.New("a fault in the SPEC\n  wrong\n  ^~~~~\n  column 1: it is wrong")
	}
	if s.most > 0 {
		store.mostEvents = s.most
	}
	c := NewCollector(store, s.k.Run, textsOf(s.k))
	return c, func() (string, error) {
		for _, e := range s.all {
			var err error
			switch e := e.(type) {
			case *calls.Call:
				if !strings.Contains(specs, "open") || e.Last().Probe.Func.Name == "t_open" {
					_, err = c.AppendCall(nil, e)
				}
			case *session.Session:
				_, err = c.AppendSession(nil, e)
			case event.Loss:
				c.AppendLoss(nil, e)
			}
			if err != nil {
				return "", err
			}
		}
		return s.notes, s.err
	}, nil
}

// someCalls are n calls of t_read and t_open in turns, of which each tenth fails.
func someCalls(t testing.TB, n int) *source {
	k := formattest.New(t, "t_")
	k.Calls("t_read(path, count, return)", "t_open(flags, return)")
	var raw [][]byte
	for i := range uint64(n) {
		entry := bpf.Event{Kind: bpf.KindEntry, Time: 1e9 + i*1e6, PID: 7, TID: 7, Comm: formattest.Comm("cat")}
		back := entry
		back.Kind, back.Time = bpf.KindReturn, entry.Time+1000
		result := i
		if i%10 == 9 {
			result = formattest.Errno(2)
		}
		if i%2 == 0 {
			raw = append(raw, k.Raw(formattest.Record{Func: "open", Event: entry, Words: []uint64{i}, Stack: []uint64{formattest.Syscall + 0x60}}), k.Raw(formattest.Record{Func: "open", Event: back, Words: []uint64{result}}))
		} else {
			raw = append(raw, k.Raw(formattest.Record{Func: "read", Event: entry, Words: []uint64{1, i}, Text: "/file/" + strconv.Itoa(int(i))}), k.Raw(formattest.Record{Func: "read", Event: back, Words: []uint64{result}}))
		}
	}
	s := &source{k: k}
	for c := range k.Joined(raw...) {
		kept, entry, back := *c, *c.Entry, *c.Return // which are valid until the next
		entry.Data, back.Data = slices.Clone(entry.Data), slices.Clone(back.Data)
		entry.Tail, back.Tail = slices.Clone(entry.Tail), slices.Clone(back.Tail)
		kept.Entry, kept.Return = &entry, &back
		s.all = append(s.all, &kept)
	}
	return s
}

func matcher(text string) (func([]byte) bool, error) {
	if text == "bad" {
		return nil, errors.New("it is bad")
	}
	return func(b []byte) bool { return bytes.Contains(b, []byte(text)) }, nil
}

// started returns a model that has read all, in a window of a size.
func started(t testing.TB, s *source, width, height int) *model {
	t.Helper()
	m, err := newModel(Options{Source: s, Matcher: matcher})
	if err != nil {
		t.Fatal(err)
	}
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	wait(m)
	return m
}

// wait waits until all was read.
func wait(m *model) {
	for run(m, m.lookOn()); !m.state.ended; {
		m.Update(tickMsg{})
	}
}

// run does what is left to do after a message.
func run(m *model, cmd tea.Cmd) {
	for cmd != nil {
		msg := cmd()
		if _, ok := msg.(tickMsg); ok {
			return
		}
		_, cmd = m.Update(msg)
	}
}

// press presses keys, which are characters or names in <>.
func press(m *model, keys string) {
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "home": tea.KeyHome, "end": tea.KeyEnd, "pgdown": tea.KeyPgDown,
		"pgup": tea.KeyPgUp, "left": tea.KeyLeft, "right": tea.KeyRight, "backspace": tea.KeyBackspace, "tab": tea.KeyTab, "delete": tea.KeyDelete}
	for keys != "" {
		var key tea.KeyPressMsg
		if name, rest, ok := strings.Cut(strings.TrimPrefix(keys, "<"), ">"); ok && keys[0] == '<' {
			key, keys = tea.KeyPressMsg{Code: named[name]}, rest
			if letter, ok := strings.CutPrefix(name, "ctrl+"); ok {
				key = tea.KeyPressMsg{Code: rune(letter[0]), Mod: tea.ModCtrl}
			}
		} else {
			key, keys = tea.KeyPressMsg{Code: rune(keys[0]), Text: keys[:1]}, keys[1:]
		}
		_, cmd := m.Update(key)
		run(m, cmd)
	}
}

// seen returns the screen as one reads it, without blanks at the ends of lines.
func seen(m *model) (lines []string) {
	for _, line := range m.screen() {
		lines = append(lines, strings.TrimRight(ansi.Strip(line), " "))
	}
	return lines
}

// cursor returns the line that is shown in reverse.
func cursor(m *model) string {
	for _, line := range m.screen()[1:] {
		if strings.HasPrefix(line, reverse) {
			return strings.TrimSpace(ansi.Strip(line))
		}
	}
	return ""
}

const opened = "              cat       7    0         1.000001 t_open("

// TestList: calls are on lines, unfolded as replay prints them, and folded again.
func TestList(t *testing.T) {
	m := started(t, someCalls(t, 3), 80, 20)
	want := []string{" test.ks", "▸" + opened + "flags = 0, return = 0)"}
	if diff := cmp.Diff(want, seen(m)[:2]); diff != "" {
		t.Error(diff)
	}
	press(m, "<enter>")
	var whole strings.Builder
	call, _ := m.events.texts.Call.AppendCall(nil, m.Source.(*source).all[0].(*calls.Call))
	whole.Write(call)
	want = []string{" test.ks", "▾" + opened + "flags = 0, return = 0)"}
	for line := range strings.Lines(strings.TrimRight(whole.String(), "\n")) {
		want = append(want, strings.TrimRight("  "+line, "\n "))
	}
	want = append(want, "▸")
	got := seen(m)
	if diff := cmp.Diff(want[:len(want)-1], got[:len(want)-1]); diff != "" || !strings.Contains(whole.String(), "entry_SYSCALL_64+0x60") || !strings.HasPrefix(got[len(want)-1], "▸") {
		t.Errorf("%s\n%q", diff, got)
	}
	press(m, "jj<enter>") // in the middle of the event
	if got := seen(m); !strings.HasPrefix(got[1], "▸") || !strings.HasPrefix(got[2], "▸") || m.at != (position{}) {
		t.Errorf("folded: %q, %v", got, m.at)
	}
	press(m, "o")
	if got := seen(m); !strings.HasPrefix(got[1], "▾") || !m.unfolded(2) {
		t.Errorf("all unfolded: %q", got)
	}
	press(m, "o")
	if got := seen(m); !strings.HasPrefix(got[3], "▸") || got[4] != "" || got[18] != "1 of 3" || got[19] != helpLine {
		t.Errorf("all folded: %q", got)
	}
}

// TestMoves: the cursor goes where keys say, and is always shown.
func TestMoves(t *testing.T) {
	m := started(t, someCalls(t, 100), 80, 13) // 10 rows
	for _, c := range []struct {
		keys string
		at   int
		top  int
	}{
		{"", 0, 0}, {"j", 1, 0}, {"jjj<down>", 5, 0}, {"k<up>", 3, 0}, {"<pgdown>", 13, 10}, {"<pgup>", 3, 0}, {"d", 8, 5}, {"<ctrl+u>", 3, 0}, {"G", 99, 90}, {"j", 99, 90}, {"g", 0, 0}, {"<pgup>k", 0, 0},
		{"e", 9, 0}, {"e", 19, 14}, {"e", 29, 24}, {"E", 19, 14}, {"EE", 9, 4}, {"<end>", 99, 90}, {"e", 99, 90}, {"]", 99, 90}, {"[", 98, 90}, {"<home><tab>", 1, 0}, {"/file/51\"<enter>", 51, 46}, {"g", 0, 0},
	} {
		if press(m, c.keys); m.at.event != c.at || m.top.event != c.top {
			t.Errorf("%q: at %v, top %v; want %d, %d", c.keys, m.at, m.top, c.at, c.top)
		}
		if !strings.Contains(cursor(m), fmt.Sprintf("1.%06d", 1000*m.at.event+1)) && m.at.line == 0 {
			t.Errorf("%q: the cursor is on %q", c.keys, cursor(m))
		}
	}
	press(m, "<right>")
	if got := cursor(m); strings.Contains(got, "cat") || !strings.Contains(got, "t_open") {
		t.Errorf("scrolled: %q", got)
	}
	press(m, "<left><left>")
	if got := cursor(m); !strings.Contains(got, "cat") {
		t.Errorf("scrolled back: %q", got)
	}
}

// TestSearch: n and N find each line that matches, in events that are folded too.
func TestSearch(t *testing.T) {
	m := started(t, someCalls(t, 100), 80, 13)
	press(m, "/SYSCALL<enter>") // in the stack of t_open
	for i, keys := range []string{"", "n", "n", "N", "N"} {
		want := []int{0, 2, 4, 2, 0}[i]
		if press(m, keys); m.at.event != want || !strings.Contains(cursor(m), "entry_SYSCALL_64") || !m.unfolded(want) {
			t.Errorf("%d: at %v, %q", i, m.at, cursor(m))
		}
	}
	if press(m, "N"); m.message != "no SYSCALL before this" || m.at.event != 0 {
		t.Errorf("%q, %v", m.message, m.at)
	}
	press(m, "Gn")
	if m.message != "no SYSCALL further on" {
		t.Errorf("%q", m.message)
	}
	press(m, "/bad<enter>")
	if m.message != "it is bad" || m.search.text != "SYSCALL" {
		t.Errorf("%q", m.message)
	}
	press(m, "g/xx<esc>n")
	if m.search.text != "SYSCALL" || m.at.event != 0 {
		t.Errorf("given up: %q, %v", m.search.text, m.at)
	}
	if press(m, "/<backspace>z"); m.prompt != nil || m.message != "? shows what keys do" {
		t.Errorf("%v, %q", m.prompt, m.message)
	}
	// A key stops a search that takes long.
	m.scan = &scan{at: 1, from: position{}, by: 1}
	late := scanMsg{m.scan}
	press(m, "z")
	if m.message != "stopped" || m.scan != nil {
		t.Errorf("%q", m.message)
	}
	at := m.at
	if _, cmd := m.Update(late); cmd != nil || m.at != at {
		t.Error("a search goes on that was stopped")
	}
}

// TestSpecs: a SPEC asks the recording again. A fault is shown, and what was typed can be mended.
func TestSpecs(t *testing.T) {
	s := someCalls(t, 100)
	m := started(t, s, 80, 13)
	press(m, "fwrong<enter>")
	if got := strings.Join(seen(m), "\n"); !strings.Contains(got, "  wrong\n  ^~~~~\n  column 1: it is wrong") || !strings.Contains(got, "of 100") {
		t.Errorf("%s", got)
	}
	press(m, "f<ctrl+u>opex<backspace>n()<left><delete><enter>")
	wait(m)
	if got := seen(m); m.state.events != 50 || got[11] != "1 of 50  SPEC open(" || !slices.Equal(s.asked, []string{"", "wrong", "open("}) {
		t.Errorf("%q, %q", got, s.asked)
	}
	press(m, "f<ctrl+w><enter>")
	if wait(m); m.state.events != 100 {
		t.Errorf("%d events without SPECs", m.state.events)
	}
	for i, store := range s.stores { // the second SPEC was refused
		if last := i == len(s.stores)-1; store.isDropped() == (last || i == 1) {
			t.Errorf("%d: dropped %v", i, store.isDropped())
		}
	}
	press(m, "?")
	if got := strings.Join(seen(m), "\n"); !strings.Contains(got, "a line down") || !strings.Contains(got, "… more: ↓") {
		t.Errorf("%s", got)
	}
	press(m, strings.Repeat("j", 40))
	if got := strings.Join(seen(m), "\n"); !strings.Contains(got, "q, ctrl+c") || strings.Contains(got, "more: ↓") {
		t.Errorf("%s", got)
	}
	press(m, "x")
	if m.panel != nil {
		t.Error("the page stays")
	}
}

// TestSessions: sessions have a line that says how and where they ended, and the text that replay prints.
func TestSessions(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	fine := k.Failed()
	fine.Failed, fine.Start, fine.End = false, 3_000_000, 3_050_000
	s := &source{k: k, all: []any{fine, k.Failed(), event.Loss{Cause: bpf.LostRingbuf, Count: 3}}, notes: "ksnoop: 3 records lost\nksnoop: more\n"}
	m := started(t, s, 100, 30)
	want := []string{
		" test.ks", "▸ 20:00:00.003000      50.000us       8 cat                            t_open",
		"▸ 20:00:00.000001       1.000us       8 cat             [-ENOMEM]      t_open in t_alloc",
		"▸ --- 3 records lost because the ring buffer was full ---",
	}
	got := seen(m)
	if diff := cmp.Diff(want, got[:4]); diff != "" || got[28] != "3 records lost (and 1 more)   (1 of 3)" {
		t.Errorf("%s\n%q", diff, got[28])
	}
	if press(m, "e"); m.at.event != 1 {
		t.Errorf("the failure: %v", m.at)
	}
	if press(m, "e"); m.at.event != 2 {
		t.Errorf("what is missing: %v", m.at)
	}
	press(m, "E<enter>")
	printed, _ := textsOf(k).Session.AppendSession(nil, k.Failed())
	if got := strings.Join(seen(m), "\n"); !strings.Contains(got, strings.Split(string(printed), "\n")[0]) || !strings.Contains(got, "t_alloc") {
		t.Errorf("%s", got)
	}
}

// TestSessionRow: the row of a session is one line, and has the error that the session has failed with.
func TestSessionRow(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	silent := *k.Probe("open") // as a function without a result
	silent.Result, silent.Class = nil, layout.NeverFails
	silence := func(f *session.Frame) { f.Func, f.Failed = &silent, false }
	for _, c := range []struct {
		name   string
		change func(s *session.Session)
		want   string
	}{
		{"the entry function's", func(*session.Session) {}, "cat             [-ENOMEM]      t_open in t_alloc"},
		{"of the last call that can", func(s *session.Session) { silence(&s.Chain.Frames[0]) }, "cat             [-ENOMEM]      t_open in t_alloc"},
		{"NULL", func(s *session.Session) { silence(&s.Chain.Frames[0]); silence(&s.Chain.Frames[1]) }, "cat             [NULL]         t_open in t_alloc"},
		{"of one that has returned", func(s *session.Session) { s.Chain.Frames[0].Finished, s.Chain.Frames[0].Result = false, 0 }, "cat             [-ENOMEM]      t_open in t_alloc"},
		{"of none", func(s *session.Session) { s.Chain.Frames = nil }, "cat                            t_open"},
		{"two lines", func(s *session.Session) { s.Comm = "a\nb" }, `a\nb            [-ENOMEM]      t_open in t_alloc`},
		{"names", func(s *session.Session) {
			evil := *s.Func
			evil.Name = formattest.Evil
			s.Func, s.Comm = &evil, formattest.Evil
			s.Chain.Frames[2].Func = &evil
		}, ""},
	} {
		s := k.Failed()
		c.change(s)
		row := string(appendSessionRow(nil, s, formattest.Boot))
		_, got, _ := strings.Cut(row, "us       8 ")
		if c.want != "" && got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if bad := formattest.Unsafe(row); bad != "" || strings.Contains(row, "\n") {
			t.Errorf("%s: %q in %q", c.name, bad, row)
		}
	}
}

// TestEnds: why there are no more events is said.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		change func(s *source)
		want   string
		title  string
	}{
		{func(s *source) { s.err = errors.New("cut\x1b[2Joff") }, `it ends early: cut\x1b[2Joff   (1 of 5)`, " test.ks · ends early"},
		{func(s *source) { s.most = 3 }, "only the first 3 events are here, there is no room for more: choose fewer with f SPEC, --since or -p   (1 of 3)", " test.ks · not all of it"},
		{func(s *source) { s.all = nil }, "no recorded call or session matches   (0 of 0)", " test.ks"},
	} {
		s := someCalls(t, 5)
		c.change(s)
		m := started(t, s, 150, 12)
		if got := seen(m); got[10] != c.want {
			t.Errorf("%q, want %q", got[10], c.want)
		}
		press(m, "jGgenN<enter>o<pgdown>/x<enter>") // with no events, too
		if got := seen(m)[0]; got != c.title {
			t.Errorf("the title: %q, want %q", got, c.title)
		}
	}
}

// TestCollectorClock: the row of a session has the time of day that its text has.
func TestCollectorClock(t *testing.T) {
	k := formattest.New(t, "t_")
	k.Sessions(false, "t_open", "t_read", "t_alloc")
	k.Run.Booted = func() time.Time { return formattest.Boot.Add(time.Hour) } // as a later part has it
	texts := textsOf(k)
	texts.Session = output.NewSessions(output.SessionOptions{Resolver: k.Run.Resolver, Booted: k.Run.Booted})
	store := newStore()
	if _, err := NewCollector(store, k.Run, texts).AppendSession(nil, k.Failed()); err != nil {
		t.Fatal(err)
	}
	_, text, err := store.event(0)
	if n := strings.Count(string(text), "21:00:00.000001 "); err != nil || n != 2 {
		t.Errorf("%v:\n%s", err, text)
	}
}

// TestStore: events come back as they were put in, whichever is asked for, and there is a bound to all.
func TestStore(t *testing.T) {
	s := newStore()
	var want []string
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		text := strings.Repeat(strconv.Itoa(i)+" ", r.IntN(300))
		want = append(want, text)
		if err := s.add(kindText, i%7 == 0, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	room := 0
	for _, c := range s.chunks {
		room += cap(c)
	}
	if all := len(strings.Join(want, "")); all <= maxRecent || s.packed > all/2 || room > s.packed*5/4 {
		t.Errorf("%d chunks of %d bytes, which take %d", len(s.chunks), s.packed, room)
	}
	for range 5000 {
		i := r.IntN(len(want))
		if _, got, err := s.event(i); err != nil || string(got) != want[i] || s.bad(i) != (i%7 == 0) {
			t.Fatalf("event %d: %q, %v; want %q", i, got, err, want[i])
		}
	}
	if s.held > maxRecent || len(s.recent) < 2 {
		t.Errorf("%d chunks of %d bytes are kept", len(s.recent), s.held)
	}
	s.mostPacked = s.packed
	if err := s.add(kindText, false, nil); !errors.Is(err, errFull) {
		t.Errorf("no room: %v", err)
	}
	s = newStore()
	if err := s.add(kindText, false, make([]byte, maxEvent+1)); !errors.Is(err, errFull) {
		t.Errorf("too large: %v", err)
	}
	if s.drop(); !s.isDropped() || !errors.Is(s.add(kindText, false, nil), errDropped) {
		t.Error("what nobody looks at is read on")
	}
}

// TestLargeEvents: however large events are, no more than one of them is kept as it was, and its lines.
func TestLargeEvents(t *testing.T) {
	const size, n = 3 << 20, 8
	e := newEvents(NewCollector(newStore(), output.Run{}, Texts{}), false)
	for i := range n {
		if err := e.store.add(kindText, false, []byte(strconv.Itoa(i)+"\n"+strings.Repeat("x", size)+"\n")); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (n int) {
		for _, lines := range e.lines {
			n += sizeOf(lines)
		}
		return n
	}
	for i := range n {
		if lines := e.linesOf(i); len(lines) != 2 || lines[0] != strconv.Itoa(i) || len(lines[1]) != size {
			t.Errorf("event %d has %d lines", i, len(lines))
		}
		if e.store.held > size+chunkSize || len(e.store.recent) > 1 || e.held != kept() || e.held > keptLines {
			t.Errorf("event %d: %d chunks of %d bytes, lines of %d bytes, counted as %d", i, len(e.store.recent), e.store.held, kept(), e.held)
		}
	}
	if cap(e.store.last) > 4*chunkSize || cap(e.store.buf) > 4*chunkSize {
		t.Errorf("buffers of %d and %d bytes", cap(e.store.last), cap(e.store.buf))
	}
	// The rows of all of them are there without their lines.
	for i := range n {
		e.rowOf(i)
	}
	clear(e.lines)
	e.held = 0
	for i := range n {
		if row := e.rowOf(i); row != strconv.Itoa(i) || len(e.lines) > 0 {
			t.Errorf("row %d: %q, %d events have lines", i, row, len(e.lines))
		}
	}
	if e.linesOf(3); e.held == 0 {
		t.Error("no lines are kept")
	}
	if e.forget(3); e.held != 0 || len(e.lines) != 0 {
		t.Errorf("forgotten: %d bytes", e.held)
	}
}

// TestCalls: a call that was kept prints as it was, with its stack.
func TestCalls(t *testing.T) {
	s := someCalls(t, 20)
	c := NewCollector(newStore(), s.k.Run, textsOf(s.k))
	for _, e := range s.all {
		call := e.(*calls.Call)
		for _, half := range []*calls.Call{call, {Entry: call.Entry, End: calls.Open}, {Return: call.Return, End: calls.NoEntry}} {
			kept, err := c.parseCall(appendCall(nil, half))
			if err != nil {
				t.Fatal(err)
			}
			got, err1 := c.texts.Call.AppendCall(nil, kept)
			want, err2 := c.texts.Call.AppendCall(nil, half)
			if err1 != nil || err2 != nil || string(got) != string(want) {
				t.Errorf("%q, want %q: %v, %v", got, want, err1, err2)
			}
		}
	}
}

// TestWindows: whatever the size of the window and whatever is pressed, lines fit and nothing of the recording acts
// on the terminal.
func TestWindows(t *testing.T) {
	s := someCalls(t, 40)
	for i, e := range s.all {
		c := e.(*calls.Call)
		c.Entry.Comm, c.Return.Comm = formattest.Comm(formattest.Evil[:i%len(formattest.Evil)]), formattest.Comm(formattest.Evil)
	}
	s.k.Run.Host = formattest.Evil
	for _, p := range s.k.Run.Plan.Probes {
		p.Name = formattest.Evil
	}
	r := rand.New(rand.NewPCG(3, 4))
	keys := []string{"j", "k", "<pgdown>", "<pgup>", "G", "g", "<enter>", "o", "<right>", "<left>", "e", "E", "/7<enter>", "n", "N", "?", "x", "]", "[", "d", "u", "/abc", "<esc>", "fopen<enter>", "f<ctrl+u><enter>"}
	m := started(t, s, 80, 24)
	for i := range 3000 {
		width, height := 1+r.IntN(100), 1+r.IntN(14)
		m.Update(tea.WindowSizeMsg{Width: width, Height: height})
		key := keys[r.IntN(len(keys))]
		if press(m, key); !m.state.ended {
			wait(m)
		}
		m.View()
		lines := m.screen()
		if len(lines) > height {
			t.Fatalf("%d: %d lines in %d after %s", i, len(lines), height, key)
		}
		for _, line := range lines {
			bare := line
			for _, style := range []string{reverse, faint, plain} {
				bare = strings.ReplaceAll(bare, style, "")
			}
			if n := ansi.StringWidth(line); n > width || formattest.Unsafe(bare) != "" {
				t.Fatalf("%d: %d columns in %d after %s: %q", i, n, width, key, line)
			}
		}
	}
}
