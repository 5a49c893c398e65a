// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// A Table is the shape of the table of one aggregation.
type Table struct {
	KeyWords, RowWords int // of 8 bytes
	// Single says that a call changes one word of a row. A table without a key then has one half only:
	// Take exchanges each word for 0, so that each call is either in what it yields or in what it leaves.
	Single bool
}

// Tables is the layout of all tables of a request; summary.h explains it. The zero value has none.
type Tables struct {
	tables []table
	half   int // bytes
	shards int // a power of two
}

type table struct {
	engineTable
	single bool // only its part of the first half is used
}

// MaxTables is how many tables a request may have.
const MaxTables = int(engineTableLimitTABLES)

const (
	placeHeader = int(unsafe.Offsetof(engineTablePlace{}.Words))
	shardHeader = int(unsafe.Offsetof(engineTableShard{}.Places))
	// shardAlign keeps the shards of different CPUs in cache lines of their own.
	shardAlign = 64
	wordSize   = 8
	// maxTables is how far into a value the verifier lets programs reach (BPF_MAX_VAR_OFF).
	maxTables    = 1 << 29
	keptStackMax = int(engineTableLimitKEPT_STACK_MAX)
)

// NewTables returns the layout of tables with room for so many keys each on each CPU. If they take
// more than limit bytes, several CPUs share a shard.
func NewTables(shapes []Table, keys, cpus, limit int) (Tables, error) {
	if len(shapes) > MaxTables {
		return Tables{}, fmt.Errorf("%d tables are wanted, the limit is %d", len(shapes), MaxTables)
	}
	t := Tables{shards: 1 << bits.Len(uint(max(cpus, 1)-1))}
	for ; ; t.shards /= 2 {
		t.tables, t.half = nil, 0
		for _, s := range shapes {
			t.add(s, keys)
		}
		if 2*t.half <= min(limit, maxTables) {
			return t, nil
		}
		if t.shards == 1 {
			return Tables{}, fmt.Errorf("tables with %d keys take %d MiB, and the limit is %d MiB", keys, 2*t.half>>20, min(limit, maxTables)>>20)
		}
	}
}

func (t *Tables) add(s Table, keys int) {
	places := 1
	if s.KeyWords > 0 {
		places = 1 << bits.Len(uint(2*keys-1)) // a fuller table would need more places tried
	} else {
		keys = 1
	}
	e := engineTable{Offset: uint32(t.half), KeyWords: uint32(s.KeyWords), Keys: uint32(keys), PlaceMask: uint32(places - 1),
		PlaceShift: uint32(32 - bits.Len(uint(places-1)))}
	place := placeHeader + wordSize*(s.KeyWords+s.RowWords)
	shard := (shardHeader + places*place + shardAlign - 1) &^ (shardAlign - 1)
	e.Place, e.Shard = uint32(place), uint32(shard)
	t.half += shard * t.shards
	t.tables = append(t.tables, table{e, s.Single && s.KeyWords == 0})
}

// Len returns the number of tables.
func (t *Tables) Len() int { return len(t.tables) }

// Size returns how many bytes the tables take, and Shards over how many shards they are spread.
func (t *Tables) Size() int { return 2 * t.half }

// Shards returns how many parts each table has; see Size.
func (t *Tables) Shards() int { return t.shards }

// Spread reports whether each of so many CPUs has a shard of its own.
func (t *Tables) Spread(cpus int) bool { return t.shards >= cpus }

const (
	mapRows = ".data.rows"
	mapHalf = ".data.half"
	// VarHalf is the half that programs use, 0 or 1.
	VarHalf = engineVarRowsHalf
	// MapStacks has the kept stacks.
	MapStacks = engineMapStacks
)

// MapRows is the map that the tables are in, a single value of Tables.Size bytes.
const MapRows = mapRows

// KeptStackSize is the most bytes of a stack that are kept.
const KeptStackSize = wordSize * keptStackMax

// scratchOfStack is the size of a buffer in which a stack is taken.
const scratchOfStack = uint32(unsafe.Sizeof(engineScratch{}) + unsafe.Sizeof(engineKeptStack{}.Address))

// KeptStacks is how many stacks there is room for, all tables together.
const KeptStacks = 8192

