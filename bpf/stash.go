// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"math/bits"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// A Stash says how the frames of calls in flight lie; stash.h says why so. The
// zero value has no room for any.
type Stash struct {
	frame     uint32 // bytes of one
	homeBits  int    // binary logarithm of the number of those in the table
	groupBits int    // of those for one stack, and of a group far away
}

const (
	stackBits = int(engineLimitSTACK_BITS)
	// maxTable is the largest value of an array before Linux 6.2, in bytes.
	maxTable    = 4 << 20
	maxHomeBits = 15
	// manyPerCall is how many frames of one call make larger groups necessary.
	manyPerCall = 8
)

// NewStash returns a stash whose frames have as much data, in bytes, and of
// which a call takes so many, at most.
func NewStash(data, perCall uint32) Stash {
	s := Stash{frame: (uint32(FrameSize) + data + 7) &^ 7, groupBits: 4}
	if perCall > manyPerCall {
		s.groupBits = 6
	}
	room := (maxTable - int(unsafe.Sizeof(engineStashHead{}))) / int(s.frame)
	s.homeBits = max(min(bits.Len(uint(room))-1, maxHomeBits), s.groupBits)
	return s
}

// FarFrames returns for how many calls in flight there is room besides those in the table
// on a machine with so much memory, in bytes, if nobody says: as many as fit into a
// 256th of it, but into no less than 2 and no more than 32 MiB.
func (s Stash) FarFrames(memory uint64) int {
	return int(min(max(memory/256, 2<<20), 32<<20)) / int(s.frame)
}

// Size is what the stash takes with room for so many calls besides those in the
// table, in bytes.
func (s Stash) Size(far int) int {
	return s.table() + s.farGroups(far)*int(s.frame)<<s.groupBits
}

func (s Stash) table() int {
	return int(unsafe.Sizeof(engineStashHead{})) + int(s.frame)<<s.homeBits
}

// minFarGroups keeps the two groups of a stack from being the same too often.
const minFarGroups = 8

// farGroups returns how many groups hold so many frames, wherever they belong.
func (s Stash) farGroups(frames int) int {
	return max((frames+1<<s.groupBits-1)>>s.groupBits, minFarGroups)
}

// set sets the engine up for the stash, or takes what it needs out if there is none.
func (s Stash) set(spec *ebpf.CollectionSpec, far int) error {
	groups := s.farGroups(far)
	if s.frame == 0 {
		delete(spec.Programs, ProgStashExit)
		s, groups = Stash{frame: uint32(FrameSize)}, 1
	}
	for name, v := range map[string]uint32{
		engineVarFrameSize: s.frame, engineVarHomeMask: 1<<s.homeBits - 1, engineVarGroupMask: 1<<s.groupBits - 1,
		engineVarHomeShift: uint32(stackBits - s.groupBits), engineVarFarGroups: uint32(groups),
	} {
		if err := set(spec, name, v); err != nil {
			return err
		}
	}
	enlarge(spec.Maps[mapStash], "stash", s.table())
	frames := spec.Maps[engineMapFarFrames]
	frames.MaxEntries = uint32(groups)
	resize(frames, int(s.frame)<<s.groupBits)
	return nil
}

// mapStash is the data section that the table lies in.
const mapStash = ".data.stash"

// AppendHome appends the code that sets frame to the home of the frame of a call:
// sp holds what names it together with the probe. R0 changes.
func (s Stash) AppendHome(dst asm.Instructions, frame, sp asm.Register, probe uint32) asm.Instructions {
	dst = append(dst, asm.Mov.Reg32(asm.R0, sp), asm.RSh.Imm32(asm.R0, int32(stackBits-s.groupBits)))
	if flip := int32(probe & (1<<s.groupBits - 1)); flip != 0 {
		dst = append(dst, asm.Xor.Imm32(asm.R0, flip))
	}
	return append(dst,
		asm.And.Imm32(asm.R0, 1<<s.homeBits-1),
		asm.Mul.Imm32(asm.R0, int32(s.frame)),
		// The frames begin behind the header.
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: frame, Src: asm.PseudoMapValue,
			Constant: int64(uint64(unsafe.Sizeof(engineStashHead{})) << 32)}.WithReference(mapStash),
		asm.Add.Reg(frame, asm.R0),
	)
}

// AppendClaim appends the code that takes the frame at frame for a call that sp
// names, if it is free: R0 is what has named its call before, 0 for free.
func AppendClaim(dst asm.Instructions, frame, sp asm.Register) asm.Instructions {
	return append(dst, asm.Mov.Imm(asm.R0, 0), atomic(asm.CmpXchg, frame, sp, int16(FrameName)))
}

// AppendFree appends the code that gives the frame at frame back, which lies in the table. It
// changes R0. Where stores may overtake each other, this one must not.
func AppendFree(dst asm.Instructions, frame asm.Register, storesInOrder bool) asm.Instructions {
	dst = append(dst, asm.Mov.Imm(asm.R0, 0))
	if storesInOrder {
		return append(dst, asm.StoreMem(frame, int16(FrameName), asm.R0, asm.DWord))
	}
	return append(dst, atomic(asm.Xchg, frame, asm.R0, int16(FrameName)))
}

// AppendFar appends the code that sets reg to how many frames are far away.
func AppendFar(dst asm.Instructions, reg asm.Register) asm.Instructions {
	return append(dst,
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: reg, Src: asm.PseudoMapValue}.WithReference(mapStash),
		asm.LoadMem(reg, reg, int16(unsafe.Offsetof(engineStashHead{}.Far)), asm.Word))
}

// resize changes the size of a map's values, and their type with it.
func resize(m *ebpf.MapSpec, size int) {
	m.ValueSize = uint32(size)
	m.Value = &btf.Array{Type: &btf.Int{Name: "unsigned char", Size: 1}, Index: m.Key, Nelems: m.ValueSize}
}

// enlarge changes the size of a data section of zeroes. Its name must not be that of a
// section any longer: it would be mapped into our own memory.
func enlarge(m *ebpf.MapSpec, name string, size int) {
	m.Name, m.ValueSize = name, uint32(size)
	m.Key, m.Value, m.Contents = nil, nil, nil
}
