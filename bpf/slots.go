// SPDX-License-Identifier: Apache-2.0

package bpf

import "unsafe"

// A Slot describes one value of a record that the engine captures without generated code.
type Slot struct {
	Kind   SlotKind
	Word   int // index of a word of the arguments, ResultWord or PlaceWord
	Width  int // of a number, in bytes
	Signed bool
	User   bool // the word points to user space
	Off    uint32
	Size   uint32
	Index  int // of the slot in the record, for Event.Faults
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
	// ListedWords is how many words of arguments slots can be made of.
	ListedWords = MaxArgWords
	// ResultWord stands for the result.
	ResultWord = int(engineListLimitRESULT_WORD)
	// PlaceWord stands for the place of a call of a function of the process.
	PlaceWord = int(engineListLimitPLACE_WORD)
	// listReach is how large a buffer must be for the verifier, which only knows the bounds of a slot.
	listReach = uint32(unsafe.Sizeof(engineScratch{})) + uint32(engineListLimitLIST_MASK) + 1 + uint32(engineListLimitLIST_OBJECT)
)

// A SlotList describes what is captured at one end of a call, Size bytes of data.
type SlotList struct {
	Size  uint32
	Slots []Slot
}

// PutLists stores the lists of a probe in m, which is MapLists.
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
