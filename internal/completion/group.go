// SPDX-License-Identifier: Apache-2.0

package completion

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// grouped returns names that begin with prefix as candidates. If there are many, those that go on alike
// up to a separator are one, which says how many they are. about describes a name, what is what the names are of.
func grouped(names []string, prefix, separator, what string, about func(string) string) (found []Candidate) {
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) <= mostListed {
		for _, name := range names {
			found = append(found, Candidate{name[len(prefix):], name, about(name)})
		}
		return found
	}
	groups, count := groupsOf(names, prefix, separator)
	for _, g := range fewer(groups, count, prefix) {
		c := Candidate{g[len(prefix):], g, fmt.Sprintf("%d %s", count[g], what)}
		if count[g] == 1 && !strings.HasSuffix(g, separator) {
			c.About = about(g)
		}
		found = append(found, c)
	}
	return found
}

// fewer leaves the largest of too many groups. One stays for each character that can come next: a shell
// inserts what all candidates begin with, and must not be misled.
func fewer(groups []string, count map[string]int, prefix string) []string {
	if len(groups) <= mostListed {
		return groups
	}
	bySize := slices.Clone(groups)
	slices.SortStableFunc(bySize, func(a, b string) int { return cmp.Compare(count[b], count[a]) })
	next := map[byte]bool{}
	kept := map[string]bool{}
	for _, g := range bySize {
		if first := g[len(prefix)]; !next[first] {
			next[first], kept[g] = true, true
		}
	}
	for _, g := range bySize {
		if len(kept) >= mostListed {
			break
		}
		kept[g] = true
	}
	return slices.DeleteFunc(groups, func(g string) bool { return !kept[g] })
}

// groupsOf returns what names begin with, up to a separator, with how many there are of each. A name
// that is alone in its group stands for itself.
func groupsOf(names []string, prefix, separator string) (groups []string, count map[string]int) {
	count, only := map[string]int{}, map[string]string{}
	for _, name := range names {
		group := name
		if i := strings.Index(name[len(prefix):], separator); i >= 0 {
			group = name[:len(prefix)+i+len(separator)]
		}
		count[group]++
		only[group] = name
	}
	for _, group := range slices.Sorted(maps.Keys(count)) {
		if n := count[group]; n == 1 && only[group] != group {
			group = only[group]
			count[group] += n
		}
		groups = append(groups, group)
	}
	return groups, count
}
