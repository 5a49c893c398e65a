// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A Merged is one of several runs that are written together, each by its own view.
type Merged struct {
	View     View
	Records  iter.Seq2[[]byte, error]
	Sessions bool      // the records are those of sessions
	Boot     time.Time // when the clock of the records was zero; runs with one clock have the same
	// Host stands in the mark before what is written of this run, if it is not that of what
	// was written before. Without it there is no mark.
	Host string
	// Out is where this run is written apart, without marks; nil: with the others.
	Out io.Writer
	// Headed has each run print its header. Without it the first one is that of all.
	Headed bool
	// Err is why View.Write has ended; nil at the end of the records.
	Err error

	next  func() ([]byte, error, bool)
	head  []byte // the next record, if there is one
	bad   error  // instead of head
	time  uint64 // of head, by the clock of the records
	moved bool   // head is behind the record that is being written
	ended bool   // there is no head
	now   uint64 // time of the first record that is written until it is another run's turn
	step  func() (struct{}, bool)
	of    *merger
}

// Merge writes what several runs have recorded in the order of time, until there is no more
// or count calls and sessions were written; 0 is no limit. The records of each run stay in
// their order. The caller ends the runs.
func Merge(out io.Writer, runs []*Merged, count uint64) {
	m := &merger{out: out, runs: runs, count: count}
	headed := false
	for _, r := range runs {
		r.of = m
		var stopRecords, stop func()
		r.next, stopRecords = iter.Pull2(r.Records)
		defer stopRecords()
		r.advance()
		limit(r.View, m.enough)
		if v, ok := r.View.(*Calls); ok {
			if headed && !r.Headed {
				v.Printer = headless{v.Printer}
			}
			headed = true
		}
		r.step, stop = iter.Pull(m.write(r))
		defer stop()
		m.take(r) // up to the first record
	}
	for r := m.first(); r != nil && !m.enough(); r = m.first() {
		m.take(r)
	}
}

// A merger writes runs to one place. Only one of their views works at a time: it is suspended
// whenever it asks for a record.
type merger struct {
	out   io.Writer
	runs  []*Merged
	count uint64  // stop after so many calls and sessions; 0: never
	turn  *Merged // of which a record was taken last
	host  string  // of what was written last
}

// limit has a view write no more when enough says so. One record may have a view of calls write
// several, and so may the end of the records, to which a run comes that is stopped: calls that
// had not returned by then.
func limit(v View, enough func() bool) {
	switch v := v.(type) {
	case *Calls:
		v.enough = enough
	case *Summaries:
		limit(v.Records, enough)
	}
}

// write lets the view of a run work. It yields before each record.
func (m *merger) write(r *Merged) iter.Seq[struct{}] {
	return func(yield func(struct{}) bool) {
		r.Err = r.View.Write(mergedWriter{m, r}, func(give func([]byte, error) bool) {
			for yield(struct{}{}) && !r.ended {
				r.moved = false
				if m.turn != r {
					m.turn, r.now = r, r.time
				}
				bad := r.bad
				if more := give(r.head, bad); !more || bad != nil {
					return
				}
				r.advance()
			}
		}, func() bool {
			r.advance()
			return m.first() != r
		})
	}
}

// take lets a view take its next record, or the end if there is none.
func (m *merger) take(r *Merged) {
	for more := true; more; more = r.ended {
		if _, ok := r.step(); !ok {
			r.ended = true
			return
		}
	}
}

// first returns the run whose next record is the oldest; nil if there are no more.
func (m *merger) first() (first *Merged) {
	for _, r := range m.runs {
		if !r.ended && (first == nil || r.at().Before(first.at())) {
			first = r
		}
	}
	return first
}

// enough reports whether as many calls and sessions were written as are wanted.
func (m *merger) enough() bool {
	if m.count == 0 {
		return false
	}
	var written uint64
	for _, r := range m.runs {
		written += r.View.Tally().Records
	}
	return written >= m.count
}

func (r *Merged) at() time.Time { return r.Boot.Add(time.Duration(r.time)) }

// advance looks at the next record, once for each that was given to the view. What it returns
// is valid until then, so the one before must not be needed any more.
func (r *Merged) advance() {
	if r.moved {
		return
	}
	var ok bool
	r.head, r.bad, ok = r.next()
	r.moved, r.ended = true, !ok
	// Both kinds of records begin with a time. That of a session's is when it began; then
	// comes when it ended, if it did. No record is older than the one before it.
	if len(r.head) >= 16 {
		r.time = max(r.time, binary.LittleEndian.Uint64(r.head))
		if r.Sessions {
			r.time = max(r.time, binary.LittleEndian.Uint64(r.head[8:]))
		}
	}
}

// End writes what a run's view has at its end, behind what Merge has written.
func (r *Merged) End(l event.Losses) error { return r.View.End(mergedWriter{r.of, r}, l, r.Err) }

// A mergedWriter writes for one view.
type mergedWriter struct {
	m *merger
	r *Merged
}

// Write implements io.Writer. Views write what they hold back before another one works.
func (w mergedWriter) Write(text []byte) (int, error) {
	if w.r.Out != nil {
		return w.r.Out.Write(text)
	}
	if (w.r.now != 0 || w.r.ended) && len(text) > 0 && w.r.Host != "" && w.r.Host != w.m.host {
		w.m.host = w.r.Host
		at := w.r.Boot.Add(time.Duration(cmp.Or(w.r.now, w.r.time))).Local()
		if _, err := fmt.Fprintf(w.m.out, "--- on %s, %s ---\n", terminal.Name(w.r.Host), at.Format("2006-01-02 15:04:05.000000")); err != nil {
			return 0, err
		}
	}
	return w.m.out.Write(text)
}

// A headless printer leaves the header to another one.
type headless struct{ CallPrinter }

// AppendHeader appends nothing.
func (headless) AppendHeader(dst []byte) ([]byte, error) { return dst, nil }
