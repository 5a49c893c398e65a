// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/longdouble"
)

// A class is how System V passes eight bytes of a value (psABI 3.2.3).
type class uint8

const (
	classNone    class = iota // padding
	classInteger              // a general register
	classSSE                  // an SSE register
	classSSEUp                // the upper half of the register before
	classX87                  // a long double: in st0 if it is returned, else in memory
	classX87Up
	classMemory
)

// merge is the class of eight bytes that two members share.
func (c class) merge(d class) class {
	switch {
	case c == d || d == classNone:
		return c
	case c == classNone:
		return d
	case c == classMemory || d == classMemory:
		return classMemory
	case c == classInteger || d == classInteger:
		return classInteger
	case c == classX87 || c == classX87Up || d == classX87 || d == classX87Up:
		return classMemory
	}
	return classSSE
}

// classes are those of the words of a value. There are none of a value in memory: one that is
// too large or too oddly aligned for registers.
func classes(t btf.Type) []class {
	if n := Words(t); n > 0 && n <= 2 && bounded(t) && !unaligned(t, 0) {
		c := classifier{words: make([]class, n), left: 4096}
		c.add(t, 0)
		return c.result()
	}
	return nil
}

// A classifier adds the classes of a value's members up.
type classifier struct {
	words []class
	left  int // how many members may still be looked at: types of files may claim any number
}

func (c *classifier) add(t btf.Type, off btf.Bits) {
	if c.left--; c.left < 0 {
		c.words[0] = classMemory
		return
	}
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Array:
		size, err := btf.Sizeof(u.Type)
		for i := range u.Nelems {
			at := off + btf.Bits(8*size)*btf.Bits(i)
			if err != nil || size <= 0 || int(at/64) >= len(c.words) {
				return
			}
			c.add(u.Type, at)
		}
		return
	case *btf.Float:
		low, high := classSSE, classSSEUp
		if u.Size > 8 && longdouble.Of(u) != longdouble.Quad {
			low, high = classX87, classX87Up
		}
		c.mark(off, 1, low)
		if u.Size > 8 {
			c.mark(off+64, 1, high)
		}
		return
	}
	list, aggregate := members(t)
	if !aggregate {
		size, err := btf.Sizeof(t)
		if err != nil {
			size = 8
		}
		c.mark(off, btf.Bits(8*size), classInteger)
		return
	}
	for _, m := range list {
		if m.BitfieldSize != 0 {
			c.mark(off+m.Offset, m.BitfieldSize, classInteger)
			continue
		}
		c.add(m.Type, off+m.Offset)
	}
}

// mark adds a class to the words that size bits lie in.
func (c *classifier) mark(off, size btf.Bits, as class) {
	for i := range c.words {
		if word := btf.Bits(64 * i); size > 0 && off < word+64 && off+size > word {
			c.words[i] = c.words[i].merge(as)
		}
	}
}

// result is what the convention makes of the classes when all members are known.
func (c *classifier) result() []class {
	for i, w := range c.words {
		switch {
		case w == classMemory, w == classX87Up && (i == 0 || c.words[i-1] != classX87):
			return nil
		case w == classSSEUp && (i == 0 || c.words[i-1] != classSSE):
			c.words[i] = classSSE
		}
	}
	return c.words
}

// complexLong reports whether t is the complex long double of amd64. It is returned in st0 and
// st1, other than a struct of two.
func complexLong(t btf.Type) bool {
	s, ok := btf.UnderlyingType(t).(*btf.Struct)
	return ok && s.Name == "complex long double"
}

// in counts the words of some classes.
func in(words []class, of ...class) (n int) {
	for _, w := range words {
		if slices.Contains(of, w) {
			n++
		}
	}
	return n
}

// elsewhere returns the words that are in no general register.
func elsewhere(words []class) (set expr.Words) {
	for i, w := range words {
		if w != classInteger {
			set |= 1 << i
		}
	}
	return set
}

// inFloats returns the words that are in floating-point registers.
func inFloats(words []class) (set expr.Words) {
	for i, w := range words {
		if w != classInteger && w != classNone {
			set |= 1 << i
		}
	}
	return set
}

// unaligned reports whether a packed struct, placed at bit off, has a number that is not
// naturally aligned; System V then passes it in memory. As in gcc, bitfields do not count,
// and only the first element of an array does. clang looks at all elements.
func unaligned(t btf.Type, off btf.Bits) bool {
	if a, ok := btf.UnderlyingType(t).(*btf.Array); ok && a.Nelems == 0 {
		return false // flexible array: takes no room
	}
	list, aggregate := members(t)
	if !aggregate {
		size, err := btf.Sizeof(t)
		return err == nil && size > 0 && off%btf.Bits(8*size) != 0
	}
	return slices.ContainsFunc(list, func(m btf.Member) bool {
		return m.BitfieldSize == 0 && unaligned(m.Type, off+m.Offset)
	})
}
