// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// A Table is the shape of the table of one aggregation.
type Table struct {
	KeyWords, RowWords int // of 8 bytes
}

// Tables is the layout of all tables of a request; summary.h explains it. The zero value has none.
type Tables struct {
	tables []engineTable
	half   int // bytes
	shards int // a power of two
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
		places = 1 << bits.Len(uint(keys*3/2-1)) // a fuller table would need more places tried
	} else {
		keys = 1
	}
	e := engineTable{Offset: uint32(t.half), KeyWords: uint32(s.KeyWords), Keys: uint32(keys), PlaceMask: uint32(places - 1)}
	place := placeHeader + wordSize*(s.KeyWords+s.RowWords)
	shard := (shardHeader + places*place + shardAlign - 1) &^ (shardAlign - 1)
	e.Place, e.Shard = uint32(place), uint32(shard)
	t.half += shard * t.shards
	t.tables = append(t.tables, e)
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
	copy(all[:], t.tables)
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

// AppendRow appends the code that sets reg to the row of a table without a key. R0 has the number of
// the CPU, and changes.
func (t *Tables) AppendRow(dst asm.Instructions, reg asm.Register, table int) asm.Instructions {
	var e engineTable
	if table < len(t.tables) { // else the code is only shown
		e = t.tables[table]
	}
	dst = appendLoad(dst, reg, mapHalf)
	dst = append(dst, asm.And.Imm(reg, 1), asm.Mul.Imm(reg, int32(t.half)))
	if t.shards > 1 {
		dst = append(dst, asm.And.Imm(asm.R0, int32(t.shards-1)), asm.Mul.Imm(asm.R0, int32(e.Shard)), asm.Add.Reg(reg, asm.R0))
	}
	at := uint64(e.Offset) + uint64(shardHeader+placeHeader)
	return append(dst,
		asm.Mov.Reg(asm.R0, reg),
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: reg, Src: asm.PseudoMapValue, Constant: int64(at << 32)}.WithReference(mapRows),
		asm.Add.Reg(reg, asm.R0))
}

// AppendAdd appends the code that adds reg to a word of the row at row.
func AppendAdd(dst asm.Instructions, row, reg asm.Register, word int) asm.Instructions {
	return append(dst, atomic(asm.AddAtomic, row, reg, int16(wordSize*word)))
}

// Rows yields all rows of a half, whose memory is that of MapRows. Both slices are valid until the next
// row. A table without a key yields the row of each CPU, used or not.
func (t *Tables) Rows(memory []byte, half int) func(yield func(table int, key []byte, row []uint64) bool) {
	return func(yield func(int, []byte, []uint64) bool) {
		for i := range t.tables {
			e := &t.tables[i]
			for s := range t.shards {
				shard := memory[half*t.half+int(e.Offset)+s*int(e.Shard):][:e.Shard]
				if !e.each(shard, func(key []byte, row []uint64) bool { return yield(i, key, row) }) {
					return
				}
			}
		}
	}
}

func (e *engineTable) each(shard []byte, yield func(key []byte, row []uint64) bool) bool {
	le := binary.LittleEndian
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
	return true
}

// Clear clears a half.
func (t *Tables) Clear(memory []byte, half int) {
	for i := range t.tables {
		e := &t.tables[i]
		for s := range t.shards {
			shard := memory[half*t.half+int(e.Offset)+s*int(e.Shard):][:e.Shard]
			if e.KeyWords == 0 || binary.LittleEndian.Uint32(shard[unsafe.Offsetof(engineTableShard{}.Used):]) != 0 {
				clear(shard)
			}
		}
	}
}

// A KeptStack is a stack that a key names by its number.
type KeptStack struct {
	PID       uint32 // whose it is; 0: the kernel's
	Addresses []uint64
}

// Full reports whether the stack may have more addresses.
func (s *KeptStack) Full() bool { return len(s.Addresses) == keptStackMax }

// DecodeKeptStack reads a value of MapStacks. The key of stack number n is n-1.
func DecodeKeptStack(raw []byte) KeptStack {
	var l engineKeptStack
	if len(raw) < int(unsafe.Sizeof(l)) {
		return KeptStack{}
	}
	le := binary.LittleEndian
	s := KeptStack{PID: le.Uint32(raw[unsafe.Offsetof(l.Tgid):])}
	for i := range min(int(le.Uint32(raw[unsafe.Offsetof(l.Count):])), keptStackMax) {
		s.Addresses = append(s.Addresses, le.Uint64(raw[int(unsafe.Offsetof(l.Address))+wordSize*i:]))
	}
	return s
}
