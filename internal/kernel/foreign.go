// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
)

// OpenTyped returns the view of the kernel below root with vmlinux's types from
// a file, an ELF vmlinux or a raw blob, rather than its own: it may have been
// built without, or not show them. CheckTypes tells whether they are those of
// this kernel. What the kernel exports of modules' types goes unused: it counts
// on the types of its own vmlinux.
func OpenTyped(root fs.FS, file io.ReaderAt) (*View, error) {
	data, arch, err := readBTF(file)
	if err != nil {
		return nil, err
	}
	if isSplit(data) {
		return nil, errors.New("reading BTF: these are the types of a module; tracing takes those of vmlinux")
	}
	if _, err := newTypeInfo("", data, nil); err != nil {
		return nil, err
	}
	v := Open(typedRoot{root, data})
	v.given = true
	if own := v.Arch(); arch != "" && arch != own {
		return nil, fmt.Errorf("these are the types of a kernel for %s, and this one is for %s", arch, own)
	}
	return v, nil
}

// A typedRoot is the root of a kernel that exports other types than its own.
type typedRoot struct {
	fs.FS
	types []byte
}

// vmlinuxFile is where the kernel exports the types of vmlinux.
const vmlinuxFile = btfDir + "/vmlinux"

func (r typedRoot) ReadFile(name string) ([]byte, error) {
	if name == vmlinuxFile {
		return r.types, nil
	}
	if strings.HasPrefix(name, btfDir+"/") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return fs.ReadFile(r.FS, name)
}

func (r typedRoot) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == btfDir {
		return nil, nil // no modules'
	}
	return fs.ReadDir(r.FS, name)
}

// GivenTypes reports whether the types come from a file, so that their BTF ids
// mean nothing to the kernel.
func (v *View) GivenTypes() bool { return v.given }

// A ForeignTypesError says that types are not those of the kernel.
type ForeignTypesError struct {
	// Functions are those that the types describe, and Absent how many of them
	// the kernel does not have.
	Functions, Absent int
	// Variables are the per-CPU ones that the types place, and Moved how many of
	// them the kernel does not have, or not there.
	Variables, Moved int
	Examples         []string // of what is absent or has moved
}

func (e *ForeignTypesError) Error() string {
	if e.Functions == 0 {
		return "these types describe no functions: they are not those of a whole vmlinux"
	}
	text := fmt.Sprintf("these are the types of another kernel: of the %d functions that they describe this one lacks %d", e.Functions, e.Absent)
	if e.Variables > 0 {
		text += fmt.Sprintf(", of %d per-CPU variables %d are missing or elsewhere", e.Variables, e.Moved)
	}
	return text + ", such as " + strings.Join(e.Examples, ", ")
}

// foreignExamples is how many examples of what differs an error has.
const foreignExamples = 3

// CheckTypes compares vmlinux's types with the kernel's symbols. pahole takes
// the functions that it describes from the symbol table of the vmlinux at hand,
// and so one that is missing gives another build away. So does a per-CPU
// variable at another place: they move when one before them changes its size. The
// error is a *ForeignTypesError, unless the symbols cannot be read.
func (v *View) CheckTypes() error {
	info, err := v.vmlinux()
	if err != nil {
		return err
	}
	t, err := v.symbols()
	if err != nil {
		return fmt.Errorf("comparing the types with the kernel: %w", err)
	}
	e := &ForeignTypesError{}
	t.compareFunctions(info.raw, e)
	if !t.hidden() {
		t.compareVariables(info.raw, e)
	}
	if e.Absent+e.Moved == 0 && e.Functions > 0 {
		return nil
	}
	return e
}

// differs counts one more difference.
func (e *ForeignTypesError) differs(n *int, name string) {
	*n++
	if len(e.Examples) < foreignExamples {
		e.Examples = append(e.Examples, name)
	}
}

