// SPDX-License-Identifier: Apache-2.0

package view

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/samples"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/summary"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Texts say how events look.
type Texts struct {
	Call    CallPrinter // whole
	Row     CallPrinter // its first line stands for the call
	Session interface {
		AppendSession(dst []byte, s *session.Session) ([]byte, error)
	}
	Summary interface {
		AppendSummary(dst []byte, s *summary.Summary) ([]byte, error)
	}
	Loss func(dst []byte, l event.Loss) []byte
}

// A CallPrinter prints calls as text.
type CallPrinter interface {
	AppendHeader(dst []byte) ([]byte, error)
	AppendCall(dst []byte, c *calls.Call) ([]byte, error)
}

// A Collector puts the events of a run into a Store.
type Collector struct {
	store   *Store
	run     output.Run
	texts   Texts
	sampler *samples.Sampler
	buf     []byte
}

// NewCollector returns a Collector of a run.
func NewCollector(s *Store, run output.Run, texts Texts) *Collector {
	return &Collector{store: s, run: run, texts: texts, sampler: samples.New(&run)}
}

// AppendHeader appends nothing, as all methods do.
func (c *Collector) AppendHeader(dst []byte) ([]byte, error) { return dst, nil }

// AppendCall keeps a call.
func (c *Collector) AppendCall(dst []byte, call *calls.Call) ([]byte, error) {
	failure, _, err := c.sampler.Failure(call)
	if err != nil {
		return dst, err
	}
	c.buf = appendCall(c.buf[:0], call)
	return dst, c.store.add(kindCall, failure != "", c.buf)
}

// AppendSession keeps a session.
func (c *Collector) AppendSession(dst []byte, s *session.Session) (_ []byte, err error) {
	c.buf = append(appendSessionRow(c.buf[:0], s, c.run.BootNow()), '\n')
	if c.buf, err = c.texts.Session.AppendSession(c.buf, s); err != nil {
		return dst, err
	}
	return dst, c.store.add(kindText, s.Failed, c.buf)
}

// AppendSummary keeps tables. Each begins with a line that names it.
func (c *Collector) AppendSummary(dst []byte, s *summary.Summary) (_ []byte, err error) {
	c.buf = append(c.buf[:0], "tables of what the SPECs add up\n"...)
	if c.buf, err = c.texts.Summary.AppendSummary(c.buf, s); err != nil {
		return dst, err
	}
	return dst, c.store.add(kindText, false, c.buf)
}

// AppendLoss keeps a mark that records are missing.
func (c *Collector) AppendLoss(dst []byte, l event.Loss) []byte {
	_ = c.store.add(kindText, true, c.texts.Loss(nil, l)) // the next event is refused, too
	return dst
}

// AppendEnd implements show.Printer. Who reads says what is missing.
func (c *Collector) AppendEnd(dst []byte, _ *output.Totals) ([]byte, error) { return dst, nil }

// appendSessionRow appends the line of a session: when it began, how long it took, how and where it ended.
func appendSessionRow(dst []byte, s *session.Session, boot time.Time) []byte {
	result, where := "", ""
	if s.Failed {
		result = errorOf(s)
		if n := len(s.Chain.Frames); n > 1 {
			where = " in " + terminal.Name(s.Chain.Frames[n-1].Func.Name)
		}
	}
	at := boot.Add(time.Duration(s.Start)).Format("15:04:05.000000")
	us := float64(s.End-min(s.Start, s.End)) / 1e3
	return fmt.Appendf(dst, "%s %11.3fus %7d %-15s %-14s %s%s", at, us, s.TID, terminal.Name(s.Comm), result, nameOf(s), where)
}

// errorOf returns the error of a session as stacks have it; "" if there is none.
func errorOf(s *session.Session) string {
	switch name := samples.SessionErrno(s); name {
	case "":
		return ""
	case "NULL":
		return "[NULL]"
	default:
		return "[-" + name + "]"
	}
}

// nameOf names the entry function of a session.
func nameOf(s *session.Session) string {
	if s.Func == nil { // of a damaged recording
		return "?"
	}
	return terminal.Name(s.Func.Name)
}

// appendCall appends a call so that parseCall reads it: its end, and for each record its size and itself.
func appendCall(dst []byte, c *calls.Call) []byte {
	dst = append(dst, byte(c.End))
	for _, e := range [...]*event.Event{c.Entry, c.Return} {
		if e == nil {
			dst = binary.AppendUvarint(dst, 0)
			continue
		}
		head := bpf.AppendEvent(nil, &e.Event)
		dst = binary.AppendUvarint(dst, uint64(len(head)+len(e.Data)+len(e.Tail)))
		dst = append(append(append(dst, head...), e.Data...), e.Tail...)
	}
	return dst
}

// parseCall reads what appendCall has written. The call refers to the bytes.
func (c *Collector) parseCall(bytes []byte) (*calls.Call, error) {
	call := &calls.Call{End: calls.End(bytes[0])}
	bytes = bytes[1:]
	for _, e := range [...]**event.Event{&call.Entry, &call.Return} {
		size, n := binary.Uvarint(bytes)
		bytes = bytes[n:]
		if size == 0 {
			continue
		}
		*e = &event.Event{}
		if err := event.Decode(c.run.Plan, bytes[:size], *e); err != nil {
			return nil, err
		}
		bytes = bytes[size:]
	}
	return call, nil
}
