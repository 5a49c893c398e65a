// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"encoding/binary"
	"errors"
	"io"
)

// A Kind says what a Frame has.
type Kind byte

// Kinds of frames.
const (
	Forget   Kind = iota // no resource that came before is named again whose number has the same upper half
	Resource             // a Resource message
	Span
	LogRecord
	Metric
)

// A Frame is a message with what has to be known to put it into a request. Frames follow each
// other without anything between them.
type Frame struct {
	Kind     Kind
	Resource uint64 // the number of a resource: of this one, or that which the message belongs to
	Count    uint64 // items: 1, or the data points of a metric
	Body     []byte
}

// append appends the frame.
func (f *Frame) append(dst []byte) []byte {
	dst = binary.AppendUvarint(append(dst, byte(f.Kind)), f.Resource)
	dst = binary.AppendUvarint(dst, f.Count)
	dst = binary.AppendUvarint(dst, uint64(len(f.Body)))
	return append(dst, f.Body...)
}

var errFrame = errors.New("no frame of OTLP")

// largest is more than a frame has: a value and a stack are bounded.
const largest = 64 << 20

// Next returns the first frame of a stream, which shares its memory, and what follows. If the
// stream ends within the frame, the error is io.ErrUnexpectedEOF.
func Next(stream []byte) (f Frame, rest []byte, err error) {
	if len(stream) == 0 {
		return f, nil, io.ErrUnexpectedEOF
	}
	f.Kind, rest = Kind(stream[0]), stream[1:]
	if f.Kind > Metric {
		return f, nil, errFrame
	}
	var size uint64
	for _, v := range [...]*uint64{&f.Resource, &f.Count, &size} {
		x, n := binary.Uvarint(rest)
		if n == 0 {
			return f, nil, io.ErrUnexpectedEOF
		}
		if n < 0 {
			return f, nil, errFrame
		}
		*v, rest = x, rest[n:]
	}
	if size > largest {
		return f, nil, errFrame
	}
	if size > uint64(len(rest)) {
		return f, nil, io.ErrUnexpectedEOF
	}
	f.Body = rest[:size:size]
	return f, rest[size:], nil
}
