// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
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
// End; or else a life, if it has a PID; or the function at an offset in a mapping.
type line struct {
	Mapping int `json:"m"` // its number, from 0 on

	PID        uint32 `json:",omitempty"`
	Life       uint64 `json:",omitempty"` // when the program began, as far as it is known
	Since      uint64 `json:",omitempty"` // when it was mapped
	Start, End uint64 `json:",omitempty"`
	Offset     uint64 `json:",omitempty"`
	Path       string `json:",omitempty"`
	BuildID    string `json:",omitempty"` // in hex

	// Unnamed is from when on a life's addresses have no names, since it may have executed another program, unseen; 0: they have names.
	// A later line of the same life takes its place.
	Unnamed uint64 `json:",omitempty"`
	// Refused is where it mapped what there is no room for. What earlier lines say of this stays true.
	Refused refused `json:",omitzero"`
	// Silent is from when on no address has a name: there is no room to tell more.
	Silent uint64 `json:",omitempty"`

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
	lives   map[moment]lifeLines
	changes int // lines about lives
	silent  bool
}

// A moment is a time of a process.
type moment struct {
	pid  uint32
	time uint64
}

// A lifeLines is what the recording has of a life: how many lines about it, and Unnamed and Refused of the last one.
type lifeLines struct {
	lines   int
	unnamed uint64
	refused refused
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
	return &Recorder{symbols: s, mapped: map[recordedMapping]int{}, framed: map[recordedFrame]struct{}{}, lives: map[moment]lifeLines{}}
}

