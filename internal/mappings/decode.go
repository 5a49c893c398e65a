// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// A Kind is what has happened.
type Kind uint8

const (
	Mapped Kind = iota // code was mapped
	Execed             // the process has become another program: what was mapped before is gone
	Forked             // PID was made by Parent, with what that has mapped
	Ended              // a thread has ended
	Lost               // some of what has happened from Since to Time is not known
)

// An Event is what has happened to a process. Its numbers are those in ksnoop's PID namespace.
type Event struct {
	Kind         Kind
	PID, TID     uint32
	Parent       uint32
	Time         uint64 // CLOCK_MONOTONIC ns
	Start, End   uint64 // of what was mapped
	Offset       uint64 // in the file
	Path         string
	BuildID      string // bytes; "" if it is not known
	Device       string // as in /proc/PID/maps; "" if the build ID is known
	Inode        uint64
	Since, Count uint64 // of what is lost. Since 0: only the count is told, of what was told before. Count 0: it was told before, or is not known yet.
	ParentShare  bool   // the new thread is one of its parent's process
}

// Bits of a record's header.
const (
	miscCommExec = 1 << 13 // the name is that of another program
	miscBuildID  = 1 << 14
)

const (
	headerSize  = 8
	trailerSize = 16 // struct sample_id: pid, tid, time
	mostBuildID = 20
)

// decode reads a record; ok is false for kinds that tell nothing of mappings.
func decode(raw []byte) (e Event, ok bool) {
	le := binary.LittleEndian
	if len(raw) < headerSize+trailerSize {
		return e, false
	}
	kind, misc := le.Uint32(raw), le.Uint16(raw[4:])
	body, trailer := raw[headerSize:len(raw)-trailerSize], raw[len(raw)-trailerSize:]
	e.PID, e.TID, e.Time = le.Uint32(trailer), le.Uint32(trailer[4:]), le.Uint64(trailer[8:])
	switch kind {
	case unix.PERF_RECORD_MMAP2:
		return e.decodeMapping(body, misc&miscBuildID != 0)
	case unix.PERF_RECORD_COMM:
		e.Kind = Execed
		return e, misc&miscCommExec != 0
	case unix.PERF_RECORD_FORK, unix.PERF_RECORD_EXIT:
		if len(body) < 16 {
			return e, false
		}
		e.Kind = Ended
		if kind == unix.PERF_RECORD_FORK {
			e.Kind = Forked
		}
		e.PID, e.Parent, e.TID = le.Uint32(body), le.Uint32(body[4:]), le.Uint32(body[8:])
		e.ParentShare = e.PID == e.Parent
		return e, true
	case unix.PERF_RECORD_LOST:
		if len(body) < 16 {
			return e, false
		}
		e.Kind, e.Count = Lost, le.Uint64(body[8:])
		return e, true
	}
	return e, false
}

// decodeMapping reads what follows the header of PERF_RECORD_MMAP2.
func (e *Event) decodeMapping(body []byte, buildID bool) (Event, bool) {
	const fixed = 4 + 4 + 3*8 + 24 + 4 + 4
	if len(body) < fixed {
		return *e, false
	}
	le := binary.LittleEndian
	e.PID, e.TID = le.Uint32(body), le.Uint32(body[4:])
	e.Start = le.Uint64(body[8:])
	e.End = e.Start + le.Uint64(body[16:])
	e.Offset = le.Uint64(body[24:])
	if id := body[32:]; buildID {
		e.BuildID = string(id[4:][:min(id[0], mostBuildID)])
	} else {
		e.Device = fmt.Sprintf("%02x:%02x", le.Uint32(id), le.Uint32(id[4:]))
		e.Inode = le.Uint64(id[8:])
	}
	name, _, _ := bytes.Cut(body[fixed:], []byte{0})
	e.Path = string(name)
	return *e, e.End > e.Start
}
