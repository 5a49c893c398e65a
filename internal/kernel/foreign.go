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

	"github.com/ksnoop/ksnoop/internal/plural"
)

// OpenTyped returns a view of the kernel below root that takes vmlinux's types from a file:
// an ELF vmlinux or a raw blob. It is for kernels that were built without BTF or do not
// show it. CheckTypes says whether the types fit the kernel. BTF that the kernel exports
// for modules is ignored, because it refers to the types of the kernel's own vmlinux.
func OpenTyped(root fs.FS, file io.ReaderAt) (*View, error) {
	data, arch, err := readBTF(file)
	if err != nil {
		return nil, err
	}
	if isSplit(data) {
		return nil, errors.New("reading BTF: these are the types of a module; tracing takes those of vmlinux")
	}
	if _, err := foreignTypes("", data, nil); err != nil {
		return nil, err
	}
	v := Open(typedRoot{root, data})
	v.given = true
	if own := v.Arch(); arch != "" && arch != own {
		return nil, fmt.Errorf("these are the types of a kernel for %s, and this one is for %s", arch, own)
	}
	return v, nil
}

// A typedRoot is a root in which other types take the place of the kernel's own.
type typedRoot struct {
	fs.FS
	types []byte
}

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
		return nil, nil // no modules
	}
	return fs.ReadDir(r.FS, name)
}

// GivenTypes reports whether the types come from a file. Their BTF ids then mean nothing to
// the kernel.
func (v *View) GivenTypes() bool { return v.given }

// A foreignTypesError says that types do not belong to the kernel.
type foreignTypesError struct {
	// Functions is how many functions the types describe. The kernel lacks Absent of them.
	Functions, Absent int
	// Variables is how many per-CPU variables the types place. The kernel has Moved of them
	// elsewhere or not at all.
	Variables, Moved int
	Examples         []string // names of functions or variables that differ
}

func (e *foreignTypesError) Error() string {
	if e.Functions == 0 {
		return "these types describe no functions: they are not those of a whole vmlinux"
	}
	text := fmt.Sprintf("these are the types of another kernel: of the %s that they describe this one lacks %d", plural.Of(e.Functions, "function{s}"), e.Absent)
	if e.Variables > 0 {
		text += fmt.Sprintf(", of %s %d %s missing or elsewhere", plural.Of(e.Variables, "per-CPU variable{s}"), e.Moved, plural.Text(e.Moved, "{is|are}"))
	}
	return text + ", such as " + strings.Join(e.Examples, ", ")
}

// foreignExamples bounds Examples.
const foreignExamples = 3

// CheckTypes compares vmlinux's types with the kernel's symbols. pahole describes the
// functions of the vmlinux at hand, so a missing function reveals another build. So does a
// per-CPU variable at another offset: it moves if one before it changes size. The error is
// a *foreignTypesError, or says that the symbols cannot be read.
func (v *View) CheckTypes() error {
	info, err := v.vmlinux()
	if err != nil {
		return err
	}
	t, err := v.symbols()
	if err != nil {
		return fmt.Errorf("comparing the types with the kernel: %w", err)
	}
	e := &foreignTypesError{}
	t.compareFunctions(info.raw, e)
	if !t.hidden() {
		t.compareVariables(info.raw, e)
	}
	if e.Absent+e.Moved == 0 && e.Functions > 0 {
		return nil
	}
	return e
}

// differs counts a difference and may keep its name as an example.
func (e *foreignTypesError) differs(n *int, name string) {
	*n++
	if len(e.Examples) < foreignExamples {
		e.Examples = append(e.Examples, name)
	}
}

// compareFunctions looks for each function that the types describe among the symbols.
func (t *symbolTable) compareFunctions(raw *rawBTF, e *foreignTypesError) {
	names := make(map[string]struct{}, len(t.symbols)/2)
	for i := range t.symbols {
		s := &t.symbols[i]
		if s.module != 0 || !s.text() {
			continue
		}
		name := t.name(s)
		names[name] = struct{}{}
		// For a function that the compiler split or changed, BTF has the original's name.
		if dot := strings.IndexByte(name, '.'); dot > 0 {
			names[name[:dot]] = struct{}{}
		}
	}
	_, all := t.first(perCPUStart)
	for name, plain := range raw.describedFunctions() {
		// Exit functions of built-in code are dropped at boot. They are listed only with
		// CONFIG_KALLSYMS_ALL, as variables.
		_, ok := names[string(name)]
		if !ok {
			// Since Linux 7.0, a kfunc with implicit arguments has two types. The one with
			// all arguments has this suffix.
			plainName, implicit := bytes.CutSuffix(name, []byte(implicitSuffix))
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

// perCPUSection holds the per-CPU variables. It is the only section in vmlinux's BTF since
// Linux 5.10.
const perCPUSection = ".data..percpu"

// perCPUStart is the symbol at the start of that section.
const perCPUStart = "__per_cpu_start"

// compareVariables compares the offsets of per-CPU variables from the first one. Types have
// offsets in the section; symbols count from 0 or, on x86 since Linux 6.15, from an
// address.
func (t *symbolTable) compareVariables(raw *rawBTF, e *foreignTypesError) {
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

// first returns the address of the first symbol with this name in vmlinux.
func (t *symbolTable) first(name string) (uint64, bool) {
	for i := range t.symbols {
		if s := &t.symbols[i]; s.module == 0 && t.name(s) == name {
			return s.addr, true
		}
	}
	return 0, false
}

// describedFunctions yields the names of the blob's functions, with whether they have
// neither parameters nor a result.
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

// A placed is a variable and its offset in its section.
type placed struct {
	name   string
	offset uint32
}

// section returns the variables of a section.
func (r *rawBTF) section(name string) (all []placed) {
	vars := make(map[uint32]uint32) // names by id of the variable
	for t := range r.all() {
		if t.kind == kindVar {
			vars[t.id] = t.name
		}
	}
	for t := range r.named(name, datasecKind) {
		for b := t.data; len(b) >= extra[kindDatasec].each; b = b[extra[kindDatasec].each:] {
			if text := r.text(vars[r.order.Uint32(b)]); len(text) > 0 {
				all = append(all, placed{string(text), r.order.Uint32(b[4:])})
			}
		}
	}
	return all
}
