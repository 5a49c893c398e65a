// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// A View is one kernel as files describe it. It reads each file on first use and keeps the
// result; symbols only until Renew. A View is safe for concurrent use.
type View struct {
	root    fs.FS // nil if only BTF is known
	arch    string
	given   bool // vmlinux's types come from a file
	vmlinux func() (*typeInfo, error)
	modules func() ([]string, error) // names of modules with BTF, sorted

	table       atomic.Pointer[symbolSource] // see symbols
	before      atomic.Pointer[symbolSource] // nil, or what table was before Renew; see functions
	pinned      atomic.Bool                  // do not read the table again
	scanned     atomic.Bool                  // see symbolsNamed
	search      SymbolSearch
	traceable   func() (*traceableSet, error)
	blacklisted func() (functionSet, error)
	config      func() config
	features    func() map[string]bool     // functions of vmlinux that tell what was built in
	macros      func() (macroTexts, error) // from print formats
	cache       *btf.Cache                 // has vmlinux's types decoded; nil if the View decodes them
	programs    func() (*programList, error)

	mu        sync.Mutex
	module    map[string]func() (*typeInfo, error)
	userFiles int // how many were added

	macroValues macroValues
	sought      soughtNames
	ranges      atomic.Pointer[symbolRanges] // in place of table; nil if there are none

	generation atomic.Uint64
	opened     time.Time
	looked     atomic.Int64 // how long after that it was looked last which modules there are
}

// btfDir is where the kernel exports its types.
const btfDir = "sys/kernel/btf"

// vmlinuxFile is where the kernel exports the types of vmlinux.
const vmlinuxFile = btfDir + "/vmlinux"

// noTypes is the advice for a kernel that exports no types.
const noTypes = "use a kernel built with CONFIG_DEBUG_INFO_BTF, or give --btf FILE with the types of this very kernel"

// Root returns the files that the view reads, or nil if it only has BTF.
func (v *View) Root() fs.FS { return v.root }

// Open returns a view of the kernel whose /proc and /sys are below root: os.DirFS("/") for
// the running kernel. It reads nothing yet.
func Open(root fs.FS) *View {
	v := &View{root: root, module: make(map[string]func() (*typeInfo, error)), opened: time.Now()}
	v.vmlinux = sync.OnceValues(func() (*typeInfo, error) {
		data, err := fs.ReadFile(root, vmlinuxFile)
		if err != nil {
			return nil, access(vmlinuxFile, "", noTypes, err)
		}
		info, err := v.readTypes("", data, nil)
		if err == nil && v.cache != nil {
			info.spec = v.cache.Kernel
		}
		return info, err
	})
	v.modules = sync.OnceValues(v.listModules)
	v.setSymbols(v.readSymbols)
	v.traceable = sync.OnceValues(v.readTraceable)
	v.blacklisted = sync.OnceValues(v.readBlacklist)
	v.config = sync.OnceValue(v.readConfig)
	v.features = sync.OnceValue(v.findFeatures)
	v.macros = sync.OnceValues(v.readMacros)
	v.programs = sync.OnceValues(v.readPrograms)
	return v
}

// OpenRunning returns a view of the running kernel. It shares its decoded types with
// TypeCache, since decoding them takes as long as loading the BPF engine.
func OpenRunning() *View {
	v := Open(programRoot{os.DirFS("/")})
	v.cache = btf.NewCache()
	return v
}

// TypeCache returns the decoded types of the running kernel, for loading BPF programs.
func (v *View) TypeCache() *btf.Cache {
	if v.cache == nil {
		return btf.NewCache()
	}
	return v.cache
}