func (t *symbolTable) compareFunctions(raw *rawBTF, e *ForeignTypesError) {
	names := make(map[string]struct{}, len(t.symbols)/2)
	for i := range t.symbols {
		s := &t.symbols[i]
		if s.module != 0 || !s.text() {
			continue
		}
		name := t.name(s)
		names[name] = struct{}{}
		// Of a function that the compiler has split or changed BTF has the
		// original's name.
		if dot := strings.IndexByte(name, '.'); dot > 0 {
			names[name[:dot]] = struct{}{}
		}
	}
	_, all := t.first(perCPUStart)
	for name, plain := range raw.describedFunctions() {
		// Functions for the exit of what is built in are dropped at boot. Only
		// with CONFIG_KALLSYMS_ALL, as variables, are they listed all the same.
		_, ok := names[string(name)]
		if !ok {
			// Since Linux 7.0 a kfunc that takes implicit arguments has two types, and
			// the one that has them all is called so.
			plainName, implicit := bytes.CutSuffix(name, []byte("_impl"))
			_, ok = names[string(plainName)]
			ok = ok && implicit
		}
		if !ok && plain && !all {
			continue
		}
		e.Functions++
		if !ok {
			e.differs(&e.Absent, string(name))
		}
	}
}

// perCPUSection holds the variables that each CPU has a copy of: since Linux 5.10
// the only section that vmlinux's BTF has.
const perCPUSection = ".data..percpu"

// perCPUStart is the symbol at which that section begins.
const perCPUStart = "__per_cpu_start"

// compareVariables compares where per-CPU variables lie relative to the first
// of them: the types have offsets in the section, and the symbols count from 0 or,
// since Linux 6.15 on x86, from an address.
func (t *symbolTable) compareVariables(raw *rawBTF, e *ForeignTypesError) {
	places := raw.section(perCPUSection)
	if len(places) == 0 {
		return
	}
	start, ok := t.first(perCPUStart)
	if !ok {
		return
	}
	at := make(map[string][]uint64)
	for i := range t.symbols {
		if s := &t.symbols[i]; s.module == 0 && !s.text() {
			at[t.name(s)] = append(at[t.name(s)], s.addr-start)
		}
	}
	for _, p := range places {
		e.Variables++
		if !slices.Contains(at[p.name], uint64(p.offset)) {
			e.differs(&e.Moved, p.name)
		}
	}
}

// first returns the address of vmlinux's first symbol of a name.
func (t *symbolTable) first(name string) (uint64, bool) {
	for i := range t.symbols {
		if s := &t.symbols[i]; s.module == 0 && t.name(s) == name {
			return s.addr, true
		}
	}
	return 0, false
}

// describedFunctions yields the names of the blob's functions, and whether they
// neither take nor return anything.
func (r *rawBTF) describedFunctions() iter.Seq2[[]byte, bool] {
	plain := make(map[uint32]bool)
	for t := range r.all() {
		if t.kind == kindFuncProto && t.vlen == 0 && t.ref == 0 {
			plain[t.id] = true
		}
	}
	return func(yield func([]byte, bool) bool) {
		for t := range r.all() {
			if t.kind == kindFunc && !yield(r.text(t.name), plain[t.ref]) {
				return
			}
		}
	}
}

// A placed is a variable and where it lies in its section.
type placed struct {
	name   string
	offset uint32
}

// section returns the variables of a section.
func (r *rawBTF) section(name string) (all []placed) {
	vars := make(map[uint32]uint32) // names by the id of the variable
	for t := range r.all() {
		if t.kind == kindVar {
			vars[t.id] = t.name
		}
	}
	for t := range r.named(name, func(kind uint8) bool { return kind == kindDatasec }) {
		for b := t.data; len(b) >= extra[kindDatasec].each; b = b[extra[kindDatasec].each:] {
			if text := r.text(vars[r.order.Uint32(b)]); len(text) > 0 {
				all = append(all, placed{string(text), r.order.Uint32(b[4:])})
			}
		}
	}
	return all
}
