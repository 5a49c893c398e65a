// SPDX-License-Identifier: Apache-2.0

package kernel

import "fmt"

// mostNested bounds how deep types are nested that may be made to do harm: each level is another call, and another tab before a
// line. The kernel resolves types down to 32 (MAX_RESOLVE_DEPTH). Its own are 20 deep in Linux 6.1 to 7.3.
const mostNested = 64

// What a value has types in, and what C has them in where a type is written. The latter ends at the names of structs, as does
// each loop.
const (
	inValue = modifierKinds | 1<<kindArray | 1<<kindStruct | 1<<kindUnion
	inC     = inValue | 1<<kindPtr | 1<<kindFuncProto
)

// checkNesting returns an error if a type of the blob is nested too deep.
func (r *rawBTF) checkNesting(types []rawType) error {
	for _, kinds := range []kindSet{inValue, inC} {
		n := nesting{r, kinds, types, make([]uint8, len(types))}
		for i := range types {
			if id := types[i].id; n.depth(id, 0) > mostNested {
				return fmt.Errorf("reading BTF: type %d is nested deeper than %d levels", id, mostNested)
			}
		}
	}
	return nil
}

// A nesting measures how deep types are nested.
type nesting struct {
	raw   *rawBTF
	kinds kindSet
	types []rawType
	known []uint8 // depths; 0: not known
}

// depth returns how many levels a type has, which is at a level itself. Below mostNested it is not looked at.
func (n *nesting) depth(id uint32, level int) int {
	i := id - n.raw.firstID() // more than there are if it is smaller: a base is measured by itself
	if i >= uint32(len(n.types)) {
		return 0
	}
	t := &n.types[i]
	named := n.kinds == inC && t.name != 0 && (t.kind == kindStruct || t.kind == kindUnion)
	if !n.kinds.has(t.kind) || named {
		return 0
	}
	if n.known[i] == 0 && level <= mostNested {
		deepest := 0
		for to := range n.raw.refs(t) {
			if deepest = max(deepest, n.depth(to, level+1)); deepest > mostNested {
				break
			}
		}
		n.known[i] = uint8(1 + deepest)
	}
	return max(int(n.known[i]), 1)
}
