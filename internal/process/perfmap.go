// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Limits on a map of generated code. Large servers in Java and JavaScript have some 100,000
// functions.
const (
	mostPerfBytes = 64 << 20
	mostPerfLine  = 1 << 14
)

// A perfMap has the functions of code that a process has generated: compilers at run time write
// /tmp/perf-PID.map for that, a line for each function with its address, its size and its
// name.
type perfMap struct {
	path    string
	funcs   parsed
	misses  int  // addresses in no function
	reload  int  // number of misses at which the file is read again
	settled bool // there is nothing more to read
}

// generated finds the function at an address of generated code. More may be generated at any
// time, so the file is read again as often as maps are.
func (p *Process) generated(addr uint64) (f *function, path string) {
	if p.pid == 0 { // its number in /proc is not known
		return nil, ""
	}
	key := perfKey{p.pid, 0}
	if p.life != nil {
		key.life = p.life.from
	}
	m := p.symbols.generated[key]
	if m == nil {
		if len(p.symbols.generated) >= mostSpaces {
			p.symbols.dropGenerated()
		}
		m = &perfMap{reload: 1}
		p.symbols.generated[key] = m
	}
	if f, ok := m.funcs.find(addr); ok {
		return f, m.path
	}
	over := p.life != nil && p.life.over
	if m.misses++; m.settled || m.misses < m.reload && !over {
		return nil, ""
	}
	m.reload = 2 * m.misses
	p.symbols.readGenerated(key, m, p.life)
	if f, ok := m.funcs.find(addr); ok {
		return f, m.path
	}
	return nil, ""
}

// readGenerated reads the map of a process. of is nil if the process is not followed.
func (s *Symbols) readGenerated(key perfKey, m *perfMap, of *life) {
	var path string
	var file fs.File
	m.settled = of != nil && of.over
	switch {
	case !m.settled:
		path, file = s.openPerfMap(key.pid)
		if file == nil && of != nil && of.mainEnded && of.held != nil { // /proc does not show its root any more
			path, file = of.held.open(s.root)
		}
	case of.held != nil:
		path, file = of.held.open(s.root)
	default:
		path, file = perfMapOf(strconv.FormatUint(uint64(key.pid), 10), 0).open(s.root)
		if file == nil && of.generates && m.path == "" {
			s.unread++
		}
	}
	if file == nil {
		return
	}
	defer file.Close()
	m.path = path
	before := m.funcs.size()
	m.funcs = parsed{funcs: readPerfMap(io.LimitReader(file, mostPerfBytes))}
	for i := range m.funcs.funcs {
		m.funcs.names += len(m.funcs.funcs[i].name)
	}
	s.keepGenerated(key, m, before)
}

// keepGenerated counts what a map takes that took something before. If all together becomes too
// large, it drops the other maps, but no image: that may be in use.
func (s *Symbols) keepGenerated(key perfKey, m *perfMap, before int) {
	s.keptGenerated += m.funcs.size() - before
	if s.kept+s.keptGenerated > mostKept {
		s.dropGenerated()
		s.generated[key], s.keptGenerated = m, m.funcs.size()
	}
}

func (s *Symbols) dropGenerated() {
	clear(s.generated)
	s.keptGenerated = 0
}

// A perfKey is a process, and when its program began.
type perfKey struct {
	pid  uint32
	life uint64
}

// openPerfMap opens the file of a process. It has the number that the process has in its own PID
// namespace, and is where the process sees /tmp. Anybody can write files there, so it must belong to
// whom the process belongs to, or to root: to root alone if the process has ended. A link there is
// not followed: it could lead to any file that belongs to one of them.
func (s *Symbols) openPerfMap(pid uint32) (path string, f fs.File) {
	at, alive := s.perfMapNow(pid)
	if !alive {
		return at.open(s.root)
	}
	return at.openIn(s.root, procOf(pid)+"/root/tmp/")
}

// perfMapNow says which file a process writes. alive says that it has not ended; then the file is where the process sees /tmp.
func (s *Symbols) perfMapNow(pid uint32) (at *held, alive bool) {
	at = perfMapOf(strconv.FormatUint(uint64(pid), 10), 0)
	status, err := fs.ReadFile(s.root, procOf(pid)+"/status")
	if err != nil {
		return at, false
	}
	if _, list, ok := bytes.Cut(status, []byte("\nNSpid:")); ok {
		list, _, _ = bytes.Cut(list, []byte("\n"))
		if ids := bytes.Fields(list); len(ids) > 0 {
			at.name = perfMapOf(string(ids[len(ids)-1]), 0).name
		}
	}
	if info, err := fs.Stat(s.root, procOf(pid)); err == nil {
		at.owner = ownerOf(info)
	}
	return at, true
}

// readPerfMap reads lines as "7f0000001000 3c py::f:/a.py". What is no such line is left out. Of several
// functions at an address the last one is taken, since it was generated last. No more than mostFunctions lines are read, whatever they are.
func readPerfMap(r io.Reader) []function {
	var funcs []function
	names := 0
	in := bufio.NewScanner(r)
	in.Buffer(nil, mostPerfLine)
	for lines := 0; lines < mostFunctions && in.Scan(); lines++ {
		from, rest, _ := strings.Cut(in.Text(), " ")
		size, name, _ := strings.Cut(rest, " ")
		addr, err := strconv.ParseUint(strings.TrimPrefix(from, "0x"), 16, 64)
		n, err2 := strconv.ParseUint(strings.TrimPrefix(size, "0x"), 16, 64)
		if err != nil || err2 != nil || n == 0 || addr+n < addr || name == "" {
			continue
		}
		if names += len(name); names > mostNames {
			break
		}
		funcs = append(funcs, function{addr, addr + n, strings.Clone(name)}) // not all of its line
	}
	slices.Reverse(funcs)
	slices.SortStableFunc(funcs, func(a, b function) int { return cmp.Compare(a.addr, b.addr) })
	return slices.CompactFunc(funcs, func(a, b function) bool { return a.addr == b.addr })
}
