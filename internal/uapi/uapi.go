// SPDX-License-Identifier: Apache-2.0

// Package uapi knows the constants of the kernel's UAPI headers by name, with the
// values that they have on an architecture.
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

// tables returns those of an architecture, called as in GOARCH. Each is sorted by name.
func tables(arch string) [2][]constant {
	return [...][]constant{shared, map[string][]constant{"amd64": ofAMD64, "arm64": ofARM64}[arch]}
}

// Value returns the value that a constant has on an architecture; ok is false if there is none of
// that name.
func Value(name, arch string) (value int64, ok bool) {
	for _, table := range tables(arch) {
		i := sort.Search(len(table), func(i int) bool { return table[i].name >= name })
		if i < len(table) && table[i].name == name {
			return table[i].value, true
		}
	}
	return 0, false
}

// Names yields the names of all constants: those of all architectures, then those that
// one has of its own, each sorted.
func Names(arch string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, table := range tables(arch) {
			for i := range table {
				if !yield(table[i].name) {
					return
				}
			}
		}
	}
}
