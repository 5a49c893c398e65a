// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/plural"
)

// A flight keeps the newest records in memory until they are to be written. It is a ring
// of chunks: the oldest chunk makes room for a new one. It is safe for concurrent use.
type flight struct {
	limit int // of all chunks, in bytes
	// writing is held while records are written, so that they are written in order. It is
	// taken before mu.
	writing sync.Mutex
	ended   bool        // guarded by writing: the last write was made
	asked   atomic.Bool // for a write that has not begun

	mu        sync.Mutex // guards the rest
	chunks    []chunk    // oldest first; the last one grows
	spare     []byte     // memory of a chunk that made room
	gone      uint64     // records that made room since records were taken last
	last      uint64     // the time of the newest of them
	total     uint64     // records that made room so far
	wrote     bool       // any record
	err       error      // of writing: no more can be written
	unwritten uint64     // records of which not all were written
}

// A chunk has records, each behind its length as in a block.
type chunk struct {
	data    []byte
	records uint64
	newest  uint64 // time of its last record
}

// chunksOfFlight is how many chunks a flight has at most. One of them makes room at a time.
const chunksOfFlight = 64

// add keeps a record. It returns the error that writing has met.
func (f *flight) add(raw []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := f.limit / chunksOfFlight
	if n := len(f.chunks); n == 0 || len(f.chunks[n-1].data)+len(raw) > size {
		f.grow(max(size, len(raw)+binary.MaxVarintLen64))
	}
	c := &f.chunks[len(f.chunks)-1]
	c.data = append(binary.AppendUvarint(c.data, uint64(len(raw))), raw...)
	c.records++
	if len(raw) >= 8 {
		c.newest = binary.LittleEndian.Uint64(raw) // both kinds of headers begin with it
	}
	return f.err
}

// grow begins a chunk, for which the oldest ones make room.
func (f *flight) grow(size int) {
	sum := size
	for i := range f.chunks {
		sum += cap(f.chunks[i].data)
	}
	gone := 0
	for ; gone < len(f.chunks) && sum > f.limit; gone++ {
		c := &f.chunks[gone]
		sum -= cap(c.data)
		f.gone += c.records
		f.total += c.records
		f.last = c.newest
		f.spare = c.data[:0]
	}
	f.chunks = append(f.chunks[:0], f.chunks[gone:]...)
	data := f.spare
	f.spare = nil
	if cap(data) < size {
		data = make([]byte, 0, size)
	}
	f.chunks = append(f.chunks, chunk{data: data})
}

// take empties the flight.
func (f *flight) take() (chunks []chunk, gone, last uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	chunks, gone, last = f.chunks, f.gone, f.last
	f.chunks, f.gone = nil, 0
	return chunks, gone, last
}

// errEnded is why a write that was asked for before the end, and begins after it, writes nothing.
var errEnded = errors.New("the last records are written")

// write writes the records that are kept, behind a mark of those that made room, and
// returns how many these are. After the last write there are no more.
func (f *flight) write(w *Writer, last bool) (written, gone uint64, err error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	if f.ended {
		return 0, 0, errEnded
	}
	f.ended = last
	f.asked.Store(false) // before the records are taken: who asks from now on has newer ones
	chunks, gone, newest := f.take()
	if gone > 0 {
		err = w.Append(bpf.AppendLost(nil, bpf.Overwritten, gone, newest))
	}
	kept := uint64(0)
	for i := range chunks {
		kept += chunks[i].records
		for data := chunks[i].data; len(data) > 0 && err == nil; written++ {
			n, size := binary.Uvarint(data)
			data = data[size:]
			err = w.Append(data[:n:n])
			data = data[n:]
		}
	}
	if err == nil {
		err = w.Flush()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrote = f.wrote || written > 0
	if err != nil {
		f.unwritten += kept
		err = fmt.Errorf("%w: not all of the %s that were kept are in it", err, plural.Of(f.unwritten, "record{s}"))
		f.err = err
	}
	return written, gone, err
}

// hasWritten reports whether any record was written.
func (f *flight) hasWritten() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wrote
}

// overwritten returns how many records made room so far.
func (f *flight) overwritten() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total
}