// set sets the engine up for the tables. stacks says that keys name stacks.
func (t *Tables) set(spec *ebpf.CollectionSpec, stacks bool) error {
	var all [MaxTables]engineTable
	for i := range t.tables {
		all[i] = t.tables[i].engineTable
	}
	for name, v := range map[string]any{engineVarTables: all, engineVarHalfSize: uint32(t.half), engineVarShardMask: uint32(max(t.shards, 1) - 1)} {
		if err := set(spec, name, v); err != nil {
			return err
		}
	}
	rows := spec.Maps[mapRows]
	enlarge(rows, "rows", max(t.Size(), 8))
	rows.Flags |= unix.BPF_F_MMAPABLE
	if !stacks {
		return nil
	}
	spec.Maps[MapStacks].MaxEntries = KeptStacks
	return set(spec, engineVarStackMask, uint32(KeptStacks-1))
}

// Sharded reports whether the code that finds a row needs the number of the CPU.
func (t *Tables) Sharded() bool { return t.shards > 1 }

// AppendRow appends the code that sets reg to the row of a table without a key. R0 has the number of
// the CPU if that is needed, and changes only then. R3 changes.
func (t *Tables) AppendRow(dst asm.Instructions, reg asm.Register, table int) asm.Instructions {
	const base = asm.R3
	if !t.entry(table).single {
		dst = t.appendShard(dst, reg, table)
		dst = t.appendPlaces(dst, base, table, placeHeader)
		return append(dst, asm.Add.Reg(reg, base))
	}
	dst = t.appendPlaces(dst, reg, table, placeHeader)
	if !t.Sharded() {
		return dst
	}
	dst = t.appendCPU(dst, table)
	return append(dst, asm.Add.Reg(reg, asm.R0))
}

// KnownWords is how many words a key may have for AppendKnownRow.
const KnownWords = 4

const (
	hashFactor = -0x61C8864680B583EB // of mix() in summary.h, or each key would be searched for
	hashUsed   = 2                   // HASH_USED there
)

// AppendKnownRow appends the code that sets reg to the row of a key of so many words, which is at offset
// key of the program's stack, in bytes. The code looks in the first place for its hash only, and jumps to other
// if the key is not there: FuncRow finds the row then. R0 has the number of the CPU if that is needed; R0, R2 and
// R3 change.
func (t *Tables) AppendKnownRow(dst asm.Instructions, reg asm.Register, table, words int, key int16, other string) asm.Instructions {
	const hash, factor = asm.R2, asm.R3
	e := t.entry(table)
	dst = t.appendShard(dst, reg, table)
	dst = append(dst, asm.LoadImm(factor, hashFactor, asm.DWord))
	for i := range int16(words) {
		word := hash
		if i > 0 {
			word = asm.R0
		}
		dst = append(dst, asm.LoadMem(word, asm.RFP, key+wordSize*i, asm.DWord))
		if i > 0 {
			dst = append(dst, asm.Xor.Reg(hash, word))
		}
		dst = append(dst, asm.Mul.Reg(hash, factor), asm.RSh.Imm(hash, 32))
	}
	dst = append(dst, asm.Or.Imm(hash, hashUsed),
		asm.Mov.Reg(asm.R0, hash), asm.RSh.Imm(asm.R0, int32(e.PlaceShift)), asm.Mul.Imm(asm.R0, int32(e.Place)), asm.Add.Reg(reg, asm.R0))
	dst = t.appendPlaces(dst, asm.R0, table, 0)
	dst = append(dst, asm.Add.Reg(reg, asm.R0),
		asm.LoadMem(asm.R0, reg, int16(unsafe.Offsetof(engineTablePlace{}.State)), asm.Word), asm.JNE.Reg(asm.R0, hash, other))
	for i := range int16(words) {
		dst = append(dst, asm.LoadMem(asm.R0, reg, int16(placeHeader)+wordSize*i, asm.DWord),
			asm.LoadMem(hash, asm.RFP, key+wordSize*i, asm.DWord), asm.JNE.Reg(asm.R0, hash, other))
	}
	return append(dst, asm.Add.Imm(reg, int32(placeHeader)+wordSize*int32(words)))
}

// entry returns a table; the zero value if there is none, since the code is only shown then.
func (t *Tables) entry(i int) (e table) {
	if i < len(t.tables) {
		e = t.tables[i]
	}
	return e
}

