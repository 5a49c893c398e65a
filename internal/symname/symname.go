// SPDX-License-Identifier: Apache-2.0

// Package symname writes the symbols of code as the kernel's own stacks do:
// vfs_read+0x4c, nft_do_chain+0x1f0 [nf_tables].
package symname

import (
	"strconv"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Append appends a symbol with its module, which is "" for vmlinux:
// "nft_do_chain [nf_tables]".
func Append(dst []byte, name, module string) []byte {
	return appendModule(terminal.AppendName(dst, name), module)
}

// AppendAt appends a place in a symbol: "nft_do_chain+0x1f0 [nf_tables]".
func AppendAt(dst []byte, name string, offset uint64, module string) []byte {
	return appendModule(AppendOffset(terminal.AppendName(dst, name), offset), module)
}

// AppendOffset appends how far from a symbol's begin a place is: "+0x1f0".
func AppendOffset(dst []byte, offset uint64) []byte {
	return strconv.AppendUint(append(dst, "+0x"...), offset, 16)
}

func appendModule(dst []byte, module string) []byte {
	if module == "" {
		return dst
	}
	return append(terminal.AppendName(append(dst, " ["...), module), ']')
}

// AppendBehind appends the name of what lies at an address behind it, as
// " <vfs_read+0x10>"; name appends that, or nothing.
func AppendBehind(dst []byte, addr uint64, name func(dst []byte, addr uint64) []byte) []byte {
	start := len(dst)
	dst = append(dst, " <"...)
	open := len(dst)
	if dst = name(dst, addr); len(dst) == open {
		return dst[:start]
	}
	return append(dst, '>')
}
