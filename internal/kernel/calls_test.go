// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// lists is the BTF of structs with a name that have pointers to each other: to[i] are those that the one at i leads to. A
// struct has an odd ID, and behind it is the pointer to it.
func lists(to [][]int) []byte {
	const name = 1
	var types [][]uint32
	for i, others := range to {
		s := []uint32{name, kindStruct<<24 | uint32(len(others)), 8}
		for _, j := range others {
			s = append(s, 0, uint32(2*j+2), 0)
		}
		types = append(types, s, []uint32{0, kindPtr << 24, uint32(2*i + 1)})
	}
	return blobOf(types...)
}

// TestDecoderCalls: types are refused that take the decoder too many calls, in whichever order they are. 100,000 structs, each
// with a pointer to the next, took 1 GB of memory.
func TestDecoderCalls(t *testing.T) {
	for n, want := range map[int]string{mostCalls / 2: "", mostCalls/2 + 2: "leads to more than 32768 others in a row"} {
		back, forth, loop, spikes := make([][]int, n), make([][]int, n), make([][]int, n), make([][]int, n)
		for i := range n {
			loop[i] = []int{(i + 1) % n}
			if i > 0 {
				back[i] = []int{i - 1}
				forth[i-1] = []int{i}
			}
			spikes[i] = []int{i ^ 1} // loops of two, of which the second one leads to the first one of the loop before
			if i%2 == 1 && i > 1 {
				spikes[i] = append(spikes[i], i-3)
			}
		}
		for name, to := range map[string][][]int{"back": back, "forth": forth, "loop": loop, "spikes": spikes} {
			if err := refused(t, lists(to)); (err == "") != (want == "") || !strings.Contains(err, want) {
				t.Errorf("%d structs, %s: %q, want %q", n, name, err, want)
			}
		}
	}
}

// TestCallsBound: no type begins a longer row of types, each of which leads to the next, than was found. Without loops it begins
// one of that length.
func TestCallsBound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		to := make([][]int, 1+random.IntN(7))
		loops := random.IntN(2) == 0
		for i := range to {
			for range random.IntN(3) {
				if j := random.IntN(len(to)); loops || j < i {
					to[i] = append(to[i], j)
				}
			}
		}
		raw, err := parseBTF(lists(to), nil)
		if err != nil {
			t.Fatal(err)
		}
		var types []rawType
		for t := range raw.all() {
			types = append(types, t)
		}
		c := calls{raw: raw, types: types, known: make([]called, len(types))}
		for i := range types {
			if c.known[i].met == 0 && !c.follow(uint32(i), 1) {
				t.Fatal("too many")
			}
		}
		for i := range types {
			got, want := int(c.known[i].most), longest(raw, types, uint32(i)+1, map[uint32]bool{})
			if got < want || !loops && got != want {
				t.Errorf("%v: type %d: a row of %d, want %d", to, i+1, got, want)
			}
		}
	}
}

// longest returns how many types the longest row has that a type begins, without those of the row that leads to it.
func longest(raw *rawBTF, types []rawType, id uint32, before map[uint32]bool) (n int) {
	before[id] = true
	for to := range raw.refs(&types[id-1]) {
		if !before[to] {
			n = max(n, longest(raw, types, to, before))
		}
	}
	delete(before, id)
	return n + 1
}
