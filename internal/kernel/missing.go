// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bufio"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/suggest"
)

// A Missing says why nothing can be traced under a name or glob. Fields that do not apply
// are empty.
type Missing struct {
	// Refused are matching functions that the kernel does not let anyone trace.
	Refused []string
	// Unloaded is a module that is not loaded: the one in the selector, or one known to
	// have such a function.
	Unloaded string
	// Installed says that Unloaded could be loaded.
	Installed bool
	// Loaded is the module in the selector, if it is loaded but lacks the function.
	Loaded string
	// Elsewhere is the function, if it is in another module than the selector says.
	Elsewhere string
	// BuiltIn is the module in the selector, if it is part of vmlinux.
	BuiltIn string
	// Nearest are similar names, the nearest first.
	Nearest []string
}

// RefusedBecause says what prevents tracing a function.
const RefusedBecause = "notrace, for boot only, or a part of the probes themselves"

// modulesDir has a directory of module lists for each kernel release.
const modulesDir = "lib/modules"

// Missing finds out why a name or glob matches nothing to trace, in the modules that match
// a glob; "" means all.
func (v *View) Missing(pattern, module string) Missing {
	m := Missing{Refused: v.Refused(func(name, mod string) bool {
		return glob.Match(pattern, name) && (module == "" || mod != "" && glob.Match(module, mod))
	})}
	if module != "" && !glob.Is(module) && v.root != nil {
		v.moduleState(&m, module)
	}
	if module != "" && !glob.Is(pattern) && m.BuiltIn == "" {
		if found, err := v.exact(pattern, ""); err == nil && len(found) > 0 {
			m.Elsewhere = found[0].String()
			return m
		}
	}
	if v.root == nil {
		m.Nearest = v.Nearest(pattern, 3)
		return m
	}
	if len(m.Refused) == 0 && m.BuiltIn == "" && m.Unloaded == "" && m.Loaded == "" {
		m.Unloaded = v.exporter(pattern)
		m.Installed = m.Unloaded != ""
	}
	if m.Unloaded == "" && len(m.Refused) == 0 && !glob.Is(pattern) {
		m.Nearest = v.Nearest(pattern, 3)
	}
	return m
}

// Hint returns a sentence for the user.
func (m Missing) Hint() string {
	switch {
	case m.Elsewhere != "" && !strings.HasSuffix(m.Elsewhere, "]"):
		return strconv.Quote(m.Elsewhere) + " is in vmlinux: leave out the brackets"
	case m.Elsewhere != "":
		return suggest.DidYouMean(m.Elsewhere)
	case m.BuiltIn != "":
		return m.BuiltIn + " is built into this kernel: leave out [" + m.BuiltIn + "]"
	case len(m.Refused) > 0:
		const why = " (" + RefusedBecause + ")"
		first := strconv.Quote(m.Refused[0])
		if n := len(m.Refused) - 1; n > 0 {
			return first + " and " + strconv.Itoa(n) + " more are there, but the kernel lets nobody trace them" + why
		}
		return first + " is there, but the kernel lets nobody trace it" + why
	case m.Installed:
		return "the module " + m.Unloaded + " is not loaded: modprobe " + m.Unloaded
	case m.Unloaded != "":
		return "no module " + m.Unloaded + " is loaded"
	case len(m.Nearest) > 0:
		return suggest.DidYouMean(m.Nearest...)
	case m.Loaded != "":
		return "the module " + m.Loaded + " is loaded, and has no function of that name"
	}
	return ""
}

// Refused returns matching functions, by name and module, that the kernel does not let
// anyone trace, as far as that is known.
func (v *View) Refused(matches func(name, module string) bool) []string {
	t, err := v.symbols()
	if err != nil {
		return nil
	}
	traceable, _ := v.traceable()
	if traceable == nil {
		return nil
	}
	var names []string
	for _, i := range t.code("") {
		f := t.function(i)
		if matches(f.Name, f.Module) && isFunction(f.Name, f.Module) &&
			!strings.HasPrefix(f.Name, "__SCT__") /* of static calls */ && !traceable.symbol(t, int(i)) {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return names
}

// moduleState finds out whether the module in a selector is loaded, part of vmlinux, or
// could be loaded.
func (v *View) moduleState(m *Missing, module string) {
	is := func(line string) bool {
		file, _, _ := strings.Cut(line, ":")
		return moduleName(file) == moduleName(module)
	}
	if slices.ContainsFunc(v.moduleList("modules.builtin"), is) {
		m.BuiltIn = module
		return
	}
	if _, err := fs.Stat(v.root, "sys/module"); err != nil {
		return // nothing is known about modules
	}
	if _, err := fs.Stat(v.root, path.Join("sys/module", moduleName(module))); err == nil {
		m.Loaded = moduleName(module)
		return
	}
	m.Unloaded = moduleName(module)
	m.Installed = slices.ContainsFunc(v.moduleList("modules.dep"), is)
}

// exporter returns the module that exports a function, if it is not loaded. Functions that
// no module exports cannot be found this way.
func (v *View) exporter(pattern string) string {
	for _, line := range v.moduleList("modules.symbols") {
		symbol, module, ok := strings.Cut(strings.TrimPrefix(line, "alias symbol:"), " ")
		if !ok || !glob.Match(pattern, symbol) {
			continue
		}
		if _, err := fs.Stat(v.root, path.Join("sys/module", moduleName(module))); err != nil {
			return moduleName(module)
		}
	}
	return ""
}

// moduleList returns the lines of a list of modules; none if there is no list, as in a
// container.
func (v *View) moduleList(name string) []string {
	release, err := fs.ReadFile(v.root, "proc/sys/kernel/osrelease")
	if err != nil {
		return nil
	}
	f, err := v.root.Open(path.Join(modulesDir, strings.TrimSpace(string(release)), name))
	if err != nil {
		return nil
	}
	defer f.Close()
	var lines []string
	in := bufio.NewScanner(f)
	for in.Scan() {
		if line := in.Text(); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}

// moduleName returns the kernel's spelling of a module's name, from its file or its name.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".")
	return strings.ReplaceAll(name, "-", "_")
}
