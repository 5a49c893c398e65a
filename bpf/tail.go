// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// A Take says what the tail of a record holds. Generated code passes it together with the record's kind.
type Take uint32

const (
	TakeStacks   = Take(engineTakeTAKE_STACKS)
	TakeBranches = Take(engineTakeTAKE_BRANCHES)
	TakeCaller   = Take(engineTakeTAKE_CALLER)
	TakePath     = Take(engineTakeTAKE_PATH)
	takeShift    = engineTakeTAKE_SHIFT
)

// With returns the argument of FuncSendTail and FuncFinishTail for a record of kind k.
func (t Take) With(k Kind) int32 { return int32(uint32(t)<<takeShift | uint32(k)) }

// Tail is what follows the values of records that ask for it.
type Tail struct {
	Stack     uint32 // addresses of the kernel's stack at most; 0: not wanted
	UserStack uint32 // the same of the user's stack
	UserCopy  uint32 // bytes of the user's stack, for whoever unwinds it; 0: not wanted
	// Caller says that only the caller of the traced function is wanted. Stack must be large
	// enough for the addresses that may come before it.
	Caller   bool
	Branches bool
	// AllBranches says that branches of every kind are recorded: then the code between two of
	// them is known.
	AllBranches bool
	// Silent are the CPUs that record no branches.
	Silent []int
	// Data is how many bytes of values a record with a tail has, at most.
	Data uint32
}

const (
	addressSize = 8
	// BranchSize is the size of a branch record, struct perf_branch_entry.
	BranchSize = int(unsafe.Sizeof(engineSnapshots{}.Ring[0].Entries[0]))
	// MaxBranches is how many branches a snapshot holds.
	MaxBranches = len(engineSnapshots{}.Ring[0].Entries)
	// scratchPerCPU is how many records with a tail one CPU can work on at once.
	scratchPerCPU = uint32(engineLimitSCRATCH_PER_CPU)
	snapshotCount = len(engineSnapshots{}.Ring)
	snapshotSize  = int(unsafe.Sizeof(engineSnapshots{}.Ring[0]))
	userCopyStep  = uint32(engineUserLimitUSER_COPY_STEP)
	sectionSize   = int(unsafe.Sizeof(engineSection{})) // of its header
	// userReturnsSize is that of all calls whose returns are probed that a copy of a stack has room for.
	userReturnsSize = int(engineUserLimitUSER_RETURNS) * int(unsafe.Sizeof(engineUserReturn{}))
)

// size is the size of a buffer for a record with the tail, of which path bytes are for ways; 0 if
// there is no tail.
func (t *Tail) size(path uint32) uint32 {
	if t.Stack == 0 && t.UserStack == 0 && t.UserCopy == 0 && !t.Branches && path == 0 {
		return 0
	}
	n := uint32(unsafe.Sizeof(engineScratch{})) + t.Data + path
	n += 2*uint32(sectionSize) + addressSize*(t.Stack+t.UserStack)
	if t.UserCopy > 0 {
		n += uint32(sectionSize) + addressSize*uint32(engineUserLimitUSER_WORDS_ARM64) + uint32(userReturnsSize) + t.UserCopy + userCopyStep
	}
	return n + uint32(sectionSize+MaxBranches*BranchSize)
}

// prepare sets number and size of the buffers: those of the CPUs, and one that nobody claims. If size is 0, none is needed.
func prepare(spec *ebpf.CollectionSpec, size uint32) error {
	if size == 0 {
		return nil
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("counting the CPUs: %w", err)
	}
	none := uint32(cpus) * scratchPerCPU
	scratches := spec.Maps[engineMapScratches]
	scratches.MaxEntries = none + 1
	resize(scratches, int(size))
	return set(spec, engineVarNoBuffer, none)
}

func (t *Tail) config() engineTailConfig {
	c := engineTailConfig{Stack: addressSize * t.Stack, UserStack: addressSize * t.UserStack, UserCopy: t.UserCopy}
	if t.Caller {
		c.StackFlags = uint32(engineSectionFlagSECTION_CALLER)
	}
	c.Branches = uint32(flag(t.Branches))
	if t.AllBranches {
		c.BranchFlags = uint32(engineSectionFlagSECTION_ALL)
	}
	for _, cpu := range t.Silent {
		if cpu < 64*len(c.Silent) {
			c.Silent[cpu/64] |= 1 << (cpu % 64)
		}
	}
	return c
}

