// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/longdouble"
)

// KeyOf returns where the keys of an aggregation lie in the key of its table. The slots are
// those of a record: Capture is the index of the key, and Index its bit in the mask of keys
// that could not be read. The bytes of such a key are 0, as are those behind a string or a
// buffer that does not fill its slot, so that equal keys have equal bytes.
func KeyOf(g *expr.Aggregation) *Record {
	l := &allocator{rec: &Record{}}
	for i := range g.Keys {
		switch k := &g.Keys[i]; {
		case k.Value != nil:
			l.add(Slot{Term: k.Value, Size: 8, Capture: i, Part: PartValue})
		default:
			l.add(Slot{Term: k.Target, Size: keySize(k.Target), Capture: i, Part: PartTarget})
		}
	}
	return l.rec
}

// KeyBytes returns how many bytes of a key's slot are stored. The others are 0: the padding of a
// long double has any contents, which would tell equal keys apart.
func KeyBytes(s *Slot) uint32 {
	if o, ok := s.Term.(*expr.Object); ok {
		if f, ok := btf.UnderlyingType(o.T).(*btf.Float); ok && longdouble.Of(f) != longdouble.None {
			return longdouble.Of(f).Size()
		}
	}
	return s.Size
}

// keySize returns how many bytes a target takes in a key. A string has no byte more, as it has
// in a record: what is cut is not told apart from what just fits.
func keySize(t expr.Term) uint32 {
	if text, ok := t.(*expr.Text); ok {
		return text.Max
	}
	return targetSize(t)
}
