// SPDX-License-Identifier: Apache-2.0

package view

import (
	"errors"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Bounds of a Store. With a place of 12 bytes for each event, and what the garbage collector leaves, a process with
// a full one was measured to take 375 MB, whatever a recording has.
const (
	maxEvents = 4 << 20
	maxPacked = 128 << 20 // bytes of compressed events
	maxEvent  = 64 << 20  // bytes of one
	chunkSize = 64 << 10  // bytes that are compressed at once
	cached    = 16        // chunks that are kept as they are
)

// Why no more is read.
var (
	errFull    = errors.New("no room for more events")
	errDropped = errors.New("nobody looks at these events any more")
)

// A place is where an event lies.
type place struct {
	chunk, offset uint32
	kind          kind
	bad           bool // it failed, or something is missing there
}

// A kind says what the bytes of an event are.
type kind uint8

const (
	kindCall kind = iota // records, see appendCall
	kindText             // text, of which the first line stands for it
)

// A Store keeps the events of a run. One goroutine adds events, another one looks at them.
type Store struct {
	mu     sync.Mutex
	places []place
	chunks [][]byte // compressed
	last   []byte   // the chunk that is being filled, as it is
	packed int      // bytes of chunks
	enc    *zstd.Encoder
	dec    *zstd.Decoder
	recent [cached]struct {
		chunk int // number plus one; 0 is none
		bytes []byte
	}
	turn int // in recent

	mostEvents, mostPacked int
	dropped                bool // nobody looks at it any more
	ended                  bool
	err                    error  // why it has ended early
	notes                  string // what is missing, in lines
	packer                 error
}

// newStore returns an empty Store.
func newStore() *Store {
	s := &Store{mostEvents: maxEvents, mostPacked: maxPacked}
	var err error
	if s.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)); err == nil {
		s.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxEvent+chunkSize))
	}
	s.packer = err
	return s
}

// add adds an event.
func (s *Store) add(k kind, bad bool, bytes []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.packer != nil:
		return s.packer
	case s.dropped:
		return errDropped
	case len(s.places) >= s.mostEvents || s.packed >= s.mostPacked || len(bytes) > maxEvent:
		return errFull
	}
	s.places = append(s.places, place{chunk: uint32(len(s.chunks)), offset: uint32(len(s.last)), kind: k, bad: bad})
	s.last = append(s.last, bytes...)
	if len(s.last) < chunkSize {
		return nil
	}
	packed := s.enc.EncodeAll(s.last, nil)
	s.chunks, s.packed, s.last = append(s.chunks, packed), s.packed+len(packed), s.last[:0]
	return nil
}

// end notes that there is no more. err is why, if there should be.
func (s *Store) end(notes string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.err, s.notes = true, err, notes
}

// drop ends the reading: nobody looks at the Store any more.
func (s *Store) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = true
}

// A state is what is known of a Store as it is read.
type state struct {
	events int
	ended  bool
	err    error
	notes  string
}

// state returns what is known so far.
func (s *Store) state() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return state{len(s.places), s.ended, s.err, s.notes}
}

// bad reports whether event i failed, or tells that something is missing.
func (s *Store) bad(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places[i].bad
}

// event returns the bytes of event i. They are valid until the next event is asked for.
func (s *Store) event(i int) (kind, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[i]
	bytes, err := s.chunk(int(p.chunk))
	if err != nil {
		return p.kind, nil, err
	}
	end := len(bytes)
	if i+1 < len(s.places) && s.places[i+1].chunk == p.chunk {
		end = int(s.places[i+1].offset)
	}
	return p.kind, bytes[p.offset:end:end], nil
}

// chunk returns a chunk as it was.
func (s *Store) chunk(n int) ([]byte, error) {
	if n == len(s.chunks) {
		return append([]byte(nil), s.last...), nil // it is used again
	}
	for i := range s.recent {
		if s.recent[i].chunk == n+1 {
			return s.recent[i].bytes, nil
		}
	}
	r := &s.recent[s.turn]
	s.turn = (s.turn + 1) % cached
	bytes, err := s.dec.DecodeAll(s.chunks[n], r.bytes[:0])
	if r.chunk, r.bytes = n+1, bytes; err != nil {
		r.chunk = 0
	}
	return bytes, err
}
