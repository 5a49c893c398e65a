// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"math/bits"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// A Stash is the layout of the frames of calls in flight; stash.h explains it. The zero value has no
// frames.
type Stash struct {
	frame     uint32 // bytes of one
	homeBits  int    // binary logarithm of the number of frames in the table
	groupBits int    // the same of the homes of one stack, and of a group far away
}

// StackBits is the binary logarithm of the size of a block of stacks: the key of a call has its place in
// the block below, and which block it is above.
const StackBits = stackBits

const (
	stackBits = int(engineLimitSTACK_BITS)
	// maxTable is the largest value of an array before Linux 6.2, in bytes.
	maxTable    = 4 << 20
	maxHomeBits = 15
	// If a call takes more than manyPerCall frames, groups must be larger.
	manyPerCall = 8
)

// MaxUserDepth is of how many calls of functions of the process in one thread the kernel sees the returns at once.
const MaxUserDepth = uint32(engineUserLimitUSER_DEPTH)

// NewStash returns a stash whose frames have data bytes for values. A call takes perCall frames at most.
func NewStash(data, perCall uint32) Stash {
	groupBits := 4
	if perCall > manyPerCall {
		groupBits = 6
	}
	return newStash((uint32(FrameSize)+data+7)&^7, groupBits)
}

func newStash(frame uint32, groupBits int) Stash {
	room := (maxTable - int(unsafe.Sizeof(engineStashHead{}))) / int(frame)
	return Stash{frame, max(min(bits.Len(uint(room))-1, maxHomeBits), groupBits), groupBits}
}

// Larger returns a stash with room for the calls of either.
func (s Stash) Larger(other Stash) Stash {
	if s.Holds(other) {
		return s
	}
	return newStash(max(s.frame, other.frame), max(s.groupBits, other.groupBits))
}

// Holds reports whether the frames and groups of s are large enough for the calls of other.
func (s Stash) Holds(other Stash) bool {
	return s.frame >= other.frame && s.groupBits >= other.groupBits
}

// FarFrames returns the default of Settings.InFlight on a machine with so many bytes of memory: as
// many frames as fit into a 256th of it, but at least into 2 MiB and at most into 32 MiB.
func (s Stash) FarFrames(memory uint64) int {
	return int(min(max(memory/256, 2<<20), 32<<20)) / int(s.frame)
}

// Size returns how many bytes the stash takes with far frames besides those in the table.
func (s Stash) Size(far int) int {
	return s.table() + s.farGroups(far)*int(s.frame)<<s.groupBits
}

func (s Stash) table() int {
	return int(unsafe.Sizeof(engineStashHead{})) + int(s.frame)<<s.homeBits
}

// With fewer than minFarGroups groups, the two groups of a stack would too often be the same.
const minFarGroups = 8

// farGroups returns how many groups are needed for so many frames.
func (s Stash) farGroups(frames int) int {
	return max((frames+1<<s.groupBits-1)>>s.groupBits, minFarGroups)
}

// set sets the engine up for the stash. If it has no frames, set removes what only it needs.
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

// AppendHome appends the code that sets frame to the home of the frame of sp, as of FuncOpen, and
// probe. R0 changes.
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

// AppendClaim appends the code that takes the frame at frame for sp, if it is free. R0 is 0 then,
// else the address that the frame has.
func AppendClaim(dst asm.Instructions, frame, sp asm.Register) asm.Instructions {
	return append(dst, asm.Mov.Imm(asm.R0, 0), atomically(asm.CmpXchg, frame, sp, int16(FrameName)))
}

// AppendFree appends the code that frees the frame at frame, which is in the table. R0 changes.
// Unless the machine keeps stores in order, the store is an exchange, which is a full barrier.
func AppendFree(dst asm.Instructions, frame asm.Register, storesInOrder bool) asm.Instructions {
	dst = append(dst, asm.Mov.Imm(asm.R0, 0))
	if storesInOrder {
		return append(dst, asm.StoreMem(frame, int16(FrameName), asm.R0, asm.DWord))
	}
	return append(dst, atomically(asm.Xchg, frame, asm.R0, int16(FrameName)))
}

// AppendFar appends the code that sets reg to the number of frames that are taken far away.
func AppendFar(dst asm.Instructions, reg asm.Register) asm.Instructions {
	return append(dst,
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: reg, Src: asm.PseudoMapValue}.WithReference(mapStash),
		asm.LoadMem(reg, reg, int16(unsafe.Offsetof(engineStashHead{}.Far)), asm.Word))
}