// Append appends the lines for a stack that the recording does not have yet.
func (r *Recorder) Append(dst []byte, e *bpf.Event, stack []bpf.UserFrame) []byte {
	r.symbols.mu.Lock()
	defer r.symbols.mu.Unlock()
	p := r.symbols.of(e, string(bytes.TrimRight(e.Comm[:], "\x00")))
	of := moment{pid: e.PID}
	if p.of != nil {
		of.time = p.of.from
		dst = r.appendLife(dst, of, p.of.doubtful, p.of.refused)
	}
	if p.doubted {
		return dst
	}
	var none refused // for which there is no room
	for _, f := range stack {
		n := p.name(f.Addr(), !f.Exact())
		if n.mapping == nil {
			continue
		}
		key := recordedMapping{pid: e.PID, life: of.time, since: n.since, mapping: *n.mapping}
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
				none.merge(refusedOnly(&timed{*n.mapping, n.since}))
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
	if none != (refused{}) {
		dst = r.appendLife(dst, of, r.lives[of].unnamed, none)
	}
	return dst
}

// Limits on lines about lives. There is room for these when there is none for others: a life would have the names of the one before.
const (
	mostChanges = mostRecorded / 4
	mostOfLife  = 64 // then it has no names from a moment of doubt on: whoever maps code as fast as they can brings all in doubt again and again
)

// appendLife appends a line for a life, by its process and its beginning, unless the recording has it. What was refused before still is.
// If there is no room, all addresses have no names from then on.
func (r *Recorder) appendLife(dst []byte, of moment, unnamed uint64, refused refused) []byte {
	was, known := r.lives[of]
	refused.merge(was.refused)
	if was.lines >= mostOfLife {
		if was.unnamed != 0 && (unnamed == 0 || unnamed > was.unnamed) {
			unnamed = was.unnamed
		}
		if refused != was.refused {
			refused = refused.everywhere()
		}
	}
	if known && was.unnamed == unnamed && was.refused == refused || r.silent {
		return dst
	}
	l := line{PID: of.pid, Life: of.time, Unnamed: unnamed, Refused: refused}
	if r.changes++; r.changes == mostChanges {
		r.silent = true
		since := of.time
		switch {
		case known && refused == was.refused:
			since = cmp.Or(unnamed, was.unnamed)
		case known && unnamed == was.unnamed:
			since = refused.First
		}
		l = line{Silent: max(since, 1)}
	}
	r.lives[of] = lifeLines{was.lines + 1, unnamed, refused}
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
	of       map[moment][]int          // mappings of a life, by its beginning, in the order in which they were recorded
	lives    map[uint32][]recordedLife // of a process, in order of time
	// number is that of a mapping by the number in the part of the recording that is read.
	number map[int]int
	known  map[declared]int // numbers here; each part of a run begins anew
	frames map[recordedFrame]line
	silent uint64 // from when on no address has a name; 0: never
	lines  int
	text   int
}

// A recordedLife is what a process was from a time on.
type recordedLife struct {
	from    uint64
	unnamed uint64 // from when on its addresses have no names; 0: they have
	refused refused
	missing refused // what is here no room for
}

// hides reports whether what was mapped at an address since a time may have been hidden at another time.
func (l *recordedLife) hides(addr, since, time uint64) bool {
	return l.refused.hides(addr, since, time) || l.missing.hides(addr, since, time)
}

// A declared is what a line says of a mapping.
type declared struct {
	pid                             uint32
	life, since, start, end, offset uint64
	path, buildID                   string
}

// NewRecorded returns what knows nothing yet.
func NewRecorded() *Recorded {
	return &Recorded{of: map[moment][]int{}, lives: map[uint32][]recordedLife{}, number: map[int]int{}, known: map[declared]int{}, frames: map[recordedFrame]line{}}
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
		switch {
		case l.Silent > 0:
			r.silence(l.Silent)
			continue
		case l.End > 0:
			l.Source = nil
			r.addMapping(l, len(text))
			continue
		case l.PID > 0:
			r.addLife(l.PID, recordedLife{from: l.Life, unnamed: l.Unnamed, refused: l.Refused}, true)
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

// silence takes the names from all addresses from a time on.
func (r *Recorded) silence(from uint64) {
	if r.silent == 0 || from < r.silent {
		r.silent = from
	}
}

// addLife adds a life. again says that the line takes the place of others about that life.
func (r *Recorded) addLife(pid uint32, life recordedLife, again bool) {
	const size = 128 // in memory, about
	own := r.lives[pid]
	i, known := lifeFrom(own, life.from)
	switch {
	case known && again:
		life.refused.merge(own[i].refused) // parts of a run begin anew
		life.missing = own[i].missing
		own[i] = life
	case known:
	case len(own) < mostMapped && r.room(size):
		r.lives[pid] = slices.Insert(own, i, life)
	case life.from > 0: // or it would have the names of the one before
		r.silence(life.from)
	}
}

// lifeFrom returns where the life is, or would be, that began at a time.
func lifeFrom(own []recordedLife, time uint64) (at int, found bool) {
	return slices.BinarySearchFunc(own, time, func(l recordedLife, t uint64) int { return cmp.Compare(l.from, t) })
}

// misses takes note of a mapping that there is no room for. If nothing is known of a life that began later than the process, no address of it has a name.
func (r *Recorded) misses(pid uint32, from uint64, mapping refused) {
	own := r.lives[pid]
	if i, known := lifeFrom(own, from); known {
		own[i].missing.merge(mapping)
	}
}

// lifeAt returns the life that a process had at a time.
func (r *Recorded) lifeAt(pid uint32, time uint64) (life recordedLife, known bool) {
	own := r.lives[pid]
	i, found := lifeFrom(own, time)
	if !found {
		i--
	}
	if i < 0 {
		return life, false
	}
	return own[i], true
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
		of := moment{l.PID, l.Life}
		r.addLife(l.PID, recordedLife{from: l.Life}, false) // recordings of older versions have no lines about lives
		if len(r.of[of]) >= mostMapped || !r.room(size) {
			r.misses(l.PID, l.Life, refused{l.Start, l.End, l.Since, l.Since})
			return
		}
		number = len(r.mappings)
		r.known[same] = number
		r.of[of] = append(r.of[of], number)
		r.mappings = append(r.mappings, l)
	}
	r.number[l.Mapping] = number
}

// noRoom is why no process has names from some time on.
const noRoom = "there was no room for more programs that processes executed"

// Of returns the names of addresses in the process of an event.
func (r *Recorded) Of(e *bpf.Event) *RecordedProcess {
	p := &RecordedProcess{recorded: r, time: e.Time}
	life, known := r.lifeAt(e.PID, e.Time)
	switch {
	case r.silent != 0 && e.Time >= r.silent:
		p.why = noRoom
	case life.unnamed != 0 && e.Time >= life.unnamed:
		p.why = unseenProgram(numberOf(e))
	case known:
		p.mappings, p.life = r.of[moment{e.PID, life.from}], life
	}
	if p.why == "" && len(r.lives[e.PID]) == 0 {
		p.why = "not in the recording"
	}
	return p
}

// A RecordedProcess names the addresses of a process as it was at some time.
type RecordedProcess struct {
	recorded *Recorded
	time     uint64
	life     recordedLife
	mappings []int  // of its program then, in the order in which they were recorded
	why      string // why there are none; "" if there are
}

// Missing says why addresses have no names.
func (p *RecordedProcess) Missing() string { return p.why }

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
	at := lookedUp(addr, returnAddress)
	best := -1
	for _, n := range p.mappings {
		m := &p.recorded.mappings[n]
		if at < m.Start || at >= m.End || m.Since > p.time {
			continue
		}
		if best < 0 || m.Since >= p.recorded.mappings[best].Since {
			best = n
		}
	}
	if best < 0 || p.life.hides(at, p.recorded.mappings[best].Since, p.time) {
		return nil, f
	}
	m = &p.recorded.mappings[best]
	return m, p.recorded.frames[recordedFrame{best, at - m.Start + m.Offset, !returnAddress}]
}