// AppendSnapshot appends the code that takes a branch snapshot. It has no call of its own and no
// jump, since each would push out the oldest branch. It moves the context from R1 to ctx, and sets
// ticket to what FuncSendTail takes. R0 to R5 and R7 change.
func AppendSnapshot(dst asm.Instructions, ctx, ticket asm.Register) asm.Instructions {
	l := engineSnapshots{}
	ring := int32(unsafe.Offsetof(l.Ring))
	return append(dst,
		asm.Mov.Reg(ctx, asm.R1),
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R7, Src: asm.PseudoMapValue}.WithReference(engineMapBranches),
		asm.Mov.Imm(ticket, 1),
		atomically(asm.FetchAdd, asm.R7, ticket, int16(unsafe.Offsetof(l.Next))),
		asm.Mov.Reg(asm.R2, ticket),
		asm.And.Imm(asm.R2, int32(snapshotCount-1)),
		asm.Mul.Imm(asm.R2, int32(snapshotSize)),
		asm.Add.Reg(asm.R7, asm.R2),
		asm.Mov.Reg(asm.R2, ticket),
		atomically(asm.Xchg, asm.R7, asm.R2, int16(ring)+int16(unsafe.Offsetof(l.Ring[0].Ticket))),
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.Add.Imm(asm.R1, ring+int32(unsafe.Offsetof(l.Ring[0].Entries))),
		asm.Mov.Imm(asm.R2, int32(unsafe.Sizeof(l.Ring[0].Entries))),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnGetBranchSnapshot.Call(),
		asm.StoreMem(asm.R7, int16(ring)+int16(unsafe.Offsetof(l.Ring[0].Size)), asm.R0, asm.DWord),
	)
}

// A SectionKind says what a section of a record's tail holds.
type SectionKind uint16

const (
	SectionStack     = SectionKind(engineSectionKindSECTION_STACK)      // addresses in the kernel, innermost first
	SectionUserStack = SectionKind(engineSectionKindSECTION_USER_STACK) // the same in user space
	SectionBranches  = SectionKind(engineSectionKindSECTION_BRANCHES)   // branch records, newest first
	SectionPath      = SectionKind(engineSectionKindSECTION_PATH)       // steps of a way, see AppendPath
	SectionUserCopy  = SectionKind(engineSectionKindSECTION_USER_COPY)  // see DecodeUserCopy
)

// A Section is one part of a record's tail.
type Section struct {
	Kind SectionKind
	// Cut says that there may be more than there was room for.
	Cut bool
	// Caller says that only the first caller is wanted.
	Caller bool
	// All says that branches of every kind were recorded.
	All bool
	// Unwound says that the stack is not that of the kernel: see UserFrame.
	Unwound bool
	// Errno says why there are no data; 0 if nothing kept them from being taken.
	Errno uint32
	Data  []byte
}

// unit is the size of an element of a section, 0 for an unknown kind.
func (k SectionKind) unit() int {
	switch k {
	case SectionStack, SectionUserStack, SectionUserCopy:
		return addressSize
	case SectionBranches:
		return BranchSize
	case SectionPath:
		return addressSize // which the sizes of its head and of a step are multiples of
	}
	return 0
}

// DecodeBranch reads one branch record; raw has at least BranchSize bytes. flags are those of struct
// perf_branch_entry.
func DecodeBranch(raw []byte) (from, to, flags uint64) {
	var l enginePerfBranchEntry
	le := binary.LittleEndian
	return le.Uint64(raw[unsafe.Offsetof(l.From):]), le.Uint64(raw[unsafe.Offsetof(l.To):]), le.Uint64(raw[unsafe.Offsetof(l.Flags):])
}

// DecodeSection reads the first section of a tail and returns what follows it.
func DecodeSection(tail []byte, s *Section) (rest []byte, err error) {
	if len(tail) < sectionSize {
		return nil, fmt.Errorf("section of %d bytes is shorter than its header", len(tail))
	}
	var l engineSection
	le := binary.LittleEndian
	kind, flags := le.Uint16(tail[unsafe.Offsetof(l.Kind):]), le.Uint16(tail[unsafe.Offsetof(l.Flags):])
	size := int32(le.Uint32(tail[unsafe.Offsetof(l.Size):]))
	*s = Section{Kind: SectionKind(kind), Cut: flags&uint16(engineSectionFlagSECTION_CUT) != 0,
		All: flags&uint16(engineSectionFlagSECTION_ALL) != 0, Caller: flags&uint16(engineSectionFlagSECTION_CALLER) != 0,
		Unwound: flags&uint16(engineSectionFlagSECTION_UNWOUND) != 0}
	tail = tail[sectionSize:]
	unit := s.Kind.unit()
	switch {
	case unit == 0:
		return nil, fmt.Errorf("section of unknown kind %d", kind)
	case size < 0:
		s.Errno = uint32(-size)
		return tail, nil
	case int(size) > len(tail) || int(size)%unit != 0:
		return nil, fmt.Errorf("section of %d bytes in %d", size, len(tail))
	}
	s.Data = tail[:size:size]
	return tail[size:], nil
}

// AppendSection is the inverse of DecodeSection.
func AppendSection(dst []byte, s *Section) []byte {
	le, flags, size := binary.LittleEndian, uint16(0), int32(len(s.Data))
	if s.Cut {
		flags |= uint16(engineSectionFlagSECTION_CUT)
	}
	if s.All {
		flags |= uint16(engineSectionFlagSECTION_ALL)
	}
	if s.Caller {
		flags |= uint16(engineSectionFlagSECTION_CALLER)
	}
	if s.Unwound {
		flags |= uint16(engineSectionFlagSECTION_UNWOUND)
	}
	if s.Errno != 0 {
		size = -int32(s.Errno)
	}
	dst = le.AppendUint16(le.AppendUint16(dst, uint16(s.Kind)), flags)
	return append(le.AppendUint32(dst, uint32(size)), s.Data...)
}