// OpenBTF returns a view of a kernel of which only one file with BTF is known: a vmlinux or
// module in ELF, or a raw blob. base is the vmlinux that a module's types refer to, and may
// be nil otherwise. The view has no symbols.
func OpenBTF(file, base io.ReaderAt, module string) (*View, error) {
	data, arch, err := readBTF(file)
	if err != nil {
		return nil, err
	}
	v := &View{arch: arch, module: make(map[string]func() (*typeInfo, error))}
	v.modules = func() ([]string, error) { return nil, nil }
	v.setSymbols(func() (*symbolTable, error) { return nil, errNoKernel })
	v.traceable = func() (*traceableSet, error) { return nil, errNoKernel }
	v.blacklisted = func() (functionSet, error) { return nil, errNoKernel }
	v.config = func() config { return config{err: errNoKernel} }
	v.features = sync.OnceValue(v.findFeatures)
	v.macros = v.readMacros
	v.programs = v.readPrograms
	if !isSplit(data) {
		info, err := foreignTypes("", data, nil)
		v.vmlinux = func() (*typeInfo, error) { return info, err }
		return v, err
	}
	if base == nil {
		return nil, errors.New("reading BTF: these are the types of a module, which need those of its vmlinux")
	}
	data2, _, err := readBTF(base)
	if err != nil {
		return nil, fmt.Errorf("base of the module: %w", err)
	}
	vmlinux, err := foreignTypes("", data2, nil)
	if err != nil {
		return nil, fmt.Errorf("base of the module: %w", err)
	}
	info, err := foreignTypes(module, data, vmlinux)
	if err != nil {
		return nil, err
	}
	v.vmlinux = func() (*typeInfo, error) { return vmlinux, nil }
	v.modules = func() ([]string, error) { return []string{module}, nil }
	v.module[module] = func() (*typeInfo, error) { return info, nil }
	return v, nil
}

// A typeInfo is one BTF blob. It is decoded when a type is first needed.
type typeInfo struct {
	name string // of the module; "" for vmlinux
	raw  *rawBTF
	spec func() (*btf.Spec, error)
	// flavoured has the IDs of types with "___" in their names.
	flavoured func() map[string][]uint32
	// functions has the names of all functions, typed those of all types. Making these sets
	// takes as long as several look-ups.
	functions, typed         func() map[string]struct{}
	soughtFuncs, soughtTypes atomic.Int32
	described                sync.Map // []*btf.Func by name; see funcs

	// decode serialises decoding. Modules share the lock of vmlinux, because cilium/ebpf
	// 0.22 decodes types of a base spec without its lock.
	decode *sync.Mutex
}

// mostForeign bounds the types of a blob that may be made to do harm, and so the memory that they take. Linux 7.3 has 121,000
// types in Debian's cloud kernel. Those of a running kernel are not counted, and what was recorded of it is to be read: so there is
// much room.
const mostForeign = 500_000

// readTypes is newTypeInfo for a blob of the kernel.
func (v *View) readTypes(name string, data []byte, base *typeInfo) (*typeInfo, error) {
	if v.cache != nil { // it runs
		return newTypeInfo(name, data, base)
	}
	return foreignTypes(name, data, base)
}

// foreignTypes is newTypeInfo for a blob that is not of the running kernel.
func foreignTypes(name string, data []byte, base *typeInfo) (*typeInfo, error) {
	info, err := newTypeInfo(name, data, base)
	if err != nil {
		return nil, err
	}
	if info.raw.count > mostForeign {
		return nil, fmt.Errorf("reading BTF: it has %d types, and at most %d are read", info.raw.count, mostForeign)
	}
	types := make([]rawType, 0, info.raw.count)
	for t := range info.raw.all() {
		types = append(types, t)
	}
	return info, cmp.Or(info.raw.checkNesting(types), info.raw.checkCalls(types))
}

// newTypeInfo checks the headers of a blob. Decoding waits until a type is needed.
func newTypeInfo(name string, data []byte, base *typeInfo) (*typeInfo, error) {
	var rawBase *rawBTF
	decode := new(sync.Mutex)
	if base != nil {
		rawBase, decode = base.raw, base.decode
	}
	raw, err := parseBTF(data, rawBase)
	if err != nil {
		return nil, err
	}
	info := &typeInfo{name: name, raw: raw, decode: decode}
	info.flavoured = sync.OnceValue(func() map[string][]uint32 { return raw.containing(flavour) })
	info.functions = sync.OnceValue(func() map[string]struct{} { return raw.names(funcKind) })
	info.typed = sync.OnceValue(func() map[string]struct{} { return raw.names(^funcKind) })
	info.spec = sync.OnceValues(func() (*btf.Spec, error) {
		var baseSpec *btf.Spec
		if base != nil {
			var err error
			if baseSpec, err = base.spec(); err != nil {
				return nil, err
			}
		}
		return btf.LoadSplitSpecFromReader(bytes.NewReader(data), baseSpec)
	})
	return info, nil
}

