// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"encoding/binary"
	"hash/fnv"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/protomsg"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A track is a row of the trace.
type track struct {
	kind     trackKind
	pid, tid uint32
	cpu      uint16 // of idle threads and interrupts only
}

type trackKind byte

const (
	trackOfProcess trackKind = iota + 1
	trackOfThread
	// trackOfIdle is a CPU's idle thread. All of them have ID 0, but they run at once.
	trackOfIdle
	trackOfInterrupts // on a CPU
	trackOfLosses
	trackOfRun // of one of several runs; all others are below it
)

// trackCost is the memory of a known track in bytes, besides its name.
const trackCost = 100

// threadTrack returns the track of a thread.
func threadTrack(pid, tid uint32, cpu uint16) track {
	if tid == 0 {
		return track{kind: trackOfIdle, cpu: cpu}
	}
	return track{kind: trackOfThread, pid: pid, tid: tid}
}

// uuid returns a track's ID, which is the same in every trace of one run.
func (p *Printer) uuid(t track) uint64 {
	b := append([]byte("ksnoop"), byte(t.kind))
	if p.run.Number > 0 {
		b = binary.LittleEndian.AppendUint32(b, uint32(p.run.Number))
	}
	b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, t.pid), t.tid)
	b = binary.LittleEndian.AppendUint16(b, t.cpu)
	h := fnv.New64a()
	_, _ = h.Write(b) // never fails
	return h.Sum64()
}

// appendTrack appends what describes a track, if that has not been written yet or its name
// has changed. A process has the name of its main thread unless a better one is known.
func (p *Printer) appendTrack(dst []byte, t track, name, process string) []byte {
	if p.run.Number > 0 && t.kind != trackOfRun {
		dst = p.appendTrack(dst, track{kind: trackOfRun}, p.run.Label, "")
	}
	if t.kind == trackOfThread {
		if process == "" && t.pid == t.tid {
			process = name
		}
		dst = p.appendTrack(dst, track{kind: trackOfProcess, pid: t.pid}, process, "")
	}
	known, ok := p.tables.tracks[t]
	if ok && (known == name || name == "") {
		return dst
	}
	if !ok {
		p.tables.size += trackCost
	}
	p.tables.size += len(name) - len(known)
	p.tables.tracks[t] = name
	dst, packet := protomsg.Begin(dst, tracePacket)
	dst = protomsg.AppendUint(dst, packetSequenceID, p.sequence())
	dst, start := protomsg.Begin(dst, packetTrack)
	dst = protomsg.End(p.appendDescriptor(dst, t, name), start)
	return protomsg.End(dst, packet)
}

// appendDescriptor appends the fields of a track.
func (p *Printer) appendDescriptor(dst []byte, t track, name string) []byte {
	dst = protomsg.AppendUint(dst, trackUUID, p.uuid(t))
	p.text = terminal.AppendName(p.text[:0], name)
	if p.run.Number > 0 {
		return p.appendBelow(dst, t)
	}
	var start int
	switch t.kind {
	case trackOfProcess:
		dst, start = protomsg.Begin(dst, trackProcess)
		dst = protomsg.AppendUint(dst, processPID, uint64(int32(t.pid)))
		if name != "" {
			dst = protomsg.AppendString(dst, processName, p.text)
		}
		return protomsg.End(dst, start)
	case trackOfThread:
		dst = protomsg.AppendUint(dst, trackParent, p.uuid(track{kind: trackOfProcess, pid: t.pid}))
		dst, start = protomsg.Begin(dst, trackThread)
		dst = protomsg.AppendUint(protomsg.AppendUint(dst, threadPID, uint64(int32(t.pid))), threadTID, uint64(t.tid))
		if name != "" {
			dst = protomsg.AppendString(dst, threadName, p.text)
		}
		return protomsg.End(dst, start)
	}
	return p.appendName(dst, t)
}

// appendBelow appends the fields of a track of one of several runs. Readers know processes and
// threads by their numbers, whatever host they are on: here they are rows with names.
func (p *Printer) appendBelow(dst []byte, t track) []byte {
	switch t.kind {
	case trackOfRun:
		return protomsg.AppendString(dst, trackName, p.text)
	case trackOfThread:
		dst = protomsg.AppendUint(dst, trackParent, p.uuid(track{kind: trackOfProcess, pid: t.pid}))
		p.text = strconv.AppendUint(append(p.text, ' '), uint64(t.tid), 10)
		return protomsg.AppendString(dst, trackName, p.text)
	case trackOfProcess:
		p.text = strconv.AppendUint(append(p.text, ' '), uint64(t.pid), 10)
	}
	return p.appendName(protomsg.AppendUint(dst, trackParent, p.uuid(track{kind: trackOfRun})), t)
}

// appendName appends the name of a track that is neither a process nor a thread to the reader.
func (p *Printer) appendName(dst []byte, t track) []byte {
	switch t.kind {
	case trackOfInterrupts:
		p.text = strconv.AppendUint(append(p.text[:0], "interrupts, CPU "...), uint64(t.cpu), 10)
	case trackOfIdle:
		p.text = append(strconv.AppendUint(append(p.text, " (CPU "...), uint64(t.cpu), 10), ')')
	}
	return protomsg.AppendString(dst, trackName, p.text)
}
