// SPDX-License-Identifier: Apache-2.0

package btfprint

// Mode is the shape of the text that AppendValue writes.
type Mode uint8

const (
	// Multiline puts every member on a line of its own, indented by its depth.
	Multiline Mode = iota
	// Compact writes `{.a = (int)1,.b = (int)2,}` on one line.
	Compact
	// Verbose is Multiline with the offset and size of each member, in bytes, at the end of
	// its line.
	Verbose
)

// Pieces says which parts of the text to leave out. The zero value leaves out nothing.
type Pieces uint8

const (
	// HideTypes leaves out the casts.
	HideTypes Pieces = 1 << iota
	// HideNames leaves out the names of members.
	HideNames
	// HideValues leaves out scalar values. What remains shows which members are not zero.
	HideValues
)

// ValueOptions says how to print a value. The zero value and nil give the format of the
// kernel and of libbpf: many lines, a tab per level, types shown, zero members left out.
type ValueOptions struct {
	Mode   Mode
	Hide   Pieces
	Indent string // one level of indent; "" is a tab
	Level  int    // indent of the whole text but its first line, in levels

	// ShowZeroes shows members that are zero.
	ShowZeroes bool
	// Plain writes values exactly as libbpf does: 1-byte integers in arrays one character
	// at a time, combined flags as a number, bitfields in hexadecimal, a null pointer as
	// `(nil)`, an error pointer as an address.
	Plain bool
	// Likely shows only one member of each union: the one that the bytes look like.
	Likely bool
	// Once leaves out a member of a union if an earlier one shows the same number or
	// address.
	Once bool
	// Tight leaves out, in Compact mode, blanks and the comma before a closing bracket:
	// `{.a=(int)1,.b=(int)2}`.
	Tight bool
	// HexFrom is the smallest integer that is written in hexadecimal; large ones are flags
	// and addresses. With 0, all integers are decimal except for unsigned bitfields.
	HexFrom uint64

	// Readings shows well-known types as people read them: a ktime_t in seconds, a dev_t as
	// major:minor, an in6_addr as an address, and so on.
	Readings bool
	// Addr is the address that raw was captured from, or 0. It is needed to recognise an
	// empty list_head.
	Addr uint64

	// Typed has AppendJSON write all values of a type in one form.
	Typed bool
	// Strings64 has AppendJSON write integers of 64-bit types as strings, for readers that
	// know no integers above 2^53.
	Strings64 bool

	// MaxWidth bounds the length of each value's line, in bytes, and in Compact mode that
	// of the whole text. Cuts are marked with `...`. 0 means no limit.
	MaxWidth int
	// MaxDepth is how many levels of braces are opened. 0 means no limit.
	MaxDepth int
	// MaxElements is how many elements of an array, or characters of a string, are shown. 0
	// means no limit.
	MaxElements int
	// MaxBytes bounds the text, in bytes. 0 means a limit far above what real types need.
	MaxBytes int

	// PointerName appends the name of what is at an address, or nothing. The name follows
	// the pointer in angle brackets. Nil means no names.
	PointerName func(dst []byte, addr uint64) []byte
	// Memory returns captured bytes at an address, at most size of them, or nil. If it
	// returns some, the pointer is followed by what it points to.
	Memory func(addr uint64, size int) []byte
	// FollowDepth is how many pointers are followed in a row. 0 means 1.
	FollowDepth int
}

// contentOnly returns the options for content, without those for the form of the text.
func (o *ValueOptions) contentOnly() ValueOptions {
	if o == nil {
		return ValueOptions{}
	}
	content := *o
	content.Mode, content.MaxWidth, content.Hide = Multiline, 0, 0
	return content
}
