// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"
	"iter"

	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/session"
)

// A Printer writes the events of one run in one format. Its methods append to a slice and do
// no I/O. The header comes first, then events and losses in the order of the stream, then
// the end. A printer that needs all events before it can write anything appends nothing
// until the end.
type Printer interface {
	AppendHeader(dst []byte) ([]byte, error)
	// AppendLoss appends that records are missing at this place.
	AppendLoss(dst []byte, l event.Loss) []byte
	AppendEnd(dst []byte, t *output.Totals) ([]byte, error)
}

// A CallPrinter prints calls. A call is valid until AppendCall returns, and is never a
// calls.Gap.
type CallPrinter interface {
	Printer
	AppendCall(dst []byte, c *calls.Call) ([]byte, error)
}

// A SessionPrinter prints sessions. A session is never session.Missing.
type SessionPrinter interface {
	Printer
	AppendSession(dst []byte, s *session.Session) ([]byte, error)
}

// A View writes the events of one run: Write, then End. *Calls, *Sessions and *Counted
// are views.
type View interface {
	Write(out io.Writer, records iter.Seq2[[]byte, error], idle func() bool) error
	Tally() *Tally
	End(out io.Writer, l event.Losses, failed error) error
}

// What prints text.
var (
	_ CallPrinter    = (*output.Calls)(nil)
	_ SessionPrinter = (*output.Sessions)(nil)
)
