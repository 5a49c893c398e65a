// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf/btf"
)

const btfHeaderSize = 24

// splitBTF encodes types as a module's BTF: numbers of types and offsets of
// strings go on where those of base, the kernel's raw BTF, end.
func splitBTF(types []btf.Type, base []byte) ([]byte, error) {
	count, err := countTypes(base)
	if err != nil {
		return nil, fmt.Errorf("BTF of vmlinux: %w", err)
	}
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		return nil, err
	}
	data, err := b.Marshal(nil, nil)
	if err != nil {
		return nil, err
	}
	stringLen := binary.LittleEndian.Uint32(base[20:])
	err = walkTypes(data, func(strings, ids []*uint32) {
		for _, s := range strings {
			if *s != 0 {
				*s += stringLen
			}
		}
		for _, id := range ids {
			if *id != 0 {
				*id += count
			}
		}
	})
	return data, err
}

// countTypes returns the number of types in a BTF blob, void not counted.
func countTypes(data []byte) (n uint32, err error) {
	err = walkTypes(data, func([]*uint32, []*uint32) { n++ })
	return n, err
}

var errCut = errors.New("malformed BTF")

// walkTypes calls f for each type, with its string offsets and the numbers of
// the types that it refers to; what f changes is written back.
func walkTypes(data []byte, f func(strings, ids []*uint32)) error {
	le := binary.LittleEndian
	if len(data) < btfHeaderSize {
		return errCut
	}
	start := int(le.Uint32(data[4:])) + int(le.Uint32(data[8:]))
	end := start + int(le.Uint32(data[12:]))
	if end > len(data) {
		return errCut
	}
	for at := start; at < end; {
		words, strings, ids := shape(le.Uint32(data[at+4:]))
		if words == 0 || at+4*words > end {
			return errCut
		}
		rec := make([]uint32, words)
		for i := range rec {
			rec[i] = le.Uint32(data[at+4*i:])
		}
		f(pick(rec, strings), pick(rec, ids))
		for i, v := range rec {
			le.PutUint32(data[at+4*i:], v)
		}
		at += 4 * words
	}
	return nil
}

func pick(rec []uint32, at []int) []*uint32 {
	var out []*uint32
	for _, i := range at {
		out = append(out, &rec[i])
	}
	return out
}

// shape tells from a type's info word how many words the type takes, and which
// of them are strings and types. From include/uapi/linux/btf.h.
func shape(info uint32) (words int, strings, ids []int) {
	n := int(info & 0xffff)
	strings = []int{0}
	list := func(size, str, id int) {
		words = 3 + n*size
		for i := range n {
			strings = append(strings, 3+i*size+str)
			if id > 0 {
				ids = append(ids, 3+i*size+id)
			}
		}
	}
	switch info >> 24 & 0x1f {
	case 1, 14: // int, variable
		words = 4
		if info>>24&0x1f == 14 {
			ids = []int{2}
		}
	case 2, 8, 9, 10, 11, 12, 18: // pointer, typedef, volatile, const, restrict, function, type tag
		words, ids = 3, []int{2}
	case 3: // array
		words, ids = 6, []int{3, 4}
	case 4, 5: // struct, union
		list(3, 0, 1)
	case 6: // enum
		list(2, 0, 0)
	case 7, 16: // forward, float
		words = 3
	case 13: // function's signature
		ids = []int{2}
		list(2, 0, 1)
	case 15: // section: type, offset, size
		words = 3 + 3*n
		for i := range n {
			ids = append(ids, 3+3*i)
		}
	case 17: // declaration tag
		words, ids = 4, []int{2}
	case 19: // enum64
		list(3, 0, 0)
	}
	return words, strings, ids
}
