// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/mappings"
	"github.com/ksnoop/ksnoop/internal/regular"
	"github.com/ksnoop/ksnoop/internal/symname"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Symbols names addresses of the processes of one machine. It remembers what it has read of
// a process, so that it can name addresses after the process has ended. It is safe for
// concurrent use.
type Symbols struct {
	mu     sync.Mutex // guards the rest
	root   fs.FS
	spaces map[uint32]*space
	files  map[Version]*contents
	copies map[[sha256.Size]byte]*parsed // what files have, by its sum
	named  map[fileID]*alike
	kept   int // bytes of all copies
	open   int // files of images that are kept open

	lookedAt int // see remember

	withRows map[*image]struct{} // images that keep rows
	keptRows int                 // of all of them

	generated map[perfKey]*perfMap
	heldOpen  int       // directories that are kept open
	leaving   []leaving // in order of time
	unread    int       // processes whose generated code could not be named
	// keptGenerated is the number of bytes of all of these.
	keptGenerated int

	lines     *Lines // nil: no source lines are told
	infos     int    // files with debug info that are mapped
	installed int    // files that were read for the names of stripped ones
	unlined   unlined
	numbering Numbering
	initial   bool   // ksnoop is in the initial PID namespace
	lives     *lives // nil: processes are not followed
	unwinds   bool   // images are to tell how stacks are unwound
}

// A space is the address space of a process.
type space struct {
	id     identity
	comm   string // name of the thread at the time of reading
	maps   []mapping
	misses int // addresses in no mapping
	reload int // number of misses at which the maps are read again
	looked looked
}

// newSymbols returns Symbols for the machine whose files are below root.
func newSymbols(root fs.FS) *Symbols {
	return &Symbols{root: root, spaces: map[uint32]*space{}, files: map[Version]*contents{}, copies: map[[sha256.Size]byte]*parsed{},
		named: map[fileID]*alike{}, withRows: map[*image]struct{}{}, generated: map[perfKey]*perfMap{}}
}

// Following returns Symbols that know what source tells of processes, and so name addresses
// after these have ended, and that unwind stacks. source may be nil: then addresses have
// names as long as their process lives. numbering is that of /proc.
func Following(root fs.FS, numbering Numbering, source Source, unwinds bool) *Symbols {
	s := newSymbols(root)
	s.numbering, s.unwinds = numbering, unwinds
	if link, err := fs.ReadLink(root, "proc/self/ns/pid"); err == nil {
		s.initial = link == initialNamespace
	}
	if source != nil {
		if numbering != NumberedOurs { // numbers of /proc are not those of source
			s.lives = newLives(nowhere{}, source)
			return s
		}
		s.lives = newLives(root, source)
		s.lives.keeper = s
		s.lives.keepAll()
	}
	return s
}

// Unseen returns how often mappings were not seen, whose code has no names: how many that the kernel or Symbols had no room for, of
// how many processes they could not be read in time, and how often a CPU was off.
func (s *Symbols) Unseen() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lives == nil {
		return 0
	}
	s.lives.update(mappings.Now()) // a CPU may have come on since the last stack
	return s.lives.lost
}

// ShowLines has source lines told, where debug info has them.
func (s *Symbols) ShowLines(l Lines) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.memory = debuginfo.NewMemory(mostDebugInfo)
	s.lines = &l
}

// Of returns the names of addresses in the process of an event, whose thread was called comm, as
// they were then.
func (s *Symbols) Of(e *bpf.Event, comm string) *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(e, comm)
}

// numberOf returns the number of an event's process in the PID namespace of whoever has traced it.
func numberOf(e *bpf.Event) uint32 {
	if e.Inner.Ours {
		return e.Inner.PID
	}
	return e.PID
}