// appendShard appends the code that sets reg to how far the CPU's shard is from the first one of the
// table in the first half.
func (t *Tables) appendShard(dst asm.Instructions, reg asm.Register, table int) asm.Instructions {
	dst = appendLoad(dst, reg, mapHalf)
	dst = append(dst, asm.And.Imm(reg, 1), asm.Mul.Imm(reg, int32(t.half)))
	if t.Sharded() {
		dst = t.appendCPU(dst, table)
		dst = append(dst, asm.Add.Reg(reg, asm.R0))
	}
	return dst
}

// appendCPU appends the code that makes of the number of the CPU in R0 how far its shard is from the first one.
func (t *Tables) appendCPU(dst asm.Instructions, table int) asm.Instructions {
	return append(dst, asm.And.Imm(asm.R0, int32(t.shards-1)), asm.Mul.Imm(asm.R0, int32(t.entry(table).Shard)))
}

// appendPlaces appends the code that sets reg to the address skip bytes behind the beginning of the table's
// first place in its first shard of the first half.
func (t *Tables) appendPlaces(dst asm.Instructions, reg asm.Register, table, skip int) asm.Instructions {
	at := uint64(t.entry(table).Offset) + uint64(shardHeader+skip)
	return append(dst,
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: reg, Src: asm.PseudoMapValue, Constant: int64(at << 32)}.WithReference(mapRows))
}

// AppendAdd appends the code that adds reg to a word of the row at row.
func AppendAdd(dst asm.Instructions, row, reg asm.Register, word int) asm.Instructions {
	return append(dst, atomically(asm.AddAtomic, row, reg, int16(wordSize*word)))
}

// stackAtOnce is STACK_AT_ONCE of summary.h.
const stackAtOnce = 4

// AppendStackHash appends the code that sets R2 to a hash of the kernel's stack of R0 bytes that is at
// offset address of the program's frame. There is room for so many addresses, and what is behind the last
// one is 0. hashed is a label for use within. R1 and R3 change.
func AppendStackHash(dst asm.Instructions, address, room int16, hashed string) asm.Instructions {
	const word, hash, factor = asm.R1, asm.R2, asm.R3
	dst = append(dst, asm.LoadImm(factor, hashFactor, asm.DWord))
	for i := range room {
		if i == 0 {
			dst = append(dst, asm.LoadMem(hash, asm.RFP, address, asm.DWord))
		} else {
			dst = append(dst, asm.LoadMem(word, asm.RFP, address+wordSize*i, asm.DWord), asm.Xor.Reg(hash, word))
		}
		dst = append(dst, asm.Mul.Reg(hash, factor))
		if i%stackAtOnce != stackAtOnce-1 {
			continue
		}
		dst = append(dst, asm.Mov.Reg(word, hash), asm.RSh.Imm(word, 32), asm.Xor.Reg(hash, word))
		if i < room-1 {
			dst = append(dst, asm.JLE.Imm(asm.R0, wordSize*int32(i+1), hashed))
		}
	}
	return append(dst, asm.Or.Imm(hash, hashUsed).WithSymbol(hashed))
}

// AppendStackPlace appends the code that sets R0 to the first place for a stack whose hash is in R2; NULL
// if there is none. The index of the place is stored, in 4 bytes, at offset index of the program's frame.
func AppendStackPlace(dst asm.Instructions, index int16) asm.Instructions {
	return append(dst,
		asm.RSh.Imm(asm.R2, 32), asm.And.Imm(asm.R2, KeptStacks-1), asm.StoreMem(asm.RFP, index, asm.R2, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, int32(index)),
		asm.LoadMapPtr(asm.R1, 0).WithReference(MapStacks),
		asm.FnMapLookupElem.Call())
}

// AppendSameStack appends the code that jumps to other unless the place at R0 has the kernel's stack whose
// hash is in R1 and whose size in bytes is in R2. R2 and R3 change.
func AppendSameStack(dst asm.Instructions, other string) asm.Instructions {
	var k engineKeptStack
	return append(dst,
		asm.LoadMem(asm.R3, asm.R0, int16(unsafe.Offsetof(k.Hash)), asm.DWord), asm.JNE.Reg(asm.R3, asm.R1, other),
		asm.LoadMem(asm.R3, asm.R0, int16(unsafe.Offsetof(k.Tgid)), asm.DWord), // and the count, in the upper half
		asm.LSh.Imm(asm.R2, 32-3), asm.JNE.Reg(asm.R3, asm.R2, other))
}

