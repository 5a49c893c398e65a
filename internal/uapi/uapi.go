// SPDX-License-Identifier: Apache-2.0

// Package uapi knows the constants of the kernel's UAPI headers by name, with the
// values that they have on the architecture it is built for.
package uapi

import (
	"iter"
	"sort"
)

//go:generate go run ./genconst

// A constant is one #define of an integer.
type constant struct {
	name  string
	value int64
}

// tables are never changed; each is sorted by name.
var tables = [...][]constant{shared, ofArch}

// Value returns the value of a constant; ok is false if there is none of that name.
func Value(name string) (value int64, ok bool) {
	for _, table := range tables {
		i := sort.Search(len(table), func(i int) bool { return table[i].name >= name })
		if i < len(table) && table[i].name == name {
			return table[i].value, true
		}
	}
	return 0, false
}

// Names yields the names of all constants: those of all architectures, then this
// one's own, each sorted.
func Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, table := range tables {
			for i := range table {
				if !yield(table[i].name) {
					return
				}
			}
		}
	}
}
