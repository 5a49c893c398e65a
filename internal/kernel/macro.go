// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A Macro is a value that the print format of a tracepoint has for a name. BTF has no
// macros, but the formats turn numbers into names with tables of both:
//
//	__print_flags(REC->gfp_flags, "|", {( unsigned long)(( gfp_t)((((1UL))) << (6))), "__GFP_IO"}, …)
type Macro struct {
	Value int64
	Event string // the first tracepoint that has it: "kmem:kmalloc"
}

// A macroText is a value as a format writes it.
type macroText struct {
	name, text  string
	event, file string
}

// macroTexts are the texts by name, each once, in the order of events.
type macroTexts map[string][]macroText

// macroValues are the macros by name that were asked for, and where they are from.
type macroValues struct {
	sync.Mutex
	known map[string][]Macro
	files []string
}

// Macros returns the values that print formats have for a name. It reads the formats of
// all tracepoints when it is first called; the error says why they cannot be read.
// evaluate computes a C expression; it is called once for each, and what it does not
// understand does not count.
func (v *View) Macros(name string, evaluate func(text string) (int64, bool)) ([]Macro, error) {
	if !macroName.MatchString(name) {
		return nil, nil
	}
	texts, err := v.macros()
	m := &v.macroValues
	m.Lock()
	defer m.Unlock()
	if found, ok := m.known[name]; ok {
		return found, err
	}
	var found []Macro
	for _, t := range texts[name] {
		value, ok := evaluate(t.text)
		if !ok || slices.ContainsFunc(found, func(o Macro) bool { return o.Value == value }) {
			continue
		}
		found = append(found, Macro{value, t.event})
		if !slices.Contains(m.files, t.file) {
			m.files = append(m.files, t.file)
		}
	}
	if m.known == nil {
		m.known = make(map[string][]Macro)
	}
	m.known[name] = found
	return found, err
}

// MacroNames returns the names of all macros in print formats, sorted.
func (v *View) MacroNames() []string {
	texts, _ := v.macros()
	return slices.Sorted(maps.Keys(texts))
}

// MacroFiles returns the files, relative to the root, that what Macros has returned
// so far is from: with these alone it returns the same.
func (v *View) MacroFiles() []string {
	v.macroValues.Lock()
	defer v.macroValues.Unlock()
	return slices.Clone(v.macroValues.files)
}

func (v *View) readMacros() (macroTexts, error) {
	if v.root == nil {
		return nil, errNoKernel
	}
	var first error
	for _, mount := range []string{tracefs, tracefsOld} {
		dir := path.Join(mount, eventsDir)
		systems, err := fs.ReadDir(v.root, dir)
		if err == nil {
			return v.macrosIn(dir, systems), nil
		}
		if first == nil {
			first = access(dir, "the print formats of tracepoints", mountTracefs, err)
		}
	}
	return nil, first
}

// macrosIn reads the formats below a folder of events. One that cannot be read is
// that of a module that was unloaded meanwhile.
func (v *View) macrosIn(dir string, systems []fs.DirEntry) macroTexts {
	table := make(macroTexts)
	for _, s := range systems {
		events, err := fs.ReadDir(v.root, path.Join(dir, s.Name()))
		if err != nil {
			continue
		}
		for _, e := range events {
			if !e.IsDir() {
				continue
			}
			file := path.Join(dir, s.Name(), e.Name(), "format")
			data, err := fs.ReadFile(v.root, file)
			if err != nil {
				continue
			}
			table.add(string(data), s.Name()+":"+e.Name(), file)
		}
	}
	return table
}

// add adds the tables of one format.
func (t macroTexts) add(format, event, file string) {
	_, rest, ok := strings.Cut(format, "\nprint fmt:")
	for ok {
		if _, rest, ok = strings.Cut(rest, "__print_"); !ok {
			return
		}
		function := slices.IndexFunc(printFunctions[:], func(f string) bool { return strings.HasPrefix(rest, f) })
		if function < 0 {
			continue
		}
		args := rest[len(printFunctions[function]):]
		var table []macroText
		table, rest = parseTable(args)
		for _, m := range table {
			if len(t[m.name]) < maxTexts && !slices.ContainsFunc(t[m.name], func(o macroText) bool { return o.text == m.text }) {
				m.event, m.file = event, file
				t[m.name] = append(t[m.name], m)
			}
		}
	}
}

// printFunctions are what takes a table, without the "__print_" before them.
var printFunctions = [...]string{"flags(", "flags_u64(", "symbolic(", "symbolic_u64("}

// maxTexts is how many ways to write one value are looked at: kernels have one or two.
const maxTexts = 16

// macroName is what macros are called. Their first word, up to an underscore, says
// what they belong to.
var macroName = regexp.MustCompile(`^_*([A-Z][A-Z0-9]*_)[A-Z0-9_]+$`)

// parseTable reads the table among the arguments of a call, and returns what
// follows:
//
//	REC->flags, "|", {0x0001u, "RECLAIM_WB_ANON"}, {0x0010u, "RECLAIM_WB_MIXED"} )
//
// Most tables have words for people ("TIMER", "dirty LRU page"), or what is left of a
// name without what all have in common: "TO_DEVICE" of DMA_TO_DEVICE. These could
// be names of something else. So a table counts only if all of its names begin with
// the same word.
func parseTable(args string) (table []macroText, rest string) {
	prefix := ""
	for rest = args; ; {
		open := outside(rest, "{)")
		if open < 0 {
			return nil, ""
		}
		end := rest[open] == ')'
		if rest = rest[open+1:]; end {
			break
		}
		text, quoted, valued := cutOutside(rest, ',')
		var closed bool
		quoted, rest, closed = cutOutside(quoted, '}')
		if !valued || !closed {
			return nil, ""
		}
		name, isString := strings.CutPrefix(strings.TrimSpace(quoted), `"`)
		if !isString {
			continue // the end of some tables: { 0, ((void *)0) }
		}
		table = append(table, macroText{name: strings.TrimSuffix(name, `"`), text: strings.TrimSpace(text)})
	}
	for _, m := range table {
		parts := macroName.FindStringSubmatch(m.name)
		if parts == nil || prefix != "" && parts[1] != prefix {
			return nil, rest
		}
		prefix = parts[1]
	}
	return table, rest
}

// cutOutside cuts at the first character c that is outside of strings and parentheses.
func cutOutside(s string, c byte) (before, after string, found bool) {
	i := outside(s, string(c))
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// outside returns where the first of some characters is that is in no string and
// no parentheses, or -1.
func outside(s, chars string) int {
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case depth == 0 && strings.IndexByte(chars, c) >= 0:
			return i
		case c == '(':
			depth++
		case c == ')':
			depth--
		}
	}
	return -1
}