// Take yields all rows of a half, whose memory is that of MapRows, and clears them. Both slices are valid until
// the next row. A table without a key yields the row of each CPU, used or not. A single one has no halves: programs
// go on adding to it.
func (t *Tables) Take(memory []byte, half int) func(yield func(table int, key []byte, row []uint64) bool) {
	return func(yield func(int, []byte, []uint64) bool) {
		for i := range t.tables {
			e := &t.tables[i]
			from := half * t.half
			if e.single {
				from = 0
			}
			for s := range t.shards {
				shard := memory[from+int(e.Offset)+s*int(e.Shard):][:e.Shard]
				if !e.take(shard, func(key []byte, row []uint64) bool { return yield(i, key, row) }) {
					return
				}
			}
		}
	}
}

// take yields the rows of a shard and clears it.
func (e *table) take(shard []byte, yield func(key []byte, row []uint64) bool) bool {
	le := binary.LittleEndian
	if e.single {
		return yield(nil, exchange(shard[shardHeader+placeHeader:][:int(e.Place)-placeHeader]))
	}
	if e.KeyWords > 0 && le.Uint32(shard[unsafe.Offsetof(engineTableShard{}.Used):]) == 0 {
		return true
	}
	var row []uint64
	for place := range int(e.PlaceMask) + 1 {
		p := shard[shardHeader+place*int(e.Place):][:e.Place]
		if e.KeyWords > 0 && le.Uint32(p[unsafe.Offsetof(engineTablePlace{}.State):]) == 0 {
			continue
		}
		words := p[placeHeader+wordSize*int(e.KeyWords):]
		row = row[:0]
		for ; len(words) > 0; words = words[wordSize:] {
			row = append(row, le.Uint64(words))
		}
		if !yield(p[placeHeader:][:wordSize*e.KeyWords], row) {
			return false
		}
	}
	clear(shard)
	return true
}

// exchange sets words that programs are adding to to 0, and returns what they were.
func exchange(words []byte) []uint64 {
	row := make([]uint64, len(words)/wordSize)
	for i := range row {
		row[i] = atomic.SwapUint64((*uint64)(unsafe.Pointer(&words[wordSize*i])), 0)
	}
	return row
}

// A KeptStack is a stack that a key names by its number.
type KeptStack struct {
	PID, TID  uint32   // whose it is, and the thread that had it first; 0: the kernel's
	Comm      [16]byte // NUL-padded
	Addresses []uint64
}

// Full reports whether the stack may have more addresses.
func (s *KeptStack) Full() bool { return len(s.Addresses) == keptStackMax }

// StacksSize is the size of MapStacks in bytes. Its values are written once.
const StacksSize = KeptStacks * int(unsafe.Sizeof(engineKeptStack{}))

// NewKeptStack reads the stack with a number in the memory of MapStacks. ok is false if there is none.
func NewKeptStack(memory []byte, number uint64) (stack KeptStack, ok bool) {
	var l engineKeptStack
	if number == 0 || number > uint64(len(memory))/uint64(unsafe.Sizeof(l)) {
		return stack, false
	}
	raw := memory[(number-1)*uint64(unsafe.Sizeof(l)):][:unsafe.Sizeof(l)]
	if atomic.LoadUint64((*uint64)(unsafe.Pointer(&raw[unsafe.Offsetof(l.Hash)]))) < hashUsed { // it is written last
		return stack, false
	}
	le := binary.LittleEndian
	s := KeptStack{PID: le.Uint32(raw[unsafe.Offsetof(l.Tgid):]), TID: le.Uint32(raw[unsafe.Offsetof(l.Tid):])}
	copy(s.Comm[:], raw[unsafe.Offsetof(l.Comm):])
	for i := range min(int(le.Uint32(raw[unsafe.Offsetof(l.Count):])), keptStackMax) {
		s.Addresses = append(s.Addresses, le.Uint64(raw[int(unsafe.Offsetof(l.Address))+wordSize*i:]))
	}
	return s, true
}
