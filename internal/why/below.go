// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/decide"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// Much of the kernel takes no probe: lib/ and kernel/trace/ are built so that nothing can be put there. What is
// refused in such a function ends the chain at its caller. The way of the caller tells whose result the error is.

// A below is what is known of functions that nobody can trace and that one function calls: the innermost one of a
// place, or what that consists of.
type below struct {
	calling string
	// hidden are these functions by address.
	hidden map[uint64]string
	// pointers are its calls through pointers, and pointed is where they led to, of those that were
	// looked at.
	pointers []uint64
	pointed  map[uint64][]uint64
	// made are those of hidden of which one has made the error, or what that calls; nil: none of them has.
	made []string
	// possible are those of hidden of which one may have made it, since the way does not tell.
	possible []string
	// unfollowed says that the error is, or may be, that of a function that was called through a pointer, and
	// nobody saw where that led.
	unfollowed bool
	// verdict is on the way of that function; nil: nothing is known of it.
	verdict *decide.Verdict
}

// hidden returns the functions that one calls and that nobody can trace, by address. pointed is where calls through
// pointers led to, refused are functions on which a probe was tried.
func (g *callGraph) hidden(addr uint64, pointed map[uint64][]uint64, refused map[uint64]bool) (map[uint64]string, error) {
	n := g.node(addr)
	called := slices.Clone(n.callees)
	for _, at := range n.pointers {
		called = append(called, pointed[at]...)
	}
	if err := g.classify(called); err != nil {
		return nil, err
	}
	hidden := map[uint64]string{}
	for _, a := range called {
		if s, ok := g.symbol(a); ok && (g.kinds[a].function.Name == "" || refused[a]) {
			hidden[a] = kernel.Function{Name: s.Name, Module: s.Module}.String()
		}
	}
	return hidden, nil
}

// settle says whether the error is that of a function that nobody can trace, by the verdict. told says
// that something else has told what made the error, or where. describe returns functions with their types.
func (b *below) settle(told bool, describe func([]uint64) ([]kernel.Function, error)) error {
	v := b.verdict
	switch {
	case told:
	case v == nil || v.Unsure && v.From == 0:
		b.unfollowed = slices.ContainsFunc(b.pointers, func(at uint64) bool { return !b.followed(at) })
		return b.suspect(describe)
	case b.hidden[v.From] != "":
		b.made = []string{b.hidden[v.From]}
	case slices.Contains(b.pointers, v.From):
		for _, to := range b.pointed[v.From] {
			if name := b.hidden[to]; name != "" {
				b.made = append(b.made, name)
			}
		}
		b.unfollowed = !b.followed(v.From)
	}
	return nil
}

// followed reports whether it was looked at where a call through a pointer leads to.
func (b *below) followed(call uint64) bool {
	_, ok := b.pointed[call]
	return ok
}

// harmless are functions of lib/ that return signed numbers and pointers, and no errors.
var harmless = []string{"mem*", "str*cmp*", "strch*", "strrchr*", "strnchr*", "strstr*", "strnstr*", "strpbrk*", "strsep", "strim", "skip_spaces", "*scanf", "bcmp", "find_*", "_find_*", "*bitmap_*", "rb_*", "__rb_*", "xa_load", "xa_find*", "xas_*",
	"radix_tree_lookup*", "radix_tree_next*", "idr_find", "idr_get_next*", "list_*", "nla_find", "nla_strcmp", "nla_memcmp", "nla_memcpy", "hex_*", "kobject_name", "kobject_get", "kset_find*", "*_cmp", "percpu_counter_*", "refcount_*"}

// suspect notes which of the functions that nobody can trace may have made the error, by what they return.
func (b *below) suspect(describe func([]uint64) ([]kernel.Function, error)) error {
	if len(b.hidden) == 0 {
		return nil
	}
	all, err := describe(slices.Sorted(maps.Keys(b.hidden)))
	if err != nil {
		return err
	}
	for i := range all {
		f := &all[i]
		if f.Type == nil || matches(harmless, f.Name) || matches(noise, f.Name) || matches(leaves, f.Name) {
			continue
		}
		proto, ok := f.Type.Type.(*btf.FuncProto)
		name := b.hidden[f.Addr]
		if ok && layout.ClassOf(f.Name, result(proto)) != layout.NeverFails && !slices.Contains(b.possible, name) {
			b.possible = append(b.possible, name)
		}
	}
	return nil
}

// Suspected says which functions that nobody can trace may have made the error; "" if there are none.
func (b *below) Suspected() string {
	const most = 5
	names := b.possible
	switch {
	case len(names) == 0:
		return ""
	case len(names) == 1:
		return terminal.Name(fmt.Sprintf("%s calls %s, on which the kernel lets nobody put a probe, and which may have refused", b.calling, names[0]))
	case len(names) > most:
		names = append(slices.Clone(names[:most]), fmt.Sprintf("%d more", len(names)-most))
	}
	return terminal.Name(fmt.Sprintf("%s calls functions on which the kernel lets nobody put a probe, and one of them may have refused: %s", b.calling, either(names)))
}

// either joins names: "a, b or c".
func either(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
