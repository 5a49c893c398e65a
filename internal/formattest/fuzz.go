// SPDX-License-Identifier: Apache-2.0

package formattest

import (
	"bytes"
	"encoding/binary"
	"iter"
	"os"
	"slices"
	"testing"

	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// A Printer is the printer of a format.
type Printer interface {
	AppendHeader(dst []byte) ([]byte, error)
	AppendCall(dst []byte, c *calls.Call) ([]byte, error)
	AppendSession(dst []byte, s *session.Session) ([]byte, error)
	AppendLoss(dst []byte, l event.Loss) []byte
	AppendEnd(dst []byte, t *output.Totals) ([]byte, error)
}

// Fuzz has check look at what a format makes of damaged records. Their plans are those of a
// recording of calls and one of sessions, whose records are the seeds.
func Fuzz(f *testing.F, callsFile, sessionsFile string, open func(output.Run) Printer, check func(t *testing.T, out []byte)) {
	runs := map[bool]output.Run{}
	for sessions, file := range map[bool]string{false: callsFile, true: sessionsFile} {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		r, err := record.NewReader(bytes.NewReader(raw))
		if err != nil {
			f.Fatal(err)
		}
		var all []byte
		for raw, err := range r.Records() {
			if err != nil {
				f.Fatal(err)
			}
			all = append(binary.LittleEndian.AppendUint16(all, uint16(len(raw))), raw...)
		}
		f.Add(all, sessions)
		runs[sessions] = output.Run{Plan: r.Plan(), Kernel: r.Kernel(), Resolver: symbols.New(r.Kernel(), nil, symbols.LevelNone), Boot: Boot}
	}
	f.Fuzz(func(t *testing.T, data []byte, sessions bool) {
		out, err := printed(open(runs[sessions]), runs[sessions], damaged(data), sessions)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) > 64<<10+256*len(data) {
			t.Errorf("%d bytes of %d bytes of records", len(out), len(data))
		}
		check(t, out)
	})
}

// damaged yields records, each behind its length in 2 bytes.
func damaged(data []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for len(data) >= 2 {
			n := min(int(binary.LittleEndian.Uint16(data)), len(data)-2)
			if !yield(slices.Clone(data[2:2+n]), nil) {
				return
			}
			data = data[2+n:]
		}
	}
}

// printed prints records up to the first that is refused, with all that it is a part of.
func printed(p Printer, run output.Run, records iter.Seq2[[]byte, error], sessions bool) ([]byte, error) {
	out, err := p.AppendHeader(nil)
	if err != nil {
		return nil, err
	}
	if sessions {
		d := session.Decoder{Plan: run.Plan, Traced: true}
		for s, err := range d.Sessions(records) {
			if err != nil {
				break
			}
			if s.State == session.Missing {
				out = p.AppendLoss(out, s.Loss)
			} else if out, err = p.AppendSession(out, s); err != nil {
				return nil, err
			}
		}
		return p.AppendEnd(out, &output.Totals{})
	}
	var j calls.Joiner
	for c, err := range j.Join(event.All(run.Plan, records)) {
		if err != nil {
			break
		}
		if c.End == calls.Gap {
			out = p.AppendLoss(out, c.Return.Loss())
		} else if out, err = p.AppendCall(out, c); err != nil {
			return nil, err
		}
	}
	return p.AppendEnd(out, &output.Totals{})
}
