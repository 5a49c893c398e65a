// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"fmt"
	"strconv"

	"github.com/ksnoop/ksnoop/internal/symname"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A Frame is one function at an address: the one whose code it is, or one that was inlined
// there. Unknown fields are empty.
type Frame struct {
	Addr    uint64
	Name    string // "" if no symbol covers the address
	Module  string // "" for vmlinux; BPF programs are in "bpf"
	Offset  uint64 // bytes from the start of the symbol; 0 for inlined functions
	File    string // path in the source tree: kernel/bpf/syscall.c
	Line    int
	Column  int
	Inlined bool
}

// AppendName appends the frame's function: "vfs_read+0x4c", "nft_do_chain+0x1f0
// [nf_tables]"; an inlined one as "rw_verify_area"; an address outside of all symbols as
// "0xffffffffc0a1e010".
func (f *Frame) AppendName(dst []byte) []byte {
	if f.Name == "" {
		return strconv.AppendUint(append(dst, "0x"...), f.Addr, 16)
	}
	if f.Inlined {
		return terminal.AppendName(dst, f.Name)
	}
	return symname.AppendAt(dst, f.Name, f.Offset, f.Module)
}

// AppendSource appends "kernel/bpf/syscall.c:1333:5", without the column if that is
// unknown, and nothing if the file is unknown.
func (f *Frame) AppendSource(dst []byte) []byte {
	if f.File == "" {
		return dst
	}
	dst = terminal.AppendName(dst, f.File)
	if f.Line == 0 {
		return append(dst, ":?"...)
	}
	dst = strconv.AppendInt(append(dst, ':'), int64(f.Line), 10)
	if f.Column != 0 {
		dst = strconv.AppendInt(append(dst, ':'), int64(f.Column), 10)
	}
	return dst
}

// A Level says how much to tell about an address.
type Level uint8

const (
	LevelNone    Level = iota // symbol and offset
	LevelLine                 // and source line
	LevelInlines              // and inlined functions
)

var levelNames = [...]string{LevelNone: "none", LevelLine: "line", LevelInlines: "inlines"}

func (l Level) String() string { return levelNames[l] }

// ParseLevel parses the name of a level. "n" and "s" remain of retsnoop's options -sn and
// -ss.
func ParseLevel(s string) (Level, error) {
	switch s {
	case "n":
		return LevelNone, nil
	case "s":
		return LevelInlines, nil
	}
	for l, name := range levelNames {
		if s == name {
			return Level(l), nil
		}
	}
	return 0, fmt.Errorf("%q is none of none, line and inlines", s)
}
