// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Bounds of a Store. With a place of 12 bytes for each event, and what the garbage collector leaves, a process with
// a full one was measured to take 375 MB.
const (
	maxEvents = 4 << 20
	maxPacked = 128 << 20 // bytes of compressed events
	maxEvent  = 64 << 20  // bytes of one
	chunkSize = 64 << 10  // bytes that are compressed at once
	maxRecent = 1 << 20   // bytes of chunks that are kept as they are, or one that is larger
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
	buf    []byte        // what enc writes to
	recent []recentChunk // the last ones that were looked at, the oldest first
	held   int           // bytes of recent

	mostEvents, mostPacked int
	dropped                chan struct{} // closed when nobody looks at it any more
	ended                  bool
	err                    error  // why it has ended early
	notes                  string // what is missing, in lines
	packer                 error
}

// A recentChunk is one as it was, so that its next event need not decompress it again.
type recentChunk struct {
	number int
	bytes  []byte
}

// newStore returns an empty Store.
func newStore() *Store {
	s := &Store{mostEvents: maxEvents, mostPacked: maxPacked, dropped: make(chan struct{})}
	var err error
	if s.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)); err == nil {
		s.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxEvent+chunkSize))
	}
	s.packer = err
	return s
}

// add adds an event.
func (s *Store) add(k kind, bad bool, event []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.packer != nil:
		return s.packer
	case s.isDropped():
		return errDropped
	case len(s.places) >= s.mostEvents || s.packed >= s.mostPacked || len(event) > maxEvent:
		return errFull
	}
	s.places = append(s.places, place{chunk: uint32(len(s.chunks)), offset: uint32(len(s.last)), kind: k, bad: bad})
	s.last = append(s.last, event...)
	if len(s.last) < chunkSize {
		return nil
	}
	s.buf = s.enc.EncodeAll(s.last, s.buf[:0])
	s.chunks, s.packed = append(s.chunks, bytes.Clone(s.buf)), s.packed+len(s.buf)
	s.buf, s.last = emptied(s.buf), emptied(s.last)
	return nil
}

// emptied returns a buffer to fill again, unless a large event has made it large.
func emptied(buf []byte) []byte {
	if cap(buf) > 4*chunkSize {
		return nil
	}
	return buf[:0]
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
	if !s.isDropped() {
		close(s.dropped)
	}
}

func (s *Store) isDropped() bool {
	select {
	case <-s.dropped:
		return true
	default:
		return false
	}
}

// Dropped is closed when nobody looks at the Store any more: then nothing need be read for it. Who finds no event to
// add does not hear it from add.
func (s *Store) Dropped() <-chan struct{} { return s.dropped }

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
	chunk, err := s.chunk(int(p.chunk))
	if err != nil {
		return p.kind, nil, err
	}
	end := len(chunk)
	if i+1 < len(s.places) && s.places[i+1].chunk == p.chunk {
		end = int(s.places[i+1].offset)
	}
	return p.kind, chunk[p.offset:end:end], nil
}

// chunk returns a chunk as it was.
func (s *Store) chunk(n int) ([]byte, error) {
	if n == len(s.chunks) {
		return append([]byte(nil), s.last...), nil // it is used again
	}
	for _, r := range s.recent {
		if r.number == n {
			return r.bytes, nil
		}
	}
	chunk, err := s.dec.DecodeAll(s.chunks[n], nil)
	if err != nil {
		return nil, err
	}
	for len(s.recent) > 0 && s.held+len(chunk) > maxRecent {
		s.held -= len(s.recent[0].bytes)
		s.recent = slices.Delete(s.recent, 0, 1)
	}
	s.recent, s.held = append(s.recent, recentChunk{n, chunk}), s.held+len(chunk)
	return chunk, nil
}
