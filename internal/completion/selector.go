// SPDX-License-Identifier: Apache-2.0

package completion

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plural"
)

// selectors returns the candidates for a selector that has been typed up to the cursor.
func (e *Engine) selectors(text string) []Candidate {
	if e.Recorded != nil {
		return e.recordedSelectors(text)
	}
	if path, ok := strings.CutPrefix(text, ":"); ok {
		return e.paths(path)
	}
	kind, rest, colon := strings.Cut(text, ":")
	if colon {
		return e.ofKind(kind, rest)
	}
	if name, module, ok := strings.Cut(text, "["); ok {
		return e.modules(name, module)
	}
	if glob.Is(text) {
		return e.items(e.matching(text, ""), "functions")
	}
	var found []Candidate
	for _, k := range [...]string{"syscall:", "tp:", "rawtp:", "kprobe:", "bpf:", "uprobe:", "uretprobe:", "usdt:", ":"} {
		if rest, ok := strings.CutPrefix(k, text); ok && (text != "" || k != ":") {
			found = append(found, Candidate{rest, k, about[k]})
		}
	}
	if text == "" { // tens of thousands of functions
		return append(found, Candidate{":", ":", about[":"]})
	}
	return append(found, e.functionNames(text, "")...)
}

// functionNames returns the functions whose names begin with a text. One that is whole goes on with
// its items.
func (e *Engine) functionNames(text, before string) []Candidate {
	functions := map[string]kernel.NamedFunction{}
	var names []string
	for f := range e.View.FunctionsNamed(text, "") {
		if _, known := functions[f.Name]; !known && identifier(f.Name) {
			functions[f.Name] = f
			names = append(names, f.Name)
		}
	}
	if len(names) == 1 && names[0] == text {
		return e.items(1, "")
	}
	found := grouped(names, text, "_", "functions", func(name string) (description string) {
		f := functions[name]
		if t := e.outline(f.Module).Function(f); t != nil {
			description = signatureOf(t)
		}
		if f.Module != "" {
			description += " [" + f.Module + "]"
		}
		return description
	})
	return prefixed(found, before)
}

// prefixed shows names as they look behind other text.
func prefixed(found []Candidate, before string) []Candidate {
	for i := range found {
		found[i].Name = before + found[i].Name
	}
	return found
}

// items says that a selector can be followed by items.
func (e *Engine) items(n int, what string) []Candidate {
	if n == 0 || e.SelectorOnly {
		return nil
	}
	description := "values and predicates"
	if what != "" {
		description = fmt.Sprintf("%d %s: values and predicates", n, what)
	}
	return []Candidate{{"(", "(", description}}
}

// matching counts the functions that a glob matches.
func (e *Engine) matching(pattern, module string) (n int) {
	for f := range e.View.FunctionsNamed(glob.Prefix(pattern), module) {
		if glob.Match(pattern, f.Name) {
			n++
		}
	}
	return n
}

// modules returns the modules that a function's name can have in brackets.
func (e *Engine) modules(function, module string) (found []Candidate) {
	if module, ok := strings.CutSuffix(module, "]"); ok {
		return e.items(e.matching(function, module), "functions")
	}
	names, _ := e.View.Modules()
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, module); ok && identifier(name) {
			found = append(found, Candidate{rest + "]", name + "]", "a module"})
		}
	}
	return found
}

// ofKind returns the targets other than functions.
func (e *Engine) ofKind(kind, text string) []Candidate {
	var names []string
	what := ""
	switch kind {
	case "syscall":
		names, what = e.View.SyscallsCalled(glob.Prefix(text), e.Arch), "system calls"
	case "rawtp":
		what = "tracepoints"
		for name := range e.View.RawTracepointsNamed(glob.Prefix(text)) {
			names = append(names, name)
		}
	case "tp":
		return e.tracepoints(text)
	case "bpf":
		functions, _, _ := e.View.Programs()
		for _, f := range functions {
			names = append(names, f.Name)
		}
		slices.Sort(names)
		names, what = slices.DeleteFunc(slices.Compact(names), func(name string) bool { return !strings.HasPrefix(name, glob.Prefix(text)) }), "functions of BPF programs"
	case "uprobe", "uretprobe":
		return e.userFunctions(text, kind+":")
	case "usdt":
		return e.staticProbes(text)
	case "kprobe":
		if strings.Contains(text, "+") || glob.Is(text) {
			return nil
		}
		return e.functionNames(text, kind+":")
	}
	if glob.Is(text) {
		names = slices.DeleteFunc(names, func(name string) bool { return !glob.Match(text, name) })
		return e.items(len(names), what)
	}
	if len(names) == 1 && names[0] == text {
		return e.items(1, "")
	}
	return prefixed(grouped(names, text, "_", what, func(string) string { return "" }), kind+":")
}

