// SPDX-License-Identifier: Apache-2.0

package trace

// mostRecent is of how many keys at least a recent keeps what is known. It never keeps more than twice as many.
const mostRecent = 1 << 16

// A recent keeps what is known of the keys that were asked for last. Its zero value is empty.
type recent[K comparable, V any] struct {
	young, old map[K]V // what was asked for since young was made is in young
}

// get returns what is known of a key, the zero value if nothing is.
func (r *recent[K, V]) get(key K) V {
	v, known := r.young[key]
	if !known {
		if v, known = r.old[key]; known {
			r.put(key, v)
		}
	}
	return v
}

// put keeps what is known of a key. When young is full, what was not asked for since old was full is forgotten.
func (r *recent[K, V]) put(key K, v V) {
	if r.young == nil || len(r.young) == mostRecent {
		r.young, r.old = map[K]V{}, r.young
	}
	r.young[key] = v
}
