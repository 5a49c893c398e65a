// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unsafe"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
)

// Limits on what a recording knows of processes, or all parts of a run together. More is not
// recorded, and what a replay finds more has no names: it counts what parts repeat once.
const (
	mostRecorded     = 1 << 20 // lines
	mostRecordedText = 64 << 20
	mostLine         = 1 << 16
)

// A line is what a recording has of processes, as a line of JSON: a mapping, if it has an
// End, or the function at an offset in one.
type line struct {
	Mapping int `json:"m"` // its number, from 0 on

	PID        uint32 `json:",omitempty"`
	Life       uint64 `json:",omitempty"` // when the program began, as far as it is known
	Since      uint64 `json:",omitempty"` // when it was mapped
	Start, End uint64 `json:",omitempty"`
	Offset     uint64 `json:",omitempty"`
	Path       string `json:",omitempty"`
	BuildID    string `json:",omitempty"` // in hex

	At    uint64 `json:",omitempty"` // offset in the file
	Exact bool   `json:",omitempty"` // it is no return address
	// NoCaller is what Process.NoCaller reports.
	NoCaller bool   `json:",omitempty"`
	Func     string `json:",omitempty"`
	Plus     uint64 `json:",omitempty"` // bytes from the beginning of the function
	File     string `json:",omitempty"` // what says so, if it is not the mapped file
	// Source is what AppendLines gives.
	Source []debuginfo.Frame `json:",omitempty"`
}

// A Recorder collects what a replay needs to name the frames of recorded stacks: mappings, with
// build IDs, and the functions in them.
type Recorder struct {
	symbols *Symbols
	mapped  map[recordedMapping]int
	framed  map[recordedFrame]struct{}
	hidden  map[uint32]*hidden // by process
	size    int
}

// A hidden is a time of which a recording has no names of a process: which program it was executing is not known.
type hidden struct{ from, until uint64 } // until 0: up to its next program

// A recordedMapping is one that the recording has.
type recordedMapping struct {
	pid         uint32
	life, since uint64
	mapping     mapping
}

type recordedFrame struct {
	mapping int
	at      uint64
	exact   bool
}

// NewRecorder returns a Recorder of a recording, which knows nothing yet.
func (s *Symbols) NewRecorder() *Recorder {
	return &Recorder{symbols: s, mapped: map[recordedMapping]int{}, framed: map[recordedFrame]struct{}{}, hidden: map[uint32]*hidden{}}
}

// Append appends the lines for a stack that the recording does not have yet.
func (r *Recorder) Append(dst []byte, e *bpf.Event, stack []bpf.UserFrame) []byte {
	r.symbols.mu.Lock()
	defer r.symbols.mu.Unlock()
	p := r.symbols.of(e, string(bytes.TrimRight(e.Comm[:], "\x00")))
	if p.doubtful != 0 {
		return r.hide(dst, e.PID, p.doubtful)
	}
	for _, f := range stack {
		n := p.name(f.Addr(), !f.Exact())
		if n.mapping == nil {
			continue
		}
		key := recordedMapping{pid: e.PID, since: n.since, mapping: *n.mapping}
		if p.life != nil {
			key.life = r.life(p.life, e)
		}
		number, known := r.mapped[key]
		if !known {
			number = len(r.mapped)
			id := n.mapping.file.buildID
			if n.image != nil {
				id = n.image.buildID
			}
			var ok bool
			if dst, ok = r.append(dst, &line{Mapping: number, PID: e.PID, Life: key.life, Since: n.since, Start: n.mapping.start, End: n.mapping.end,
				Offset: n.mapping.offset, Path: n.mapping.file.path, BuildID: hex.EncodeToString([]byte(id))}); !ok {
				continue
			}
			r.mapped[key] = number
		}
		frame := recordedFrame{number, n.offset, f.Exact()}
		if _, known := r.framed[frame]; known || r.full() {
			continue
		}
		noCaller := !f.Exact() && p.noCaller(&n)
		if n.name == "" && !noCaller {
			continue
		}
		r.framed[frame] = struct{}{} // also if its line is too long
		dst, _ = r.append(dst, &line{Mapping: number, At: n.offset, Exact: f.Exact(), NoCaller: noCaller, Func: n.name, Plus: n.plus, File: n.file, Source: p.appendLines(nil, n)})
	}
	return dst
}

// hide appends a mapping of no file, which hides all that a process has from a time on.
func (r *Recorder) hide(dst []byte, pid uint32, from uint64) []byte {
	if old := r.hidden[pid]; old != nil && old.from == from && old.until == 0 {
		return dst
	}
	all := mapping{end: math.MaxUint64}
	number := len(r.mapped)
	dst, ok := r.append(dst, &line{Mapping: number, PID: pid, Life: from, Since: from, End: all.end})
	if ok {
		r.mapped[recordedMapping{pid: pid, life: from, since: from, mapping: all}] = number
		r.hidden[pid] = &hidden{from: from}
	}
	return dst
}

// life returns since when a replay is to take what a life has mapped. A process that turns out to go on with its program has another
// life for replays from then on.
func (r *Recorder) life(of *life, e *bpf.Event) uint64 {
	h := r.hidden[e.PID]
	if h == nil || of.from > h.from || e.Time < h.from {
		return of.from
	}
	if h.until == 0 {
		h.until = e.Time
	}
	return h.until
}

// full reports whether there is no room for more.
func (r *Recorder) full() bool {
	return r.size >= mostRecordedText/2 || len(r.mapped)+len(r.framed) >= mostRecorded/2
}