// BTF returns the types of vmlinux.
func (v *View) BTF() (*btf.Spec, error) {
	info, err := v.vmlinux()
	if err != nil {
		return nil, err
	}
	return info.spec()
}

// Modules returns the names of the modules that have BTF, sorted.
func (v *View) Modules() ([]string, error) { return v.modules() }

// flavour starts a CO-RE flavour in cilium/ebpf, which leaves it out of its index of names.
// It indexes ___slab_alloc as "", where it never looks, and ____fput as "_", among
// functions with other names.
const flavour = "___"

// byName decodes the types called name.
func (i *typeInfo) byName(name string) (types []btf.Type, err error) {
	if strings.Contains(name, flavour) {
		for _, id := range i.flavoured()[name] {
			t, err := i.byID(id)
			if err != nil {
				return nil, err
			}
			types = append(types, t)
		}
		return types, nil
	}
	spec, err := i.spec()
	if err != nil {
		return nil, err
	}
	i.decode.Lock()
	defer i.decode.Unlock()
	types, err = spec.AnyTypesByName(name)
	if errors.Is(err, btf.ErrNotFound) {
		return nil, nil
	}
	return slices.DeleteFunc(types, func(t btf.Type) bool { return t.TypeName() != name }), err // flavours of name
}

// byID decodes one type.
func (i *typeInfo) byID(id uint32) (btf.Type, error) {
	spec, err := i.spec()
	if err != nil {
		return nil, err
	}
	i.decode.Lock()
	defer i.decode.Unlock()
	return spec.TypeByID(btf.TypeID(id))
}

// ModuleBTF returns the types that a module adds to those of vmlinux. Unlike the View,
// specs of modules and vmlinux are not safe for concurrent use with each other.
func (v *View) ModuleBTF(module string) (*btf.Spec, error) {
	info, err := v.moduleInfo(module)
	if err != nil {
		return nil, err
	}
	return info.spec()
}

// moduleInfo reads a module's BTF once. "" is vmlinux.
func (v *View) moduleInfo(name string) (*typeInfo, error) {
	if name == "" {
		return v.vmlinux()
	}
	v.mu.Lock()
	read := v.module[name]
	if read == nil {
		read = sync.OnceValues(func() (*typeInfo, error) { return v.readModule(name) })
		v.module[name] = read
	}
	v.mu.Unlock()
	return read()
}

// readModule reads the BTF of a module, which extends that of vmlinux, or of what stands alone.
func (v *View) readModule(name string) (*typeInfo, error) {
	if v.root == nil {
		return nil, errNoKernel
	}
	base, err := v.vmlinux()
	if err != nil {
		return nil, err
	}
	file := path.Join(btfDir, name)
	if !fs.ValidPath(file) || strings.Contains(name, "/") {
		return nil, fmt.Errorf("module %q: %w", name, errNotFound)
	}
	data, err := fs.ReadFile(v.root, file)
	if err != nil {
		return nil, access(file, "the types of module "+name, "the module must be loaded and have been built with BTF", err)
	}
	if standsAlone(name) {
		base = nil
	}
	info, err := v.readTypes(name, data, base)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", name, err)
	}
	return info, nil
}

func (v *View) listModules() ([]string, error) {
	entries, err := fs.ReadDir(v.root, btfDir)
	if err != nil {
		return nil, access(btfDir, "", noTypes, err)
	}
	var names []string
	for _, e := range entries { // fs.ReadDir sorts them
		if !standsAlone(e.Name()) && e.Name() != "vmlinux" {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// infos returns the BTF of vmlinux and of the modules whose names match a glob, vmlinux
// first. "" matches all. A module that was unloaded meanwhile, or whose BTF is damaged, is
// left out: it must not hide the others.
func (v *View) infos(pattern string) ([]*typeInfo, error) {
	vmlinux, err := v.vmlinux()
	if err != nil {
		return nil, err
	}
	var infos []*typeInfo
	if pattern == "" {
		infos = append(infos, vmlinux)
	}
	names, err := v.modules()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if pattern != "" && !glob.Match(pattern, name) {
			continue
		}
		if info, err := v.moduleInfo(name); err == nil {
			infos = append(infos, info)
		}
	}
	return infos, nil
}
