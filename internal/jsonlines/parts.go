// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"github.com/ksnoop/ksnoop/internal/event"
)

// A Moment says which values of a record are wanted.
type Moment = moment

const (
	Always    Moment = always
	AtEntry   Moment = atEntry
	AtReturn  Moment = atReturn
	InSession Moment = inChain // all but the result, which a call of a session has anyway
)

// AppendValues appends the object of an event's values alone, without what could not be read of them.
func (p *Printer) AppendValues(dst []byte, e *event.Event, m Moment) ([]byte, error) {
	dst, err := p.records.appendValues(append(dst, '{'), e, m, false)
	p.records.missing, p.records.short = p.records.missing[:0], p.records.short[:0]
	return append(dst, '}'), err
}
