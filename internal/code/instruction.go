// SPDX-License-Identifier: Apache-2.0

package code

// A Flow says where execution goes after an instruction.
type Flow uint8

const (
	Next     Flow = iota // on to the instruction behind it; calls come back there
	Jump                 // to Target
	Branch               // to Target if Test says so, else on
	Leave                // back to the caller
	Indirect             // to where a register or memory says
	Unknown              // it cannot be decoded
)

// An Instruction is one instruction of a function.
type Instruction struct {
	Addr   uint64
	Len    int
	flow   Flow
	Target uint64 // of a Jump or Branch
	Test   Test   // of a Branch
	// padding says that it only fills up room, or that nothing goes on behind it.
	padding bool
	// flags says whether it sets the flags that branches test.
	flags bool
	// writes are the registers that it changes, as words, as far as that matters to a test
	// behind it; anyWord if that is not known.
	writes int
	stores bool // it writes memory
	// operands are what it compares or, if it computes, its result.
	operands []Operand
}

// What Instruction.writes may be besides the number of a word.
const (
	noWord  = -1
	anyWord = -2
)

// End is the address behind the instruction.
func (i *Instruction) End() uint64 { return i.Addr + uint64(i.Len) }

// A Test is what decides whether a conditional jump jumps.
type Test struct {
	Kind TestKind
	Code uint8 // of flags: the condition, as the architecture numbers it
	Word int   // the word that is tested: the flags or a register
	Bits int   // how many bits of the word count, or the number of the bit
}

// flags reports whether it tests the flags, not a register.
func (t Test) flags() bool { return t.Kind == FlagsAMD64 || t.Kind == FlagsARM64 }

// bit reports whether it tests one bit of a register.
func (t Test) bit() bool { return t.Kind == BitClear || t.Kind == BitSet }

// sign reports whether it tests the sign of a register, or of its lower half.
func (t Test) sign() bool { return t.bit() && (t.Bits == 31 || t.Bits == 63) }

// A TestKind is a kind of Test.
type TestKind uint8

const (
	FlagsAMD64 TestKind = iota // Code of the flags of amd64
	FlagsARM64                 // Code of the condition flags of arm64
	Zero                       // the low Bits are all 0
	NotZero                    // they are not
	BitClear                   // bit number Bits is 0
	BitSet                     // it is 1
)

// An Operand is a value that decides a branch: a register, or what is in memory.
type Operand struct {
	Text   string // as the assembler writes it
	Memory bool
	Size   int // in bytes
	Shift  int // bits of the register below the operand: 8 for %ah
	// Base is the register, or that of the address; Index is multiplied by Scale. They are
	// words of pt_regs, or -1.
	Base, Index int
	Scale       int
	Disp        int64 // or, without Base, the address
}

// Part returns an operand's value, of what its register or memory holds.
func (o *Operand) Part(v uint64) uint64 { return low(v>>o.Shift, o.Size) }

// low returns the low bytes of a number.
func low(v uint64, size int) uint64 {
	if size >= 8 {
		return v
	}
	return v & (1<<(8*size) - 1)
}
