// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/suggest"
)

// Nearest returns up to n functions that the user may have meant, the nearest first: copies
// of a function with that name, and then names that differ in few characters.
func (v *View) Nearest(name string, n int) []string {
	type near struct {
		name string
		dist int
	}
	seen := make(map[string]bool)
	var found []near
	search := suggest.For(name)
	consider := func(candidate []byte) {
		if dist, ok := search.Distance(candidate); ok && !seen[string(candidate)] {
			seen[string(candidate)] = true
			found = append(found, near{string(candidate), dist})
		}
	}
	if infos, err := v.infos(""); err == nil {
		for _, info := range infos {
			for f := range info.raw.functions() {
				consider(f)
			}
		}
	}
	if t, err := v.symbols(); err == nil {
		for i := range t.symbols {
			s := &t.symbols[i]
			if !s.text() || !strings.HasPrefix(t.name(s), name+".") {
				continue
			}
			if c := t.name(s); isFunction(c, t.module(s)) && !seen[c] {
				seen[c] = true
				found = append(found, near{c, 0})
			}
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.dist, b.dist), strings.Compare(a.name, b.name))
	})
	var names []string
	for _, f := range found[:min(n, len(found))] {
		names = append(names, f.name)
	}
	return names
}

// NearestType returns the spelling of the type that was most likely meant by a spelling that no type of vmlinux
// or of a module has, or "": with another word in front of the name, or with a similar name.
func (v *View) NearestType(spelling, module string) string {
	kind, name := splitSpelling(spelling)
	name = name[strings.LastIndexByte(name, ' ')+1:]
	for _, other := range []string{"struct ", "union ", "enum ", ""} {
		if found, err := v.TypesByName(other+name, module); err == nil && len(found) > 0 {
			return other + name
		}
	}
	near := suggest.Nearest(name, v.TypeNames(kind, "", module))
	if near == "" || kind == "" {
		return near
	}
	return kind + " " + near
}
