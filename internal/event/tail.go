// SPDX-License-Identifier: Apache-2.0

package event

import (
	"encoding/binary"

	"github.com/ksnoop/ksnoop/bpf"
)

// A Tail is what follows the values of a record: sections with stacks and branches. Decode
// has checked it.
type Tail []byte

// checkTail returns an error if the sections of a tail are malformed.
func checkTail(t Tail) (err error) {
	var s bpf.Section
	for len(t) > 0 && err == nil {
		t, err = bpf.DecodeSection(t, &s)
	}
	return err
}

// Section returns the section of this kind. ok is false if there is none.
func (t Tail) Section(kind bpf.SectionKind) (s bpf.Section, ok bool) {
	for len(t) > 0 {
		var err error
		if t, err = bpf.DecodeSection(t, &s); err != nil {
			return bpf.Section{}, false
		}
		if s.Kind == kind {
			return s, true
		}
	}
	return bpf.Section{}, false
}

// AppendAddresses appends the return addresses of a stack section, innermost first.
func AppendAddresses(dst []uint64, s bpf.Section) []uint64 {
	for b := s.Data; len(b) >= 8; b = b[8:] {
		addr := binary.LittleEndian.Uint64(b)
		if f := bpf.UserFrame(addr); s.Unwound {
			if _, end := f.End(); end {
				break
			}
			addr = f.Addr()
		}
		dst = append(dst, addr)
	}
	return dst
}

// AppendUserFrames appends the frames of a stack of user space, innermost first, and returns why
// it ends, as bpf.UserFrame.End does; 0 if there are no more, or nothing is known. The kernel's own
// are found by frame pointers.
func AppendUserFrames(dst []bpf.UserFrame, s bpf.Section) (frames []bpf.UserFrame, end uint8) {
	const byPointer = 3 // as unwind.ByPointer
	for b, first := s.Data, true; len(b) >= 8; b, first = b[8:], false {
		f := bpf.UserFrame(binary.LittleEndian.Uint64(b))
		if !s.Unwound {
			// Without frame pointers, the unwinder may be led anywhere.
			if addr := uint64(f); addr == 0 || addr != f.Addr() {
				break
			}
			way := uint8(byPointer)
			if first {
				way = 0
			}
			f = bpf.NewUserFrame(f.Addr(), way, first)
		} else if why, ok := f.End(); ok {
			return dst, why
		}
		dst = append(dst, f)
	}
	return dst, 0
}

// A Branch is a branch that the CPU recorded.
type Branch struct {
	From, To uint64
	Flags    uint64 // as in struct perf_branch_entry of the kernel
}

// Mispredicted reports whether the CPU predicted the branch wrongly. known is false if it
// does not tell.
func (b Branch) Mispredicted() (miss, known bool) { return b.Flags&1 != 0, b.Flags&3 != 0 }

// InTransaction reports whether the branch was taken inside a memory transaction.
func (b Branch) InTransaction() bool { return b.Flags&4 != 0 }

// Aborted reports whether the branch is the abort of a transaction.
func (b Branch) Aborted() bool { return b.Flags&8 != 0 }

// Cycles returns the CPU cycles since the previous branch, or 0 if the CPU does not tell.
func (b Branch) Cycles() uint16 { return uint16(b.Flags >> 4) }

// AppendBranches appends the branches of a section, newest first.
func AppendBranches(dst []Branch, s bpf.Section) []Branch {
	for data := s.Data; len(data) >= bpf.BranchSize; data = data[bpf.BranchSize:] {
		var b Branch
		b.From, b.To, b.Flags = bpf.DecodeBranch(data)
		dst = append(dst, b)
	}
	return dst
}