func (s *Symbols) of(e *bpf.Event, comm string) *Process {
	pid, tid, err := s.numbering.IDs(e)
	if s.lives != nil {
		key := numberOf(e)
		at := e.Time
		if at == 0 { // a stack of a table, of which no time is known
			at = math.MaxUint64
		}
		s.lives.update(cmp.Or(e.Time, mappings.Now()-betweenRows))
		// Its number is that of the initial namespace alone.
		if found := s.lives.at(key, at); found != nil && (e.Time != 0 || s.initial) {
			switch {
			case found.doubtAt(at):
				return s.doubted(found, key, pid, tid, comm, err)
			case len(found.maps) > 0 || found.executed:
				return &Process{symbols: s, pid: pid, of: found, life: found, at: at}
			case err == nil:
				p := s.process(pid, tid, comm)
				p.of = found
				return p
			}
		}
	}
	if err != nil {
		return Unknown(err.Error())
	}
	return s.process(pid, tid, comm)
}

// betweenRows is how long ago it may have been looked which CPUs are on when a stack of a table is named: looking takes long where there
// are many CPUs, and so may do tables.
const betweenRows = uint64(5 * time.Millisecond)

// doubted returns a process whose life is in doubt, by its number for people, and has that compared next. Where /proc has other
// numbers, lives are never compared with it, so there it tells what the process maps if the thread still has its name.
func (s *Symbols) doubted(of *life, number, pid, tid uint32, comm string, unnumbered error) *Process {
	why := unseenProgram(number)
	if of.denied {
		why += fmt.Sprintf(", and ksnoop may not read /proc/%d/maps (CAP_SYS_PTRACE)", number)
	}
	p := Unknown(why)
	s.lives.want(number)
	if _, blind := s.lives.root.(nowhere); blind && unnumbered == nil {
		p = s.process(pid, tid, comm)
	}
	p.of, p.doubted = of, true
	return p
}

// A Process names the addresses of one process. It is valid until the next one is
// requested.
type Process struct {
	symbols *Symbols
	pid     uint32
	space   *space // nil: nothing is known
	life    *life  // has the mappings, in place of space
	at      uint64 // and at which time
	why     string
	of      *life // which a recording's lines name; nil if none is known
	doubted bool  // of may have executed another program since, unseen
}

// Missing says why addresses have no names; "" if nothing prevents it.
func (p *Process) Missing() string { return p.why }

// Unknown returns a process of which nothing is known.
func Unknown(why string) *Process { return &Process{why: why} }

// process returns the names of addresses in the process of a thread that was called comm.
// The caller holds the lock. If the process has since ended or executed another program, its addresses have no names
// unless they were read before.
func (s *Symbols) process(pid, tid uint32, comm string) *Process {
	p := &Process{symbols: s, pid: pid, space: s.spaces[pid]}
	id, err := s.identity(pid, tid, comm)
	switch {
	case errors.Is(err, errRenamed):
		// Maps read before the exec still hold.
		if p.space == nil || p.space.comm != comm {
			p.space, p.why = nil, fmt.Sprintf("process %d has a new name, and so perhaps a new program: too late to name its addresses", pid)
		}
		return p
	case err != nil && p.space != nil && p.space.comm == comm:
		return p // it has ended since
	case err != nil:
		p.space, p.why = nil, fmt.Sprintf("process %d has ended: too late to name its addresses", pid)
		return p
	case p.space != nil && p.space.id == id:
		return p
	}
	maps, err := readMaps(s.root, pid)
	if again, e := s.identity(pid, tid, comm); err == nil && (e != nil || again != id) {
		err = errRenamed // the maps may already be those of the next program
	}
	switch {
	case mapsReads.GaveUp(err):
		p.space, p.why = nil, fmt.Sprintf("process %d: %v", pid, err)
		return p
	case err != nil:
		p.space, p.why = nil, fmt.Sprintf("process %d has ended: too late to name its addresses", pid)
		return p
	}
	if len(s.spaces) >= mostSpaces {
		clear(s.spaces)
	}
	p.space = &space{id: id, comm: comm, maps: maps, reload: 1}
	s.spaces[pid] = p.space
	return p
}