// tracepoints returns groups of tracepoints, or the tracepoints of a group.
func (e *Engine) tracepoints(text string) (found []Candidate) {
	group, name, ok := strings.Cut(text, ":")
	if !ok {
		groups, err := e.View.TracepointGroups(text)
		if err != nil { // root's to read; the group can be left out
			return e.ofKind("rawtp", text)
		}
		for _, g := range groups {
			if rest, ok := strings.CutPrefix(g, text); ok && identifier(g) {
				found = append(found, Candidate{rest + ":", "tp:" + g + ":", "a group of tracepoints"})
			}
		}
		return found
	}
	names := e.View.TracepointsOf(group, name)
	if len(names) == 1 && names[0] == name || glob.Is(name) {
		return e.items(len(names), "tracepoints")
	}
	return prefixed(grouped(names, name, "_", "tracepoints", func(string) string { return "" }), "tp:"+group+":")
}

// paths returns source files and folders.
func (e *Engine) paths(text string) []Candidate {
	if e.Files == nil {
		return nil
	}
	if glob.Is(text) {
		return e.items(1, "")
	}
	files := e.Files(text)
	if len(files) == 1 && files[0] == text {
		return e.items(1, "")
	}
	groups, count := groupsOf(files, text, "/")
	var found []Candidate
	for _, g := range groups {
		c := Candidate{Text: g[len(text):], Name: ":" + g}
		if strings.HasSuffix(g, "/") {
			c.About = plural.Of(count[g], "file{s}")
		}
		found = append(found, c)
	}
	return found
}

// recordedSelectors returns what a recording has.
func (e *Engine) recordedSelectors(text string) []Candidate {
	var names []string
	for _, p := range e.Recorded.Probes {
		if strings.HasPrefix(p.Name, text) {
			names = append(names, p.Name)
		}
	}
	if slices.Contains(names, text) && !slices.ContainsFunc(names, func(n string) bool { return n != text }) {
		return e.items(1, "")
	}
	return grouped(names, text, "_", "functions", func(string) string { return "recorded" })
}

// signature returns the types of a signature that has been typed up to the cursor, behind its colon.
func (e *Engine) signature(text string) []Candidate {
	current := strings.TrimLeft(text[strings.LastIndexByte(text, ',')+1:], " \t")
	if rest, ok := strings.CutPrefix(current, "return "); ok {
		current = strings.TrimLeft(rest, " \t")
	}
	var found []Candidate
	if rest, ok := strings.CutPrefix("return ", current); ok {
		found = append(found, Candidate{rest, "return", about["return"]})
	}
	found = append(found, e.spelling(current)...)
	if len(found) == 1 && found[0].Text == "" {
		return []Candidate{{" *", "*", "a pointer"}, {")", ")", about[")"]}}
	}
	return found
}

// CompleteType returns the candidates for the name of a type up to the cursor, such as "struct sk_b".
func (e *Engine) CompleteType(text string) []Candidate { return clean(e.spelling(text)) }

// spelling returns the candidates for a type's name.
func (e *Engine) spelling(text string) (found []Candidate) {
	kind, name, ok := strings.Cut(text, " ")
	switch {
	case ok && slices.Contains(kinds[:], kind):
		return e.typeNames(kind, strings.TrimLeft(name, " \t"), "")
	case ok:
		return nil
	}
	for _, kind := range kinds {
		if rest, ok := strings.CutPrefix(kind, text); ok {
			found = append(found, Candidate{rest + " ", kind, about[kind]})
		}
	}
	return append(found, e.typeNames("", text, "")...)
}

// typeNames returns the types that begin with a text.
func (e *Engine) typeNames(kind, text, module string) []Candidate {
	if text == "" {
		return nil // thousands
	}
	var names []string
	for name := range e.View.TypeNames(kind, text, module) {
		if identifier(name) && !strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	return grouped(names, text, "_", "types", func(string) string { return kind })
}
