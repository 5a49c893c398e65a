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
	// refused are matching functions that the kernel does not let anyone trace.
	refused []string
	// unloaded is a module that is not loaded: the one in the selector, or one known to
	// have such a function.
	unloaded string
	// installed says that unloaded could be loaded.
	installed bool
	// loaded is the module in the selector, if it is loaded but lacks the function.
	loaded string
	// elsewhere is the function, if it is in another module than the selector says.
	elsewhere string
	// builtIn is the module in the selector, if it is part of vmlinux.
	builtIn string
	// nearest are similar names, the nearest first.
	nearest []string
}

// RefusedBecause says what prevents tracing a function.
const RefusedBecause = "notrace, for boot only, or a part of the probes themselves"

// modulesDir has a directory of module lists for each kernel release.
const modulesDir = "lib/modules"

// Missing finds out why a name or glob matches nothing to trace, in the modules that match
// a glob; "" means all.
func (v *View) Missing(pattern, module string) Missing {
	m := Missing{refused: v.Refused(func(name, mod string) bool {
		return glob.Match(pattern, name) && (module == "" || mod != "" && glob.Match(module, mod))
	})}
	if module != "" && !glob.Is(module) && v.root != nil {
		v.moduleState(&m, module)
	}
	if module != "" && !glob.Is(pattern) && m.builtIn == "" {
		if found, err := v.exact(pattern, ""); err == nil && len(found) > 0 {
			m.elsewhere = found[0].String()
			return m
		}
	}
	if v.root == nil {
		m.nearest = v.Nearest(pattern, 3)
		return m
	}
	if len(m.refused) == 0 && m.builtIn == "" && m.unloaded == "" && m.loaded == "" {
		m.unloaded = v.exporter(pattern)
		m.installed = m.unloaded != ""
	}
	if m.unloaded == "" && len(m.refused) == 0 && !glob.Is(pattern) {
		m.nearest = v.Nearest(pattern, 3)
	}
	return m
}

// Hint returns a sentence for the user.
func (m Missing) Hint() string {
	switch {
	case m.elsewhere != "" && !strings.HasSuffix(m.elsewhere, "]"):
		return strconv.Quote(m.elsewhere) + " is in vmlinux: leave out the brackets"
	case m.elsewhere != "":
		return suggest.DidYouMean(m.elsewhere)
	case m.builtIn != "":
		return m.builtIn + " is built into this kernel: leave out [" + m.builtIn + "]"
	case len(m.refused) > 0:
		const why = " (" + RefusedBecause + ")"
		first := strconv.Quote(m.refused[0])
		if n := len(m.refused) - 1; n > 0 {
			return first + " and " + strconv.Itoa(n) + " more are there, but the kernel lets nobody trace them" + why
		}
		return first + " is there, but the kernel lets nobody trace it" + why
	case m.installed:
		return "the module " + m.unloaded + " is not loaded: modprobe " + m.unloaded
	case m.unloaded != "":
		return "no module " + m.unloaded + " is loaded"
	case len(m.nearest) > 0:
		return suggest.DidYouMean(m.nearest...)
	case m.loaded != "":
		return "the module " + m.loaded + " is loaded, and has no function of that name"
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
		m.builtIn = module
		return
	}
	if _, err := fs.Stat(v.root, "sys/module"); err != nil {
		return // nothing is known about modules
	}
	if _, err := fs.Stat(v.root, path.Join("sys/module", moduleName(module))); err == nil {
		m.loaded = moduleName(module)
		return
	}
	m.unloaded = moduleName(module)
	m.installed = slices.ContainsFunc(v.moduleList("modules.dep"), is)
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