// errRenamed says that a thread is no longer called what it was.
var errRenamed = errors.New("the thread has another name")

// identity reads the identity of a thread's address space, provided that the thread still
// has its name: exec changes it.
func (s *Symbols) identity(pid, tid uint32, comm string) (identity, error) {
	text, err := fs.ReadFile(s.root, fmt.Sprintf("proc/%d/task/%d/stat", pid, tid))
	if err != nil {
		return identity{}, err
	}
	now, id, ok := parseStat(text)
	switch {
	case !ok:
		return id, errors.New("stat: not as expected")
	case now != comm:
		return id, errRenamed
	}
	return id, nil
}

// AppendFrame appends the function at an address and its file: "read+0x12
// (/usr/lib/libc.so.6)". Unknown parts are left out. All addresses of a stack but the
// innermost are return addresses. A return address is after the call, which may be the last
// instruction of its function.
func (p *Process) AppendFrame(dst []byte, addr uint64, returnAddress bool) []byte {
	if p.symbols != nil {
		p.symbols.mu.Lock()
		defer p.symbols.mu.Unlock()
	}
	n := p.name(addr, returnAddress)
	return n.append(dst, addr)
}

// A named is what is known of an address.
type named struct {
	mapping *mapping // nil: it is in none
	since   uint64
	image   *image // nil if the file cannot be read
	offset  uint64 // in the file
	name    string // of the function; "" if that is not known
	plus    uint64 // bytes from its beginning
	file    string // what says so, if it is not the mapped file
}

// append appends the function and the file.
func (n *named) append(dst []byte, addr uint64) []byte {
	if n.name == "" {
		dst = strconv.AppendUint(append(dst, "0x"...), addr, 16)
	} else {
		dst = symname.AppendAt(dst, n.name, n.plus, "")
	}
	if n.mapping == nil {
		return dst
	}
	return appendFile(dst, cmp.Or(n.file, n.mapping.file.path))
}

// AppendLines appends where in the source an address is: the functions that were inlined there,
// innermost first, and the function that contains them. It appends nothing if debug info does not
// tell. The arguments are those of AppendFrame.
func (p *Process) AppendLines(dst []debuginfo.Frame, addr uint64, returnAddress bool) []debuginfo.Frame {
	if p.symbols == nil {
		return dst
	}
	p.symbols.mu.Lock()
	defer p.symbols.mu.Unlock()
	return p.appendLines(dst, p.name(addr, returnAddress))
}

func (p *Process) appendLines(dst []debuginfo.Frame, n named) []debuginfo.Frame {
	if n.image == nil || n.image.info == nil {
		return dst
	}
	linked, ok := linkedAt(n.image.loads, n.offset)
	if !ok {
		return dst
	}
	info := n.image.info
	found, err := regular.Within(info, func() ([]debuginfo.Frame, error) { return info.Lookup(nil, linked), nil }) // it is mapped, so this may read it
	if err != nil {
		n.image.info = nil
		p.symbols.unlined.add((&described{mapped: n.mapping.file}).named(err))
	}
	if len(found) > 1 && !p.symbols.lines.Inlined {
		found = found[:1]
	}
	return append(dst, found[:withinText(found)]...)
}

// mostText is how many bytes names and files of the functions at one address take.
const mostText = 64 << 10

// withinText returns how many of the frames have room.
func withinText(frames []debuginfo.Frame) int {
	size := 0
	for i := range frames {
		if size += len(frames[i].Func) + len(frames[i].File); size > mostText {
			return i
		}
	}
	return len(frames)
}

