// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"

	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/jsonlines"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// partSize is how many bytes of lines are compressed at once. The page shows the first part while
// it reads the next.
const partSize = 1 << 20

// A Printer prints the page of one run. It keeps the lines of one part, so its memory does not grow
// with the number of events.
type Printer struct {
	events *jsonlines.Printer
	lines  []byte // of the part that is being collected
	packed bytes.Buffer
	zip    *gzip.Writer
}

// New returns a printer of a run.
func New(run output.Run) *Printer {
	return &Printer{events: jsonlines.New(run, false), zip: gzip.NewWriter(nil)}
}

// AppendHeader appends the page up to its events.
func (p *Printer) AppendHeader(dst []byte) ([]byte, error) {
	dst = appendHead(dst)
	return p.collect(dst, p.events.AppendHeader)
}

// AppendCall implements show.CallPrinter.
func (p *Printer) AppendCall(dst []byte, c *calls.Call) ([]byte, error) {
	return p.collect(dst, func(lines []byte) ([]byte, error) { return p.events.AppendCall(lines, c) })
}

// AppendSession implements show.SessionPrinter.
func (p *Printer) AppendSession(dst []byte, s *session.Session) ([]byte, error) {
	return p.collect(dst, func(lines []byte) ([]byte, error) { return p.events.AppendSession(lines, s) })
}

// AppendSummary implements show.SummaryPrinter.
func (p *Printer) AppendSummary(dst []byte, s *summary.Summary) ([]byte, error) {
	return p.collect(dst, func(lines []byte) ([]byte, error) { return p.events.AppendSummary(lines, s) })
}

// AppendLoss appends that records are missing at this place.
func (p *Printer) AppendLoss(dst []byte, l event.Loss) []byte {
	p.lines = p.events.AppendLoss(p.lines, l)
	return dst
}

// AppendEnd appends the last events, what was lost as other formats say it, and the rest of the page.
func (p *Printer) AppendEnd(dst []byte, t *output.Totals) ([]byte, error) {
	lines, err := p.events.AppendEnd(p.lines, t)
	if err != nil {
		return dst, err
	}
	p.lines = lines
	if dst, err = p.appendPart(dst, "events"); err != nil {
		return dst, err
	}
	p.lines = output.AppendLosses(p.lines, &t.Lost, false)
	if dst, err = p.appendPart(dst, "notes"); err != nil {
		return dst, err
	}
	return appendFoot(dst), nil
}

// collect adds lines, and appends a part when there are enough.
func (p *Printer) collect(dst []byte, add func(lines []byte) ([]byte, error)) ([]byte, error) {
	lines, err := add(p.lines)
	if err != nil {
		return dst, err
	}
	if p.lines = lines; len(lines) < partSize {
		return dst, nil
	}
	return p.appendPart(dst, "events")
}

// appendPart appends the lines that were collected, as an element of a class.
func (p *Printer) appendPart(dst []byte, class string) ([]byte, error) {
	p.packed.Reset()
	p.zip.Reset(&p.packed)
	if _, err := p.zip.Write(p.lines); err != nil {
		return dst, err
	}
	if err := p.zip.Close(); err != nil {
		return dst, err
	}
	p.lines = p.lines[:0]
	dst = append(append(append(dst, `<script type="text/plain" class="`...), class...), `">`...)
	dst = base64.StdEncoding.AppendEncode(dst, p.packed.Bytes())
	return append(dst, "</script>\n"...), nil
}
