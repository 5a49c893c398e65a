// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringSize is that of the buffer of one CPU in bytes, a power of two. A record has some
// 120 bytes.
var ringSize = max(256<<10, os.Getpagesize())

// perfBitBuildID asks for build IDs instead of inodes, since Linux 5.12.
const perfBitBuildID = 1 << 34

// A ring is the buffer of one CPU.
type ring struct {
	fd   int
	mem  []byte // a page of struct perf_event_mmap_page, and the records
	data []byte
	raw  []byte // one record
	last uint64 // time of the last record that was read
}

func openRing(cpu int) (*ring, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME,
		Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
			unix.PerfBitSampleIDAll | unix.PerfBitUseClockID | unix.PerfBitWatermark | perfBitBuildID,
		Clockid: unix.CLOCK_MONOTONIC,
		Wakeup:  uint32(ringSize), // nobody is to be woken
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if errors.Is(err, unix.EINVAL) {
		attr.Bits &^= perfBitBuildID
		fd, err = unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	}
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(fd, 0, os.Getpagesize()+ringSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("map the buffer: %w", err), unix.Close(fd))
	}
	return &ring{fd: fd, mem: mem, data: mem[os.Getpagesize():], last: Now()}, nil
}

func (r *ring) close() error { return errors.Join(unix.Munmap(r.mem), unix.Close(r.fd)) }

// Where struct perf_event_mmap_page has how far the kernel has written, and we have read.
const (
	offHead = 1024
	offTail = 1032
)

// mostRecord is more than any record of ours takes: that of a mapping has a path of up to PATH_MAX.
const mostRecord = 2 * unix.PathMax

// read appends the records that the kernel has written. The kernel tells only with its next record how many it had no room for, perhaps
// much later, so there is a Lost event as soon as a buffer was full, and another one that has the count.
func (r *ring) read(dst []Event) []Event {
	head := atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.mem[offHead])))
	tail := (*uint64)(unsafe.Pointer(&r.mem[offTail]))
	at, began, room := *tail, *tail, uint64(len(r.data)-mostRecord)
	since := uint64(0) // the record after which the kernel first had no room, perhaps
	for at < head {
		r.raw = r.take(r.raw[:0], at, headerSize)
		size := uint64(binary.LittleEndian.Uint16(r.raw[6:]))
		if size < headerSize || size > head-at {
			at = head // which the kernel does not do
			break
		}
		r.raw = r.take(r.raw[:0], at, size)
		e, ok := decode(r.raw)
		if since == 0 && at+size-began > room { // what a Lost record tells was lost before the last reading
			since = r.last
		}
		if ok {
			dst = append(dst, e)
		}
		r.last = max(r.last, e.Time)
		at += size
	}
	atomic.StoreUint64(tail, at)
	// The kernel goes on writing until it sees the new tail.
	if head = atomic.LoadUint64((*uint64)(unsafe.Pointer(&r.mem[offHead]))); head-began > room {
		dst = append(dst, Event{Kind: Lost, Since: cmp.Or(since, r.last, 1), Time: Now()})
	}
	return dst
}

// take copies bytes of the records, which go on at the beginning.
func (r *ring) take(dst []byte, at, n uint64) []byte {
	for n > 0 {
		part := r.data[at%uint64(len(r.data)):]
		part = part[:min(uint64(len(part)), n)]
		dst = append(dst, part...)
		at, n = at+uint64(len(part)), n-uint64(len(part))
	}
	return dst
}
