// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// FunctionsNamed yields the functions that BTF describes whose names begin with a prefix. Module glob
// "" includes vmlinux. Symbols are not read, which would take long: a function may turn out not to be
// traceable.
func (v *View) FunctionsNamed(prefix, module string) iter.Seq[NamedFunction] {
	return func(yield func(NamedFunction) bool) {
		infos, err := v.infos(module)
		if err != nil {
			return
		}
		for _, info := range infos {
			for t := range info.raw.beginning(prefix, funcKind.has) {
				if !yield(NamedFunction{string(info.raw.text(t.name)), info.name, t.id}) {
					return
				}
			}
		}
	}
}

// TypeNames yields the types of vmlinux and of a module whose names begin with a prefix. kind is the
// word in front of them, or "" for typedefs and base types.
func (v *View) TypeNames(kind, prefix, module string) iter.Seq[string] {
	return func(yield func(string) bool) {
		v.ofModule(module, func(info *typeInfo) bool {
			for t := range info.raw.beginning(prefix, func(k uint8) bool { return namedBy(k, kind) }) {
				if !yield(string(info.raw.text(t.name))) {
					return false
				}
			}
			return true
		})
	}
}

// namedBy reports whether types of a kind of BTF have a word in front of their names.
func namedBy(k uint8, word string) bool {
	switch k {
	case kindStruct:
		return word == "struct"
	case kindUnion:
		return word == "union"
	case kindEnum, kindEnum64:
		return word == "enum"
	case kindTypedef, kindInt, kindFloat:
		return word == ""
	}
	return false
}

// EnumeratorNames yields the enumerators of vmlinux and of a module whose names begin with a prefix,
// with their values and the names of their enums.
func (v *View) EnumeratorNames(prefix, module string) iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		start := []byte(prefix)
		v.ofModule(module, func(info *typeInfo) bool {
			b := &outlineBlob{raw: info.raw}
			for t := range info.raw.beginning("", func(k uint8) bool { return k == kindEnum || k == kindEnum64 }) {
				each := extra[t.kind].each
				some := false
				for v := t.data; len(v) >= each && !some; v = v[each:] {
					some = info.raw.begins(info.raw.uint32(v), start)
				}
				if !some {
					continue
				}
				for _, e := range b.enum(t, "").Values {
					if strings.HasPrefix(e.Name, prefix) && !yield(e.Name, e.Value) {
						return false
					}
				}
			}
			return true
		})
	}
}

// ofModule calls f for the BTF of vmlinux and of a module, until it returns false.
func (v *View) ofModule(module string, f func(*typeInfo) bool) {
	for _, name := range slices.Compact([]string{module, ""}) {
		if info, err := v.moduleInfo(name); err == nil && !f(info) {
			return
		}
	}
}

// SyscallsCalled returns the names of system calls that begin with a prefix, sorted. They come from
// tracefs, or from BTF if that cannot be read. Other than SyscallNames, it reads no symbols.
func (v *View) SyscallsCalled(prefix, arch string) (names []string) {
	const enter = "sys_enter_"
	events, err := v.eventDir(enter+prefix+"*", "syscalls")
	for _, e := range events {
		names = append(names, strings.TrimPrefix(e, enter))
	}
	if err != nil && syscallPrefixes[arch] != "" {
		for _, start := range []string{syscallPrefixes[arch], "__do_sys_"} {
			for f := range v.FunctionsNamed(start+prefix, "") {
				names = append(names, strings.TrimPrefix(f.Name, start))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TracepointGroups returns the groups of tracepoints whose names match a glob.
func (v *View) TracepointGroups(pattern string) ([]string, error) {
	return v.eventDir(pattern+"*", "")
}

// TracepointsOf returns the tracepoints of a group whose names match a glob.
func (v *View) TracepointsOf(group, pattern string) []string {
	if glob.Is(group) {
		return nil
	}
	names, _ := v.eventDir(pattern+"*", group)
	return names
}

// RawTracepointsNamed yields the raw tracepoints whose names begin with a prefix, each as the function
// that calls its programs.
func (v *View) RawTracepointsNamed(prefix string) iter.Seq2[string, NamedFunction] {
	return func(yield func(string, NamedFunction) bool) {
		for f := range v.FunctionsNamed(traceIter+prefix, "") {
			if !yield(strings.TrimPrefix(f.Name, traceIter), f) {
				return
			}
		}
	}
}

// beginning yields the types whose names begin with a prefix, and that have one of some kinds.
func (r *rawBTF) beginning(prefix string, kinds func(uint8) bool) iter.Seq[rawType] {
	return func(yield func(rawType) bool) {
		start := []byte(prefix)
		id := r.firstID()
		for rest := r.types; len(rest) >= typeHeader; id++ {
			info := r.uint32(rest[4:])
			kind := info >> 24 & 0x1f
			if kinds(uint8(kind)) && (prefix == "" || r.begins(r.uint32(rest), start)) {
				t, _, err := r.header(rest)
				t.id = id
				if err != nil || !yield(t) {
					return
				}
			}
			rest = rest[typeHeader+extra[kind].fixed+extra[kind].each*int(info&0xffff):]
		}
	}
}

// begins reports whether the string at an offset begins with a prefix.
func (r *rawBTF) begins(off uint32, prefix []byte) bool {
	if r.base != nil {
		n := uint32(len(r.base.strings))
		if off < n {
			return r.base.begins(off, prefix)
		}
		off -= n
	}
	return off < uint32(len(r.strings)) && bytes.HasPrefix(r.strings[off:], prefix)
}

// SyscallFields returns the parameters of a system call as tracefs has them; nil if it does not tell.
func (v *View) SyscallFields(name string) []Field {
	fields, err := v.syscallFormat(name)
	switch {
	case err != nil:
		return nil
	case fields == nil:
		return []Field{} // it has no parameters
	}
	return fields
}