// name finds what is known of an address.
func (p *Process) name(addr uint64, returnAddress bool) (n named) {
	at := lookedUp(addr, returnAddress)
	if n.mapping, n.since = p.mapping(at); n.mapping == nil {
		return n
	}
	m := n.mapping
	n.offset = at - m.start + m.offset
	var err error
	if n.image, err = p.image(m); err != nil && p.why == "" {
		p.why = fmt.Sprintf("%s: no names: %s", terminal.AppendName(nil, m.file.path), terminal.AppendName(nil, err.Error()))
	}
	if n.image == nil || len(n.image.funcs) == 0 {
		if f, path := p.generated(at); f != nil {
			n.name, n.plus, n.file = f.name, addr-f.addr, path
		}
		return n
	}
	if linked, ok := linkedAt(n.image.loads, n.offset); ok {
		if f, ok := n.image.find(linked); ok {
			n.name, n.plus = f.name, linked-f.addr+(addr-at)
		}
	}
	return n
}

// lookedUp returns the address by which the function of an address is found.
func lookedUp(addr uint64, returnAddress bool) uint64 {
	if returnAddress && addr > 0 {
		return addr - 1
	}
	return addr
}

func appendFile(dst []byte, file string) []byte {
	if file == "" {
		return dst
	}
	return append(terminal.AppendName(append(dst, " ("...), file), ')')
}

// mapping returns the mapping of an address. Libraries can be loaded at any time, so the
// maps are read again at the first address that is in none of them, and each time the
// number of such addresses has doubled.
func (p *Process) mapping(addr uint64) (m *mapping, since uint64) {
	if p.life != nil {
		return p.life.find(addr, p.at)
	}
	if p.space == nil {
		return nil, 0
	}
	if m := mappingAt(p.space.maps, addr); m != nil {
		return m, 0
	}
	if p.space.misses++; p.space.misses < p.space.reload {
		return nil, 0
	}
	p.space.reload = 2 * p.space.misses
	if maps, err := readMaps(p.symbols.root, p.pid); err == nil {
		p.space.maps = maps
	}
	return mappingAt(p.space.maps, addr), 0
}

// describe opens the debug info of a file, if lines are shown.
func (s *Symbols) describe(img *image, f *described) {
	var err error
	switch {
	case s.lines == nil:
	case s.infos < mostInfos:
		if img.info, err = regular.Within(img, func() (*debuginfo.Info, error) { return s.lines.open(f) }); img.info != nil {
			s.infos++
		}
		s.unlined.add(f.named(err))
	default:
		there, err := regular.Within(img, func() (bool, error) { return s.lines.there(f), nil })
		if there {
			s.unlined.addOver(f)
		}
		s.unlined.add(f.named(err))
	}
}

// Unlined says what of debug info could not be read, so that lines or inlined functions are missing; "" if that is nothing.
func (s *Symbols) Unlined() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.files {
		if c.image != nil && c.image.info != nil {
			s.unlined.addInfo(c.image.info, s.lines.Inlined)
		}
	}
	return s.unlined.text()
}

// vdso returns the functions of the vDSO, which are the same for all processes.
func (s *Symbols) vdso() *contents {
	c := s.files[Version{}] // which no file has
	if c == nil {
		c = s.keep(s.readVDSO(), nil)
		s.files[Version{}] = c
	}
	return c
}

// readVDSO reads the vDSO from our own process.
func (s *Symbols) readVDSO() *image {
	f, err := s.root.Open("proc/self/maps")
	if err != nil {
		return nil
	}
	defer f.Close()
	maps, err := parseMaps(f)
	if err != nil {
		return nil
	}
	for i := range maps {
		m := &maps[i]
		if m.file.path != vdso || m.end-m.start > 1<<20 {
			continue
		}
		mem, err := s.root.Open("proc/self/mem")
		if err != nil {
			return nil
		}
		defer mem.Close()
		r, ok := mem.(io.ReaderAt)
		data := make([]byte, m.end-m.start)
		if !ok {
			return nil
		}
		if _, err := r.ReadAt(data, int64(m.start)); err != nil {
			return nil
		}
		if img, err := readImage(bytes.NewReader(data)); err == nil {
			if s.unwinds {
				_, _ = img.readUnwinding(bytes.NewReader(data)) // without it goes by frame pointers
			}
			return img
		}
	}
	return nil
}
