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

// A Macro is a value that a tracepoint's print format gives for a name. BTF has no macros,
// but print formats have tables that turn numbers into names:
//
//	__print_flags(REC->gfp_flags, "|", {( unsigned long)(( gfp_t)((((1UL))) << (6))), "__GFP_IO"}, …)
type Macro struct {
	Value int64
	Event string // first tracepoint that has it: "kmem:kmalloc"
}

// A macroText is a value as the format spells it.
type macroText struct {
	name, text  string
	event, file string
}

// macroTexts maps names to distinct texts, in the order of events.
type macroTexts map[string][]macroText

// macroValues caches the macros that were asked for, and the files they come from.
type macroValues struct {
	sync.Mutex
	known map[string][]Macro
	files []string
}

// Macros returns the values that print formats give for a name. The first call reads the
// formats of all tracepoints; the error says why they cannot be read. evaluate computes a C
// expression. It is called once for each text, and texts that it rejects do not count.
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

// MacroNames returns all names in print formats, sorted.
func (v *View) MacroNames() []string {
	texts, _ := v.macros()
	return slices.Sorted(maps.Keys(texts))
}

// MacroFiles returns the files, relative to the root, on which the results of Macros so far
// depend. A view with only these files gives the same results.
func (v *View) MacroFiles() []string {
	v.macroValues.Lock()
	defer v.macroValues.Unlock()
	return slices.Clone(v.macroValues.files)
}

// readMacros reads the formats of all tracepoints, once.
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

// macrosIn reads the formats in a directory of events. A format that cannot be read
// belonged to a module that was unloaded meanwhile.
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

// printFunctions are the functions with a table, without their "__print_".
var printFunctions = [...]string{"flags(", "flags_u64(", "symbolic(", "symbolic_u64("}

// maxTexts bounds the spellings of one value. Kernels have one or two.
const maxTexts = 16

// macroName matches names of macros. The first word, up to an underscore, says what they
// belong to.
var macroName = regexp.MustCompile(`^_*([A-Z][A-Z0-9]*_)[A-Z0-9_]+$`)

// parseTable parses the table in the arguments of a call, and returns what follows:
//
//	REC->flags, "|", {0x0001u, "RECLAIM_WB_ANON"}, {0x0010u, "RECLAIM_WB_MIXED"} )
//
// Most tables hold words for people ("TIMER", "dirty LRU page") or shortened names:
// "TO_DEVICE" for DMA_TO_DEVICE. Such a word could be the name of something else, so a
// table only counts if all its names begin with the same word.
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

// cutOutside cuts s at the first c that is not inside a string or parentheses.
func cutOutside(s string, c byte) (before, after string, found bool) {
	i := outside(s, string(c))
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// outside returns the index of the first of some characters that is not inside a string or
// parentheses, or -1.
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
