// SPDX-License-Identifier: Apache-2.0

package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// instructionSize is that of struct sock_filter.
const instructionSize = 8

// Decode returns the instructions of a filter, as the kernel has them in memory.
func Decode(raw []byte) []unix.SockFilter {
	filter := make([]unix.SockFilter, len(raw)/instructionSize)
	for i := range filter {
		b := raw[i*instructionSize:]
		filter[i] = unix.SockFilter{Code: binary.LittleEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.LittleEndian.Uint32(b[4:])}
	}
	return filter
}

// Data is what a filter is asked about, as struct seccomp_data.
type Data struct {
	Number uint32
	Arch   uint32
	IP     uint64
	Args   [6]uint64
}

// words is Data as words of 32 bits.
func (d *Data) words() (w [16]uint32) {
	w[0], w[1] = d.Number, d.Arch
	for i, v := range append([]uint64{d.IP}, d.Args[:]...) {
		w[2+2*i], w[3+2*i] = uint32(v), uint32(v>>32)
	}
	return w
}

// A Verdict is what a filter says.
type Verdict struct {
	Action uint32 // SECCOMP_RET_ERRNO | EPERM
	At     int    // the instruction that returned it
	// Decided is the conditional jump that led there, the last one; nil: there was none.
	Decided *Decision
}

// A Decision is a conditional jump.
type Decision struct {
	At       int
	value    uint32 // what it compared
	with     uint32 // with what
	operator string // which holds between them
	// loaded is where in Data the value was loaded from, in bytes; -1 if it is from elsewhere.
	// It was changed since if changed.
	loaded  int
	changed bool
}

// errBad says that a filter is none that the kernel admits, or that not all of it is known.
var errBad = errors.New("the filter does not end with a verdict")

// Operators of jumps, by code, and those that hold where the jump is not taken.
var operators = map[uint16][2]string{unix.BPF_JEQ: {"==", "!="}, unix.BPF_JGT: {">", "<="}, unix.BPF_JGE: {">=", "<"}, unix.BPF_JSET: {"has bits of", "has no bits of"}}

// A machine executes a filter.
type machine struct {
	data   [16]uint32
	a, x   uint32
	memory [unix.BPF_MEMWORDS]uint32
	// Where the accumulator is from.
	loaded  int
	changed bool
	decided *Decision
}

// Run executes a filter.
func Run(filter []unix.SockFilter, d *Data) (Verdict, error) {
	m := machine{data: d.words(), loaded: -1}
	for at := 0; at < len(filter); at++ {
		in := &filter[at]
		switch in.Code & 0x07 {
		case unix.BPF_RET:
			v := Verdict{Action: in.K, At: at, Decided: m.decided}
			if in.Code&0x18 == unix.BPF_A {
				v.Action = m.a
			}
			return v, nil
		case unix.BPF_JMP:
			skip, err := m.jump(in, at)
			if err != nil {
				return Verdict{}, err
			}
			if skip > uint32(len(filter)) {
				return Verdict{}, errBad
			}
			at += int(skip)
		default:
			if err := m.step(in); err != nil {
				return Verdict{}, fmt.Errorf("instruction %d: %w", at, err)
			}
		}
	}
	return Verdict{}, errBad
}

// operand is the constant or the index register.
func (m *machine) operand(in *unix.SockFilter) uint32 {
	if in.Code&unix.BPF_X != 0 {
		return m.x
	}
	return in.K
}

// jump returns how many instructions are skipped.
func (m *machine) jump(in *unix.SockFilter, at int) (skip uint32, err error) {
	op := in.Code & 0xf0
	if op == unix.BPF_JA {
		return in.K, nil
	}
	v := m.operand(in)
	taken := false
	switch op {
	case unix.BPF_JEQ:
		taken = m.a == v
	case unix.BPF_JGT:
		taken = m.a > v
	case unix.BPF_JGE:
		taken = m.a >= v
	case unix.BPF_JSET:
		taken = m.a&v != 0
	default:
		return 0, fmt.Errorf("instruction %d: %w", at, errBad)
	}
	m.decided = &Decision{At: at, value: m.a, with: v, loaded: m.loaded, changed: m.changed, operator: operators[op][1]}
	if taken {
		m.decided.operator = operators[op][0]
		return uint32(in.Jt), nil
	}
	return uint32(in.Jf), nil
}

// step executes an instruction that does not jump.
func (m *machine) step(in *unix.SockFilter) error {
	switch in.Code & 0x07 {
	case unix.BPF_LD:
		return m.load(in)
	case unix.BPF_LDX:
		v, _, err := m.source(in)
		m.x = v
		return err
	case unix.BPF_ST, unix.BPF_STX:
		if in.K >= unix.BPF_MEMWORDS {
			return errBad
		}
		if m.memory[in.K] = m.a; in.Code&0x07 == unix.BPF_STX {
			m.memory[in.K] = m.x
		}
		return nil
	case unix.BPF_ALU:
		m.changed = true
		return m.compute(in)
	}
	if in.Code&0xf8 == unix.BPF_TXA { // else TAX
		m.a, m.loaded = m.x, -1
		return nil
	}
	m.x = m.a
	return nil
}

// load loads the accumulator.
func (m *machine) load(in *unix.SockFilter) (err error) {
	m.a, m.loaded, err = m.source(in)
	m.changed = false
	return err
}

// source returns what is loaded, and where it is from.
func (m *machine) source(in *unix.SockFilter) (v uint32, from int, err error) {
	switch in.Code & 0xe0 {
	case unix.BPF_ABS:
		if in.K%4 != 0 || in.K >= uint32(4*len(m.data)) || in.Code&0x18 != unix.BPF_W {
			return 0, -1, errBad
		}
		return m.data[in.K/4], int(in.K), nil
	case unix.BPF_IMM:
		return in.K, -1, nil
	case unix.BPF_LEN:
		return uint32(4 * len(m.data)), -1, nil
	case unix.BPF_MEM:
		if in.K < unix.BPF_MEMWORDS {
			return m.memory[in.K], -1, nil
		}
	}
	return 0, -1, errBad
}

// compute changes the accumulator.
func (m *machine) compute(in *unix.SockFilter) error {
	v := m.operand(in)
	switch in.Code & 0xf0 {
	case unix.BPF_ADD:
		m.a += v
	case unix.BPF_SUB:
		m.a -= v
	case unix.BPF_MUL:
		m.a *= v
	case unix.BPF_DIV:
		if v == 0 {
			return errBad
		}
		m.a /= v
	case unix.BPF_OR:
		m.a |= v
	case unix.BPF_AND:
		m.a &= v
	case unix.BPF_LSH:
		m.a <<= v & 31 // as the kernel's interpreter and its compilers do
	case unix.BPF_RSH:
		m.a >>= v & 31
	case unix.BPF_XOR:
		m.a ^= v
	case unix.BPF_NEG:
		m.a = -m.a
	default:
		return errBad
	}
	return nil
}
