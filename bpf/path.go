// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"unsafe"

	"github.com/cilium/ebpf"
)

// A Paths says for how many ways through functions there is room. The zero value is for none.
type Paths struct {
	Open  int // calls in different threads at once, at least
	Sites int // probes
}

// The program of all probes of ways, and its sites. The program is there if Settings.Paths is for any.
const (
	ProgPathStep = engineProgPathStep
	MapPathSites = engineMapPathSites
)

// PathSteps is how many steps of the calls of one thread are kept.
const PathSteps = int(enginePathLimitPATH_STEPS)

const (
	pathHeadSize   = int(unsafe.Sizeof(enginePathHead{}))
	pathStepSize   = int(unsafe.Sizeof(enginePath{}.Step[0]))
	pathUnreadable = uint32(enginePathLimitPATH_UNREADABLE)
)

func (p *Paths) set(spec *ebpf.CollectionSpec) error {
	if p.Sites == 0 {
		delete(spec.Programs, ProgPathStep)
		return set(spec, engineVarPathMask, uint32(0))
	}
	places := uint32(2)
	for int(places) < 2*p.Open {
		places *= 2
	}
	spec.Maps[engineMapPaths].MaxEntries = places
	spec.Maps[MapPathSites].MaxEntries = uint32(2 * p.Sites)
	return set(spec, engineVarPathMask, places-1)
}

// size is how much room the section of a path takes in a record.
func (p *Paths) size() uint32 {
	if p.Sites == 0 {
		return 0
	}
	return uint32(sectionSize + pathHeadSize + PathSteps*pathStepSize)
}

// A PathSite is what a probe of a way takes: a value of MapPathSites, whose keys are addresses.
type PathSite struct {
	Probe, Index uint32 // of the plan, and of the site in its function
	Word         int    // of pt_regs, which decides where a jump goes; negative: none
	Operands     []PathOperand
}

// A PathOperand is a value that a jump depends on.
type PathOperand struct {
	Memory      bool
	Base, Index int // words of pt_regs; negative: none
	Scale, Size int
	Disp        int64
}

// noPathWord stands for no word of pt_regs.
const noPathWord = 0xff

func pathWord(word int) uint8 {
	if word < 0 || word >= noPathWord {
		return noPathWord
	}
	return uint8(word)
}

// Value returns the site as the engine has it.
func (s *PathSite) Value() any {
	v := enginePathSite{Probe: s.Probe, Index: s.Index, Word: uint32(pathWord(s.Word))}
	for i := range v.Operand {
		to := &v.Operand[i]
		to.Base, to.Index = noPathWord, noPathWord
		if i < len(s.Operands) {
			o := &s.Operands[i]
			to.Base, to.Index, to.Scale, to.Size, to.Disp = pathWord(o.Base), pathWord(o.Index), uint8(o.Scale), uint8(o.Size), o.Disp
			to.Memory = uint32(flag(o.Memory))
		}
	}
	return v
}

// A PathStep is what a probe of a way has seen.
type PathStep struct {
	Site       int
	Word       uint64
	Value      [2]uint64 // of the operands
	Unreadable [2]bool
}

// AppendPath appends the steps of a section with a path. Between the steps before gap and those
// behind it, missing ones are not there.
func AppendPath(dst []PathStep, s Section) (steps []PathStep, gap, missing int) {
	if len(s.Data) < pathHeadSize {
		return dst, 0, 0
	}
	le := binary.LittleEndian
	var head enginePathHead
	count, room := int(le.Uint32(s.Data[unsafe.Offsetof(head.Count):])), int(le.Uint32(s.Data[unsafe.Offsetof(head.Room):]))
	data := s.Data[pathHeadSize:]
	kept := min(len(data)/pathStepSize, PathSteps) // no version has written more
	gap = kept
	at := func(i int) int { return i }
	if count > kept {
		missing, gap = count-kept, kept/2
		if ring := kept - gap; ring > 0 && room == kept {
			oldest := missing % ring
			at = func(i int) int {
				if i < gap {
					return i
				}
				return gap + (i-gap+oldest)%ring
			}
		}
	}
	for i := range kept {
		dst = append(dst, decodeStep(data[at(i)*pathStepSize:]))
	}
	return dst, gap, missing
}

func decodeStep(raw []byte) PathStep {
	var p enginePath
	le := binary.LittleEndian
	flags := le.Uint32(raw[unsafe.Offsetof(p.Step[0].Flags):])
	s := PathStep{Site: int(le.Uint32(raw[unsafe.Offsetof(p.Step[0].Site):])), Word: le.Uint64(raw[unsafe.Offsetof(p.Step[0].Word):])}
	for i := range s.Value {
		s.Value[i] = le.Uint64(raw[int(unsafe.Offsetof(p.Step[0].Value))+8*i:])
		s.Unreadable[i] = flags&(pathUnreadable<<i) != 0
	}
	return s
}

// AppendSteps is the inverse of AppendPath for a path that lacks nothing, for tests.
func AppendSteps(dst []byte, steps []PathStep) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(le.AppendUint32(dst, uint32(len(steps))), uint32(PathSteps))
	for i := range steps {
		s, flags := &steps[i], uint32(0)
		for j, bad := range s.Unreadable {
			flags |= uint32(flag(bad)) * pathUnreadable << j
		}
		dst = le.AppendUint32(le.AppendUint32(dst, uint32(s.Site)), flags)
		dst = le.AppendUint64(le.AppendUint64(le.AppendUint64(dst, s.Word), s.Value[0]), s.Value[1])
	}
	return dst
}
