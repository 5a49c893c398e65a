// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// A Code is the addresses of the code from some source files.
type Code struct {
	slide uint64
	spans []span
}

// Contains reports whether the instruction at an address comes from the files. For the
// address of a function, it tells whether they define it.
func (c *Code) Contains(addr uint64) bool {
	addr -= c.slide
	n, _ := slices.BinarySearchFunc(c.spans, addr, func(s span, addr uint64) int {
		if s.lo <= addr {
			return -1
		}
		return 1
	})
	return n > 0 && c.spans[n-1].contains(addr)
}

// Sources finds the code from source files whose path in the source tree matches a glob. *
// matches any characters and ? matches one.
//
// The file tables of the line programs name every file with code, even one that is only
// included, such as kernel/sched/rt.c. Only the line programs of units with a matching file
// are run, and no entries are read.
func (i *Info) Sources(pattern string) (code *Code) {
	defer i.recovered(debug.SetPanicOnFault(true))
	code = &Code{} // if the file cannot be read
	if i.Err() != nil || !i.sections.mention(pattern) || !i.ready() {
		return code
	}
	touch(i.data, i.sections.line)
	f := sourceFinder{pattern: pattern, suffix: pattern[strings.LastIndexAny(pattern, "*?/")+1:]}
	f.texts = make([]uint8, min(len(i.sections.lineStr), mostTexts))
	f.paths = map[pathKey]bool{}
	u := &unit{sections: i.sections, main: i.sections}
	defer u.release()
	c := cursor{b: i.sections.line}
	for c.pos < len(c.b) {
		u.stmtList = uint64(c.pos)
		end, _ := c.length()
		if c.bad {
			break // later units cannot be found
		}
		c.pos = end
		f.unit(u)
	}
	slices.SortFunc(f.spans, func(a, b span) int { return compare(a.lo, b.lo) })
	return &Code{slide: i.options.slide, spans: f.spans}
}

// mostTexts bounds the bytes of names that are remembered or searched. A kernel has 2 MB of
// them.
const mostTexts = 1 << 26

// mention reports whether the glob's directory occurs among the names of files. This saves
// relocating most modules.
func (s *sections) mention(pattern string) bool {
	folder := glob.Prefix(pattern)
	folder = folder[:max(0, strings.LastIndexByte(folder, '/'))]
	if len(s.lineStr)+len(s.line)+len(s.str) > 4*mostTexts {
		return true // perhaps
	}
	for _, names := range [][]byte{s.lineStr, s.line, s.str} {
		// "a/../b" means b.
		if bytes.Contains(names, []byte(folder)) || bytes.Contains(names, []byte("/../")) {
			return true
		}
	}
	return false
}

// Callable reports whether a symbol is a place that calls can lead to.
func Callable(symbol string) bool {
	return !strings.HasPrefix(symbol, "__pfx_") && !strings.HasSuffix(symbol, ".cold") && !strings.Contains(symbol, ".cold.")
}

// A pathKey identifies a path by where its parts are in .debug_line_str.
type pathKey struct{ dir, name uint64 }

// A sourceFinder searches one line program after another for files. A kernel's programs
// name 800,000 files, but few different ones.
type sourceFinder struct {
	pattern string
	suffix  string           // end of a matching file's name
	texts   []uint8          // by offset of a name: 0 not seen, 1 lacks the suffix, 2 has it
	paths   map[pathKey]bool // whether the whole path matches
	wanted  []bool           // by file number in this unit
	spans   []span
}

// unit adds the code of one unit.
func (f *sourceFinder) unit(u *unit) {
	t := &u.lines
	t.reset()
	u.addrSize = 8
	program, ok := t.header.read(u)
	if !ok || t.header.lineRange == 0 || !f.files(u) {
		return
	}
	u.formSizes = t.header.formSizes
	t.run(&program, u)
	for _, s := range t.sequences {
		f.addRows(t.rows[s.first:s.last])
	}
}

// addRows adds the code of a sequence. Of several rows with one address, all but the last
// of which have no code, the first counts here. A function that starts with an inlined call
// has a row for its own opening line before the row of the call.
func (f *sourceFinder) addRows(rows []row) {
	for n := 0; n < len(rows)-1; {
		r := rows[n]
		for n++; n < len(rows)-1 && rows[n].addr == r.addr; n++ {
		}
		next := rows[n].addr
		if next <= r.addr || int(r.file) >= len(f.wanted) || !f.wanted[r.file] {
			continue
		}
		if last := len(f.spans) - 1; last >= 0 && f.spans[last].hi == r.addr {
			f.spans[last].hi = next
		} else {
			f.spans = append(f.spans, span{r.addr, next})
		}
	}
}

// files finds the wanted files of the unit.
func (f *sourceFinder) files(u *unit) (some bool) {
	h := &u.lines.header
	first := 0
	if h.version < 5 {
		first = 1
	}
	f.wanted = slices.Grow(f.wanted[:0], len(h.files)+first)[:len(h.files)+first]
	clear(f.wanted)
	for n := range h.files {
		if f.matches(u, &h.files[n]) {
			f.wanted[n+first], some = true, true
		}
	}
	return some
}

// matches reports whether a file's path matches the glob. It remembers names by their
// offsets, because units share nearly all of them, and tests the suffix before it
// assembles a path.
func (f *sourceFinder) matches(u *unit, file *lineFile) bool {
	memo := file.name.form == formLineStrp && file.name.n < uint64(len(f.texts))
	if memo {
		seen := &f.texts[file.name.n]
		if *seen == 0 {
			*seen = 1
			if strings.HasSuffix(string(u.str(file.name)), f.suffix) {
				*seen = 2
			}
		}
		if *seen == 1 {
			return false
		}
	}
	dirs := u.lines.header.dirs
	if !memo || file.dir >= uint64(len(dirs)) || dirs[file.dir].form != formLineStrp {
		return glob.Match(f.pattern, u.sourcePath(file))
	}
	key := pathKey{dirs[file.dir].n, file.name.n}
	match, ok := f.paths[key]
	if !ok {
		match = glob.Match(f.pattern, u.sourcePath(file))
		f.paths[key] = match
	}
	return match
}
