// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// numbered prints summaries as their times.
type numbered struct{ *output.Summaries }

func (numbered) AppendSummary(dst []byte, s *summary.Summary) ([]byte, error) {
	if s.End == 13 {
		return dst, errors.New("13")
	}
	return fmt.Appendf(dst, "%d to %d\n", s.Start, s.End), nil
}

// A waiting is a view that writes a line when there are no more records.
type waiting struct {
	tally show.Tally
	end   string
}

func (w *waiting) Write(out io.Writer, records iter.Seq2[[]byte, error], _ func() bool) error {
	for _, err := range records {
		if err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, "records\n")
	return err
}
func (w *waiting) Tally() *show.Tally { return &w.tally }
func (w *waiting) End(io.Writer, event.Losses, error) error {
	w.end = "ended"
	return nil
}

// TestSummaries: the last summary comes behind the records. On a terminal, those before it are
// drawn and taken away.
func TestSummaries(t *testing.T) {
	times := func(ends ...uint64) iter.Seq2[*summary.Summary, error] {
		return func(yield func(*summary.Summary, error) bool) {
			for _, end := range ends {
				if !yield(&summary.Summary{Start: end - 1, End: end}, nil) {
					t.Error("nobody takes the summaries to their end")
				}
			}
		}
	}
	none := func(func([]byte, error) bool) {}
	last := func() (*summary.Summary, error) { return &summary.Summary{Start: 8, End: 9, Last: true}, nil }
	var out strings.Builder
	records := &waiting{}
	var ended, failed int
	v := &show.Summaries{Records: records, Printer: numbered{}, Times: times(1, 2), Last: last, Ended: func() { ended++ }, Failed: func() { failed++ }}
	if err := v.Write(&out, none, nil); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasSuffix(got, "8 to 9\n") || !strings.Contains(got, "0 to 1\n") || !strings.Contains(got, "1 to 2\n") || !strings.Contains(got, "records\n") {
		t.Errorf("%q", got)
	}
	if err := v.End(&out, event.Losses{}, nil); err != nil || records.end == "" || v.Tally() != &records.tally {
		t.Error("it does not end as its records do")
	}
	out.Reset()
	var drawn []string
	v.Times, v.Draw, v.Clear = times(3, 4), func(text []byte) error { drawn = append(drawn, string(text)); return nil }, func() error { drawn = append(drawn, "clear"); return nil }
	if err := v.Write(&out, none, nil); err != nil || strings.Join(drawn, "|") != "2 to 3\n|3 to 4\n|clear" || out.String() != "records\n8 to 9\n" {
		t.Errorf("%v, %q, %q", err, drawn, out.String())
	}
	if ended != 2 || failed != 0 {
		t.Errorf("ended %d times, failed %d times", ended, failed)
	}
	v.Times = func(yield func(*summary.Summary, error) bool) {
		if !yield(&summary.Summary{Start: 11, End: 12}, nil) || yield(&summary.Summary{Start: 12, End: 13}, nil) {
			t.Error("summaries are taken that nobody writes")
		}
	}
	if err := v.Write(io.Discard, none, nil); err == nil || err.Error() != "13" || failed != 1 {
		t.Errorf("a summary that cannot be printed: %v, told %d times", err, failed)
	}
	v.Times, v.Last = nil, nil
	out.Reset()
	if err := v.Write(&out, none, nil); err != nil || out.String() != "records\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}

// TestSummariesUnread: times end, too, when the view of the records fails before it reads any.
func TestSummariesUnread(t *testing.T) {
	ended := make(chan struct{})
	v := &show.Summaries{Records: &show.Calls{Plan: &plan.Plan{}, Printer: &output.Calls{}}, Printer: numbered{}, Ended: func() { close(ended) },
		Times: func(func(*summary.Summary, error) bool) { <-ended }}
	full := errors.New("no space left")
	if err := v.Write(failing{full}, func(func([]byte, error) bool) { t.Error("records are read") }, func() bool { return true }); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// A counting is a view and a printer that number what they print, and hold text back.
type counting struct {
	*output.Summaries
	waiting
	n int
}

func (c *counting) line(dst []byte) []byte { c.n++; return fmt.Appendf(dst, "%d\n", c.n) }

func (c *counting) AppendSummary(dst []byte, _ *summary.Summary) ([]byte, error) {
	return c.line(dst), nil
}

func (c *counting) Write(out io.Writer, records iter.Seq2[[]byte, error], idle func() bool) error {
	var held []byte
	flush := func() error {
		_, err := out.Write(held)
		held = held[:0]
		return err
	}
	held = c.line(held)
	if err := flush(); err != nil {
		return err
	}
	for range records {
		if held = c.line(held); idle() {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	held = c.line(held)
	return flush()
}

// TestSummariesInTurn: a printer of calls and of tables is used by one at a time, and its lines are
// written in the order in which it has made them, under a flood of records too.
func TestSummariesInTurn(t *testing.T) {
	for name, idle := range map[string]func() bool{"flood": func() bool { return false }, "idle": func() bool { return true }} {
		const times = 50
		taken := make(chan struct{})
		c := &counting{}
		v := &show.Summaries{Records: c, Printer: c, Ended: func() {}, Times: func(yield func(*summary.Summary, error) bool) {
			defer close(taken)
			for range times {
				yield(&summary.Summary{}, nil)
			}
		}}
		records := 0
		flood := func(yield func([]byte, error) bool) {
			for ; ; records++ {
				select {
				case <-taken:
					return
				default:
				}
				if !yield(nil, nil) {
					return
				}
			}
		}
		var out strings.Builder
		if err := v.Write(&out, flood, idle); err != nil {
			t.Fatal(err)
		}
		lines := strings.Fields(out.String())
		if len(lines) != records+times+2 {
			t.Errorf("%s: %d lines of %d records and %d summaries", name, len(lines), records, times)
		}
		for i, line := range lines {
			if line != fmt.Sprint(i+1) {
				t.Fatalf("%s: line %d is %s", name, i+1, line)
			}
		}
	}
}
