// SPDX-License-Identifier: Apache-2.0

package diff

import "hash/maphash"

// Names are the names of two runs: what is equal has one number, and one copy.
type Names struct {
	seed    maphash.Seed
	numbers map[string]int32
	texts   map[string]string
}

// NewNames returns Names for two runs.
func NewNames() *Names {
	return &Names{seed: maphash.MakeSeed(), numbers: map[string]int32{}, texts: map[string]string{}}
}

func (n *Names) number(name string) int32 {
	number, ok := n.numbers[name]
	if !ok {
		number = int32(len(n.numbers))
		n.numbers[name] = number
	}
	return number
}

// share returns the one copy of a text.
func (n *Names) share(text string) string {
	if known, ok := n.texts[text]; ok {
		return known
	}
	n.texts[text] = text
	return text
}

// hash returns a hash of a text.
func (n *Names) hash(text string) uint64 { return maphash.String(n.seed, text) }
