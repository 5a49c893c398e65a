// SPDX-License-Identifier: Apache-2.0

package completion

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// mostFiles is how many files of one folder are looked at.
const mostFiles = 20_000

// userFunctions returns the files that the path of a program can go on with or, behind the
// program, its functions.
func (e *Engine) userFunctions(text, kind string) []Candidate {
	colon := strings.LastIndexByte(text, ':')
	if e.UserFile == nil || strings.Contains(text, "+") {
		return nil
	}
	if colon < 0 {
		return userFiles(text, kind)
	}
	name := text[colon+1:]
	file, err := e.UserFile(text[:colon])
	if err != nil {
		return nil
	}
	if glob.Is(name) {
		return e.items(len(file.Named(name)), "functions")
	}
	var names []string
	for n := range file.Names() {
		if strings.HasPrefix(n, name) {
			names = append(names, n)
		}
	}
	if names = slices.Compact(names); len(names) == 1 && names[0] == name {
		return e.items(1, "")
	}
	return prefixed(grouped(names, name, "_", "functions", func(string) string { return "" }), kind+text[:colon+1])
}

// userFiles returns the programs, libraries and folders whose paths begin with a text.
func userFiles(text, kind string) (found []Candidate) {
	dir, base := filepath.Split(text)
	if dir == "" {
		return nil // a name that is looked for in many folders
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(mostFiles) // of a folder that cannot be read, there are none
	slices.Sort(names)
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, base)
		if !ok || strings.ContainsAny(name, " ()") {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, name))
		switch {
		case err != nil:
		case info.IsDir():
			found = append(found, Candidate{rest + "/", kind + dir + name + "/", "a folder"})
		case info.Mode().IsRegular() && (info.Mode()&0o111 != 0 || strings.Contains(name, ".so")):
			found = append(found, Candidate{rest + ":", kind + dir + name + ":", ""})
		}
	}
	return found
}

// userFunction returns a function of a program as a target, or nil.
func (e *Engine) userFunction(sel expr.Selector) *target {
	if e.UserFile == nil {
		return nil
	}
	file, err := e.UserFile(sel.File)
	if err != nil {
		return nil
	}
	for _, fn := range file.Named(sel.Name) {
		return e.declared(kernel.Function{Name: fn.Name}, plan.Hook{Kind: sel.Kind, File: file.Path, Name: fn.Name, Offset: sel.Offset, Go: file.Go})
	}
	return nil
}

// staticProbes returns the files that a path can go on with or, behind the file, its USDT probes with
// their providers.
func (e *Engine) staticProbes(text string) []Candidate {
	file, name, ok := strings.Cut(text, ":")
	if e.UserFile == nil {
		return nil
	}
	if !ok {
		return userFiles(text, "usdt:")
	}
	opened, err := e.UserFile(file)
	if err != nil {
		return nil
	}
	marks, _ := opened.Marks() // of a file without, there are none
	var names []string
	for i := range marks {
		n := marks[i].Provider + ":" + marks[i].Name
		if strings.HasPrefix(n, glob.Prefix(name)) && (!glob.Is(name) || glob.Match(name, n)) {
			names = append(names, n)
		}
	}
	if names = slices.Compact(names); glob.Is(name) || len(names) == 1 && names[0] == name {
		return e.items(len(names), "")
	}
	return prefixed(grouped(names, name, "_", "probes", func(string) string { return "" }), "usdt:"+file+":")
}

// staticProbe returns a USDT probe as a target, or nil.
func (e *Engine) staticProbe(sel expr.Selector) *target {
	if e.UserFile == nil {
		return nil
	}
	file, err := e.UserFile(sel.File)
	if err != nil {
		return nil
	}
	marks, _ := file.Marks()
	for _, m := range marks {
		if glob.Match(sel.System, m.Provider) && glob.Match(sel.Name, m.Name) {
			return e.declared(kernel.Function{Name: m.Name}, plan.Hook{Kind: sel.Kind, File: file.Path, System: m.Provider, Name: m.Name, Args: m.Args})
		}
	}
	return nil
}
