// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// layoutMaker builds random structs as no compiler would: packed, bitfields of
// any width at any bit, members that overlap.
type layoutMaker struct {
	*rand.Rand
	n int
}

func (r *layoutMaker) integer() *btf.Int {
	size := uint32(1) << r.IntN(4)
	return &btf.Int{Name: fmt.Sprintf("i%d", size*8), Size: size, Encoding: []btf.IntEncoding{btf.Unsigned, btf.Signed, btf.Bool, btf.Char}[r.IntN(4)]}
}

func (r *layoutMaker) enum() *btf.Enum {
	e := &btf.Enum{Name: "e", Size: 1 << r.IntN(4), Signed: r.IntN(2) == 0}
	for i := range r.IntN(5) {
		e.Values = append(e.Values, btf.EnumValue{Name: fmt.Sprintf("E%d", i), Value: uint64(r.IntN(4))})
	}
	return e
}

func (r *layoutMaker) typ(depth int) btf.Type {
	switch k := r.IntN(9); {
	case k < 3:
		return r.integer()
	case k == 3:
		return r.enum()
	case k == 4:
		return &btf.Pointer{Target: r.integer()}
	case k == 5:
		return &btf.Typedef{Name: "td", Type: &btf.Const{Type: r.integer()}}
	case depth == 0:
		return charType()
	case k == 6:
		return arrayOf(r.typ(depth-1), uint32(r.IntN(4)))
	}
	return r.composite(depth - 1)
}

func (r *layoutMaker) composite(depth int) btf.Type {
	var members []btf.Member
	union := r.IntN(3) == 0
	end := btf.Bits(0)
	off := btf.Bits(0)
	for range r.IntN(6) {
		m := btf.Member{Name: r.name(), Offset: off}
		if r.IntN(3) == 0 {
			if m.Type = r.integer(); r.IntN(3) == 0 {
				m.Type = r.enum()
			}
			m.BitfieldSize = btf.Bits(1 + r.IntN(sizeof(m.Type)*8))
			off += m.BitfieldSize
		} else {
			m.Offset = (off + 7) / 8 * 8
			m.Type = r.typ(depth)
			switch m.Type.(type) {
			case *btf.Struct, *btf.Union:
				if r.IntN(2) == 0 {
					m.Name = ""
				}
			}
			off = m.Offset + bytesAt(uint32(sizeof(m.Type)))
		}
		if union {
			m.Offset, end, off = 0, max(end, off), 0
		}
		end = max(end, off)
		members = append(members, m)
	}
	size := uint32(end+7)/8 + uint32(r.IntN(3))
	if union {
		return &btf.Union{Name: r.tag(), Size: size, Members: members}
	}
	return &btf.Struct{Name: r.tag(), Size: size, Members: members}
}

func (r *layoutMaker) name() string {
	r.n++
	return fmt.Sprintf("m%d", r.n)
}

func (r *layoutMaker) tag() string {
	if r.IntN(2) == 0 {
		return ""
	}
	r.n++
	return fmt.Sprintf("s%d", r.n)
}

// TestRandomTypes prints random values of random types, as the slow
// implementations do, and reads their JSON back.
func TestRandomTypes(t *testing.T) {
	r := &layoutMaker{Rand: rand.New(rand.NewPCG(7, 11))}
	rounds := 500
	if soak() {
		rounds = 50000
	}
	for i := range rounds {
		typ := r.composite(4)
		id := btf.TypeID(i)
		for _, sparse := range []bool{false, true} {
			raw := testBytes(id, sizeof(typ), sparse)
			againstModel(t, typ, raw)
			text := mustCompile(t, typ).AppendJSON(nil, raw, &ValueOptions{ShowZeroes: true, Plain: true})
			v, err := decodeJSON(text)
			if err == nil {
				err = checkJSON(v, typ, raw, 0, 0, 0)
			}
			if err != nil || !json.Valid(text) {
				t.Errorf("JSON: %v in %s", err, text)
			}
		}
		if t.Failed() {
			t.Fatalf("type %d: %s", i, AppendType(nil, typ, TypeOptions{}))
		}
	}
}
