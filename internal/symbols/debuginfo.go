// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/regular"
)

// A DebugInfo is the debug info of a kernel and its modules, at the addresses at which
// their code runs. It is not safe for concurrent use.
type DebugInfo struct {
	root    string
	kernel  find.Kernel
	moved   bool // addresses are run-time addresses
	vmlinux *debuginfo.Info
	modules map[string]*debuginfo.Info // nil for a module without debug info
	texts   map[string]uint64          // where the code of these modules was when they were opened
	sources map[string]func(kernel.Function) bool
	errs    []error // of modules whose debug info cannot be read
}

var _ Source = (*DebugInfo)(nil)

// OpenDebugInfo opens the debug info of view's kernel, whose /proc and /sys are below root.
// It looks for the file below root, unless file names it. If this kernel has none, the
// error is a *find.AbsentError or a *find.Refusal. Without a view, addresses are those in
// the files: where the kernel is loaded takes root and all of kallsyms to find out.
func OpenDebugInfo(root string, view *kernel.View, file string) (*DebugInfo, error) {
	running, err := find.Running(os.DirFS(root))
	if err != nil {
		return nil, err
	}
	running.Caches = find.CacheFolders(os.Getenv)
	if file == "" {
		found, err := find.Find(os.DirFS(root), running)
		if err != nil {
			return nil, err
		}
		file = filepath.Join(root, found)
	} else if err := checkFile(file, running.BuildID); err != nil {
		return nil, err
	}
	info, err := debuginfo.Open(file, debuginfo.Options{Relative: true})
	if err != nil {
		return nil, err
	}
	d := &DebugInfo{root: root, kernel: running, vmlinux: info,
		modules: map[string]*debuginfo.Info{}, texts: map[string]uint64{}, sources: map[string]func(kernel.Function) bool{}}
	if view != nil {
		if err := d.moveTo(view); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

// moveTo finds the addresses at which the code runs.
func (d *DebugInfo) moveTo(view *kernel.View) error {
	if err := view.Symbols(); err != nil {
		return fmt.Errorf("find out where the kernel was loaded: %w", err)
	}
	stext, ok := view.SymbolNamed("_stext", "")
	if !ok || !d.vmlinux.SlideTo(stext.Addr) {
		return errors.New("find out where the kernel was loaded: it has no symbol _stext")
	}
	d.moved = true
	return nil
}

func checkFile(file string, id find.BuildID) error {
	f, err := regular.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := find.Check(f, id); err != nil {
		var refusal *find.Refusal
		if errors.As(err, &refusal) {
			refusal.Path = strings.TrimPrefix(file, "/")
		}
		return err
	}
	return nil
}

// Vmlinux returns the debug info of vmlinux.
func (d *DebugInfo) Vmlinux() *debuginfo.Info { return d.vmlinux }

// Lookup implements Source.
func (d *DebugInfo) Lookup(dst []debuginfo.Frame, addr uint64, module string) []debuginfo.Frame {
	info := d.of(module)
	if info == nil {
		return dst
	}
	return info.Lookup(dst, addr)
}

// module returns the debug info of a loaded module, or nil.
func (d *DebugInfo) module(name string) *debuginfo.Info {
	info, ok := d.modules[name]
	if !ok {
		info = d.openModule(name)
		d.modules[name], d.texts[name] = info, d.textOf(name)
	}
	return info
}

// Renew forgets the debug info of modules that are no longer where they were.
func (d *DebugInfo) Renew() {
	if !d.moved {
		return
	}
	for name, info := range d.modules {
		if d.textOf(name) == d.texts[name] {
			continue
		}
		if info != nil {
			if err := errors.Join(info.Err(), info.Close()); err != nil {
				d.errs = append(d.errs, fmt.Errorf("module %s: %w", name, err))
			}
		}
		delete(d.modules, name)
	}
	clear(d.sources)
}

// textOf returns where the code of a loaded module is; 0 if that is not known.
func (d *DebugInfo) textOf(module string) uint64 {
	addr, _ := placed(os.DirFS(d.root), module)(".text")
	return addr
}

// Err returns why existing debug info could not be read, or not to its end. What it would
// have told is missing from the output.
func (d *DebugInfo) Err() error {
	errs := append([]error{d.vmlinux.Err()}, d.errs...)
	for _, name := range slices.Sorted(maps.Keys(d.modules)) {
		if info := d.modules[name]; info != nil {
			errs = append(errs, info.Err())
		}
	}
	return errors.Join(errs...)
}

// Missing returns which files are missing that debug info refers to.
func (d *DebugInfo) Missing() error {
	errs := []error{d.vmlinux.Missing()}
	for _, name := range slices.Sorted(maps.Keys(d.modules)) {
		if info := d.modules[name]; info != nil {
			errs = append(errs, info.Missing())
		}
	}
	return errors.Join(errs...)
}

// openModule looks for a module's debug info. Its absence is not an error: modules come
// from many places, and the kernel's own rarely have debug info installed.
func (d *DebugInfo) openModule(name string) *debuginfo.Info {
	root := os.DirFS(d.root)
	file, err := find.Module(root, d.kernel, name)
	if err != nil {
		return nil
	}
	options := debuginfo.Options{Relative: true, Lazy: true, Apart: !d.moved}
	if d.moved {
		options.Section = placed(root, name)
	}
	info, err := debuginfo.Open(filepath.Join(d.root, file), options)
	if err != nil {
		d.errs = append(d.errs, fmt.Errorf("module %s: %w", name, err))
		return nil
	}
	return info
}

// placed returns a function that tells where the sections of a loaded module are.
func placed(root fs.FS, module string) func(section string) (uint64, bool) {
	return func(section string) (uint64, bool) {
		text, err := fs.ReadFile(root, "sys/module/"+module+"/sections/"+section)
		if err != nil {
			return 0, false
		}
		addr, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 64)
		return addr, err == nil && addr != 0
	}
}

// Sources returns a test of whether a function is defined in a source file whose path
// matches a glob. The test goes by addresses, so it distinguishes functions of the same
// name.
func (d *DebugInfo) Sources(glob string) func(kernel.Function) bool {
	if known, ok := d.sources[glob]; ok {
		return known
	}
	codes := map[string]*debuginfo.Code{"": d.vmlinux.Sources(glob)}
	d.sources[glob] = func(f kernel.Function) bool {
		code, ok := codes[f.Module]
		if !ok {
			if info := d.of(f.Module); info != nil {
				code = info.Sources(glob)
			}
			codes[f.Module] = code
		}
		return code != nil && code.Contains(f.Addr) && debuginfo.Callable(f.Name)
	}
	return d.sources[glob]
}

// Close releases the files. Results of look-ups stay valid.
func (d *DebugInfo) Close() error {
	errs := []error{d.vmlinux.Close()}
	for _, m := range d.modules {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}
