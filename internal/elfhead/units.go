// SPDX-License-Identifier: Apache-2.0

package elfhead

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Limits on units of debug info. debug/dwarf keeps a table of abbreviations for each place at which one
// begins, in some ten times its size, and tables may be parts of each other.
const (
	mostUnits         = 1 << 20 // Linux has 2,400
	mostAbbreviations = 1 << 25 // bytes of all tables; those of Linux are 6 MB, 3 % of its debug info
	mostAttributes    = 1 << 8  // of one abbreviation; an entry takes memory and time for each, and perhaps a byte of the file
)

var (
	errUnits         = fmt.Errorf("its debug info has more than %d units: %w", mostUnits, ErrLimit)
	errAbbreviations = fmt.Errorf("its debug info has tables of abbreviations of more than %d MiB: %w", mostAbbreviations>>20, ErrLimit)
	errAttributes    = fmt.Errorf("its debug info has entries of more than %d attributes: %w", mostAttributes, ErrLimit)
	errUnit          = errors.New("its debug info has a unit that is damaged")
)

// units adds up what debug/dwarf keeps of units.
type units struct {
	order         binary.ByteOrder
	abbreviations []byte
	known         map[uint64]bool // tables, by where they begin
	left          int             // bytes that tables may still take
	number        int
}

// checkUnits returns an error if debug/dwarf would keep too much of the units in .debug_info. What is wrong with them
// otherwise is for debug/dwarf to say, which reads none that follow.
func checkUnits(info, abbreviations []byte) error {
	u := units{order: orderOf(info), abbreviations: abbreviations, known: map[uint64]bool{}, left: mostAbbreviations}
	for len(info) >= 4 {
		size, offset := uint64(u.order.Uint32(info)), 4 // of offsets
		info = info[4:]
		if size == wide {
			if len(info) < 8 {
				return nil
			}
			size, offset = u.order.Uint64(info)&wide, 8 // debug/dwarf has no more bits
			info = info[8:]
		}
		if size > uint64(len(info)) {
			return errUnit
		}
		if err := u.add(info[:size], offset); err != nil {
			return err
		}
		info = info[size:]
	}
	return nil
}

// orderOf returns the order of bytes that debug/dwarf takes .debug_info to have, by the first version in it.
func orderOf(info []byte) binary.ByteOrder {
	at := 4
	if len(info) >= 4 && binary.LittleEndian.Uint32(info) == wide {
		at += 8
	}
	if len(info) > at && info[at] == 0 {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// wide is in place of the length of a unit whose length and offsets are of 64 bits.
const wide = 0xffffffff

// add adds a unit, from its version on. One of no bytes is a gap.
func (u *units) add(unit []byte, offset int) error {
	if len(unit) == 0 {
		return nil
	}
	if u.number++; u.number > mostUnits {
		return errUnits
	}
	at := 2
	if len(unit) >= at && u.order.Uint16(unit) >= 5 {
		at += 2 // its kind, and the size of addresses
	}
	if len(unit) < at+offset {
		return errUnit
	}
	table := uint64(u.order.Uint32(unit[at:]))
	if offset == 8 {
		table = u.order.Uint64(unit[at:])
	}
	if u.known[table] || table >= uint64(len(u.abbreviations)) {
		return nil
	}
	u.known[table] = true
	rest := u.abbreviations[table:]
	return u.table(rest[:min(len(rest), u.left+1)])
}

// table adds the table of abbreviations at the beginning of b. One that does not end there takes all of it.
func (u *units) table(b []byte) error {
	const constant = 0x21 // DW_FORM_implicit_const: its value is in the table
	u.left -= len(b)
	next := func() (n uint64) {
		for shift := 0; len(b) > 0; shift += 7 {
			c := b[0]
			b = b[1:]
			if n |= uint64(c&0x7f) << shift; c < 0x80 {
				return n
			}
		}
		return 0
	}
	for uint32(next()) != 0 { // its number, as debug/dwarf has it
		next() // tag
		b = b[min(1, len(b)):]
		for n := 0; ; n++ {
			attribute, form := next(), next()
			if attribute == 0 && form == 0 {
				break
			}
			if n == mostAttributes {
				return errAttributes
			}
			if uint32(form) == constant {
				next()
			}
		}
	}
	if u.left += len(b); u.left < 0 {
		return errAbbreviations
	}
	return nil
}