// append appends a line, if there is room. Otherwise the addresses of this frame have no names.
func (r *Recorder) append(dst []byte, l *line) ([]byte, bool) {
	if r.full() {
		return dst, false
	}
	text, err := json.Marshal(l)
	if err != nil || len(text) > mostLine || r.size+len(text) > mostRecordedText/2 {
		return dst, false
	}
	r.size += len(text)
	return append(append(dst, text...), '\n'), true
}

// Recorded names addresses by the lines of a recording.
type Recorded struct {
	mappings []line
	of       map[uint32][]int // mappings of a process, in the order in which they were recorded
	// number is that of a mapping by the number in the part of the recording that is read.
	number map[int]int
	known  map[declared]int // numbers here; each part of a run begins anew
	frames map[recordedFrame]line
	lines  int
	text   int
}

// A declared is what a line says of a mapping.
type declared struct {
	pid                             uint32
	life, since, start, end, offset uint64
	path, buildID                   string
}

// NewRecorded returns what knows nothing yet.
func NewRecorded() *Recorded {
	return &Recorded{of: map[uint32][]int{}, number: map[int]int{}, known: map[declared]int{}, frames: map[recordedFrame]line{}}
}

// Add adds the lines of a block, as far as there is room.
func (r *Recorded) Add(block []byte) error {
	for text := range bytes.Lines(block) {
		if text = bytes.TrimSuffix(text, []byte("\n")); len(text) > mostLine {
			return fmt.Errorf("a line of what it knows of processes has more than %d bytes", mostLine)
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("what it knows of processes: %w", err)
		}
		if l.End > 0 {
			l.Source = nil
			r.addMapping(l, len(text))
			continue
		}
		number, ok := r.number[l.Mapping]
		if !ok {
			continue
		}
		l.Mapping = number
		frame := recordedFrame{number, l.At, l.Exact}
		if old, known := r.frames[frame]; known && reflect.DeepEqual(old, l) { // each part of a run begins anew
			continue
		}
		if r.room(max(len(text), len(l.Source)*int(unsafe.Sizeof(debuginfo.Frame{})))) { // "{}" is a frame, too
			r.frames[frame] = l
		}
	}
	return nil
}

// room reports whether there is room for another line, and takes it.
func (r *Recorded) room(size int) bool {
	if r.lines == mostRecorded || r.text+size > mostRecordedText {
		return false
	}
	r.lines++
	r.text += size
	return true
}

func (r *Recorded) addMapping(l line, size int) {
	delete(r.number, l.Mapping) // that of the part before
	if l.Mapping < 0 || l.Mapping >= mostRecorded {
		return
	}
	same := declared{l.PID, l.Life, l.Since, l.Start, l.End, l.Offset, l.Path, l.BuildID}
	number, known := r.known[same]
	if !known {
		if len(r.of[l.PID]) >= mostMapped || !r.room(size) {
			return
		}
		number = len(r.mappings)
		r.known[same] = number
		r.of[l.PID] = append(r.of[l.PID], number)
		r.mappings = append(r.mappings, l)
	}
	r.number[l.Mapping] = number
}

// Of returns the names of addresses in the process of an event.
func (r *Recorded) Of(e *bpf.Event) *RecordedProcess { return &RecordedProcess{r, e.PID, e.Time} }

// A RecordedProcess names the addresses of a process as it was at some time.
type RecordedProcess struct {
	recorded *Recorded
	pid      uint32
	time     uint64
}

// Missing says why addresses have no names.
func (p *RecordedProcess) Missing() string {
	if len(p.recorded.of[p.pid]) == 0 {
		return "not in the recording"
	}
	var newest *line
	for _, n := range p.recorded.of[p.pid] {
		if m := &p.recorded.mappings[n]; m.Life <= p.time && m.Since <= p.time && (newest == nil || p.recorded.newer(m, newest)) {
			newest = m
		}
	}
	if newest != nil && newest.Path == "" && newest.End == math.MaxUint64 { // of Recorder.hide
		return unseenProgram(p.pid)
	}
	return ""
}

// AppendFrame is that of Process.
func (p *RecordedProcess) AppendFrame(dst []byte, addr uint64, returnAddress bool) []byte {
	m, f := p.find(addr, returnAddress)
	if m == nil {
		return strconv.AppendUint(append(dst, "0x"...), addr, 16)
	}
	name := named{mapping: &mapping{file: fileID{path: m.Path}}, name: f.Func, plus: f.Plus, file: f.File}
	return name.append(dst, addr)
}

// NoCaller is that of Process.
func (p *RecordedProcess) NoCaller(addr uint64) bool {
	_, f := p.find(addr, true)
	return f.NoCaller
}

// AppendLines is that of Process.
func (p *RecordedProcess) AppendLines(dst []debuginfo.Frame, addr uint64, returnAddress bool) []debuginfo.Frame {
	_, f := p.find(addr, returnAddress)
	return append(dst, f.Source...)
}

// find returns the mapping of an address, nil if it is in none, and what is known of the place.
func (p *RecordedProcess) find(addr uint64, returnAddress bool) (m *line, f line) {
	at := addr
	if returnAddress && at > 0 {
		at--
	}
	best := -1
	for _, n := range p.recorded.of[p.pid] {
		m := &p.recorded.mappings[n]
		if at < m.Start || at >= m.End || m.Life > p.time || m.Since > p.time {
			continue
		}
		if best < 0 || p.recorded.newer(m, &p.recorded.mappings[best]) {
			best = n
		}
	}
	if best < 0 {
		return nil, f
	}
	m = &p.recorded.mappings[best]
	return m, p.recorded.frames[recordedFrame{best, at - m.Start + m.Offset, !returnAddress}]
}

// newer reports whether a hides b where both have an address.
func (r *Recorded) newer(a, b *line) bool {
	if a.Life != b.Life {
		return a.Life > b.Life
	}
	return a.Since >= b.Since
}
