// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
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

	// Unnamed is the time of an event of PID whose process may have executed another program, which was not seen; of PID 0, from when
	// on that holds for all.
	Unnamed uint64 `json:",omitempty"`

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
	size    int
	unnamed int // events
}

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
	return &Recorder{symbols: s, mapped: map[recordedMapping]int{}, framed: map[recordedFrame]struct{}{}}
}

// Append appends the lines for a stack that the recording does not have yet.
func (r *Recorder) Append(dst []byte, e *bpf.Event, stack []bpf.UserFrame) []byte {
	r.symbols.mu.Lock()
	defer r.symbols.mu.Unlock()
	p := r.symbols.of(e, string(bytes.TrimRight(e.Comm[:], "\x00")))
	if p.doubtful {
		return r.unname(dst, e)
	}
	for _, f := range stack {
		n := p.name(f.Addr(), !f.Exact())
		if n.mapping == nil {
			continue
		}
		key := recordedMapping{pid: e.PID, since: n.since, mapping: *n.mapping}
		if p.life != nil {
			key.life = p.life.from
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

// mostUnnamed is how many events without names a recording tells one by one. It has room for these when it is full: otherwise they
// would have the names of the program before.
const mostUnnamed = 100_000

// unname appends a line for an event without names; of too many, one for all events from then on.
func (r *Recorder) unname(dst []byte, e *bpf.Event) []byte {
	r.unnamed++
	l := line{PID: e.PID, Unnamed: e.Time}
	switch {
	case r.unnamed > mostUnnamed:
		return dst
	case r.unnamed == mostUnnamed:
		l.PID = 0
	}
	text, _ := json.Marshal(&l) // of numbers that does not fail
	return append(append(dst, text...), '\n')
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
	// unnamed are events without names. From the time silent on there are no others, if it is not 0.
	unnamed map[moment]struct{}
	silent  uint64
	lines   int
	text    int
}

// A moment is when a process made a call.
type moment struct {
	pid  uint32
	time uint64
}

// A declared is what a line says of a mapping.
type declared struct {
	pid                             uint32
	life, since, start, end, offset uint64
	path, buildID                   string
}

// NewRecorded returns what knows nothing yet.
func NewRecorded() *Recorded {
	return &Recorded{of: map[uint32][]int{}, number: map[int]int{}, known: map[declared]int{}, frames: map[recordedFrame]line{}, unnamed: map[moment]struct{}{}}
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
		if l.Unnamed > 0 {
			r.unname(moment{l.PID, l.Unnamed})
			continue
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

// unname takes note of an event without names, or that there are no others.
func (r *Recorded) unname(m moment) {
	const size = 64 // in memory, about
	if _, known := r.unnamed[m]; known {
		return
	}
	if m.pid != 0 && r.room(size) {
		r.unnamed[m] = struct{}{}
	} else if r.silent == 0 || m.time < r.silent {
		r.silent = m.time
	}
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
func (r *Recorded) Of(e *bpf.Event) *RecordedProcess {
	p := &RecordedProcess{recorded: r, pid: e.PID, time: e.Time}
	if _, unnamed := r.unnamed[moment{e.PID, e.Time}]; unnamed || r.silent != 0 && e.Time >= r.silent {
		p.why = unseenProgram(numberOf(e))
	}
	return p
}

// A RecordedProcess names the addresses of a process as it was at some time.
type RecordedProcess struct {
	recorded *Recorded
	pid      uint32
	time     uint64
	why      string // why it has no names; "" if it has
}

// Missing says why addresses have no names.
func (p *RecordedProcess) Missing() string {
	if p.why != "" {
		return p.why
	}
	if len(p.recorded.of[p.pid]) == 0 {
		return "not in the recording"
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

// mappings are those of the process, at any time; none if it is to have no names.
func (p *RecordedProcess) mappings() []int {
	if p.why != "" {
		return nil
	}
	return p.recorded.of[p.pid]
}

// find returns the mapping of an address, nil if it is in none, and what is known of the place.
func (p *RecordedProcess) find(addr uint64, returnAddress bool) (m *line, f line) {
	at := addr
	if returnAddress && at > 0 {
		at--
	}
	best := -1
	for _, n := range p.mappings() {
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
