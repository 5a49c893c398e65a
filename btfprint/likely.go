// SPDX-License-Identifier: Apache-2.0

package btfprint

// likely returns the index of the union member that the bytes look most like. It judges a
// member by its scalars: a kernel address speaks for a pointer and against a number; a bool
// is 0 or 1; an enum value has a name; text is printable. On a tie the larger member wins,
// then the first.
func (p *Printer) likely(fields []field, raw []byte, off int) int {
	best, bestScore, bestSize := 0, minScore, -1
	for i := range fields {
		f := &fields[i]
		budget := maxScored
		score := p.score(f, raw, off, &budget)
		size := int(p.bodies[f.body].size) * 8
		if f.bits > 0 {
			size = int(f.bits)
		}
		if score > bestScore || score == bestScore && size > bestSize {
			best, bestScore, bestSize = i, score, size
		}
	}
	return best
}

// Verdicts on one scalar. An impossible one outweighs many plausible ones.
const (
	wrong    = -100
	doubtful = -10
	fits     = 10
	minScore = -1 << 30
)

// maxScored is how many values of each member are judged.
const maxScored = 64

// score rates how well the bytes fit a member. Zero bytes fit anything and tell nothing.
// budget bounds the values looked at.
func (p *Printer) score(f *field, raw []byte, off int, budget *int) int {
	b := &p.bodies[f.body]
	off += int(f.off)
	size := int(b.size)
	if f.bits > 0 {
		size = (int(f.bit) + int(f.bits) + 7) / 8
	}
	if *budget--; off+size > len(raw) || *budget < 0 {
		return 0
	}
	switch b.kind {
	case kindStruct, kindUnion:
		return p.scoreMembers(b, raw, off, budget)
	case kindPointer:
		return scorePointer(p.load(raw[off : off+size]))
	case kindEnum:
		v := p.number(f, b, raw, off)
		switch _, named := p.enumerator(p.enums[b.first:b.first+b.n], v); {
		case v == 0:
			return 0
		case named:
			return fits
		}
		return wrong
	case kindInt:
		return scoreInt(b, p.number(f, b, raw, off))
	case kindBytes:
		if !b.isChar {
			return 0
		}
		return scoreText(raw[off : off+size])
	}
	return 0
}

// scoreMembers scores a struct by all its members, a union by its best one.
func (p *Printer) scoreMembers(b *body, raw []byte, off int, budget *int) int {
	sum, best := 0, minScore
	for i := uint32(0); i < b.n && *budget > 0; i++ {
		s := p.score(&p.fields[b.first+i], raw, off, budget)
		sum += s
		best = max(best, s)
	}
	if b.kind == kindUnion && b.n > 0 {
		return best
	}
	return sum
}

// firstError is the lowest address that is an error pointer.
const firstError = 1<<64 - 4096

// isKernelAddress reports whether v can be an address of kernel memory on amd64 or arm64.
// Small negative numbers are not.
func isKernelAddress(v uint64) bool { return v >= 0xff00_0000_0000_0000 && v < firstError }

// scorePointer rates a pointer. A NULL and an error pointer say nothing, since small
// numbers look like them.
func scorePointer(v uint64) int {
	switch {
	case v == 0:
		return 0
	case isKernelAddress(v):
		return fits
	case v >= 0x1000 && v < 1<<47:
		return 1 // user space
	case v >= firstError:
		return 0 // ERR_PTR
	}
	return wrong
}

// scoreInt rates an integer. Any number is plausible, but a bool is 0 or 1, and an
// address is probably a pointer.
func scoreInt(b *body, v uint64) int {
	switch {
	case b.isBool && v > 1:
		return wrong
	case b.isBool && v == 1:
		return fits / 2
	case b.size == 8 && isKernelAddress(v):
		return doubtful
	}
	return 0
}

// scoreText rates a char array by the bytes before its first NUL.
func scoreText(raw []byte) int {
	for i, c := range raw {
		switch {
		case c == 0 && i == 0:
			return 0
		case c == 0:
			return fits
		case c < ' ' || c >= 0x7f:
			return wrong
		}
	}
	return fits
}
