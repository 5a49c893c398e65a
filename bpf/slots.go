// SPDX-License-Identifier: Apache-2.0

package bpf

import "unsafe"

// A Slot is a value of a record that is captured as data say, without
// generated code.
type Slot struct {
	Kind   SlotKind
	Word   int // of the arguments, in the order of words; ResultWord
	Width  int // of a number, in bytes
	Signed bool
	User   bool // what the word points to is in user space
	Off    uint32
	Size   uint32
	Index  int // of the record's slots
}

// A SlotKind says what a slot holds.
type SlotKind uint8

const (
	SlotWord  = SlotKind(engineSlotKindSLOT_WORD)  // the word itself, a number
	SlotLoad  = SlotKind(engineSlotKindSLOT_LOAD)  // the number that it points to
	SlotBytes = SlotKind(engineSlotKindSLOT_BYTES) // as many bytes that it points to
	SlotText  = SlotKind(engineSlotKindSLOT_TEXT)  // the string that it points to
)

const (
	// MaxListed is how many slots a list holds.
	MaxListed = len(engineSlotList{}.Slot)
	// ListedWords is how many words of arguments can be asked for.
	ListedWords = MaxArgWords
	// ResultWord is the word that a function returns.
	ResultWord = int(engineListLimitRESULT_WORD)
	// listReach is how far into a buffer a slot of a list can reach, as far as
	// the verifier knows.
	listReach = uint32(unsafe.Sizeof(engineScratch{})) + uint32(engineListLimitLIST_MASK) + 1 + uint32(engineListLimitLIST_OBJECT)
)

// A SlotList is what is captured at one end of a call: Size bytes of data.
type SlotList struct {
	Size  uint32
	Slots []Slot
}

// PutLists stores what a probe captures at its two ends in the map of that name.
func PutLists(m interface{ Put(key, value any) error }, probe uint32, entry, ret SlotList) error {
	var value [2]engineSlotList
	for i, list := range [...]SlotList{entry, ret} {
		value[i].Size, value[i].Count = list.Size, uint32(len(list.Slots))
		for j, s := range list.Slots {
			to := &value[i].Slot[j]
			to.Kind, to.Word, to.Width, to.Off = engineSlotKind(s.Kind), uint8(s.Word), uint8(s.Width), uint16(s.Off)
			to.Size, to.Index = uint16(s.Size), uint16(s.Index)
			if s.Signed {
				to.Flags |= engineSlotFlagSLOT_SIGNED
			}
			if s.User {
				to.Flags |= engineSlotFlagSLOT_USER
			}
		}
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&value)), unsafe.Sizeof(value))
	return m.Put(probe, raw)
}
