// SPDX-License-Identifier: Apache-2.0

// Package btfprint prints BTF: types as C declarations, and raw bytes that have
// a BTF type as C initialisers or as JSON.
//
// A type that values are printed of is compiled once, by [Compile], into a
// [Printer]: flat tables in which every piece of text that does not depend on
// the value is already written out. A Printer holds no state of a print, so it
// may be used by any number of goroutines, and it allocates nothing.
//
// The text is the one that bpf_snprintf_btf of the kernel and
// btf_dump__dump_type_data of libbpf define, without the faults of either.
// Neither the BTF nor the bytes are trusted: a type that contradicts itself is
// refused by Compile, bytes that are missing end the text with "...", the
// length of the output is bounded, and nothing of names and strings is written
// that is not printable.
//
// All functions append to a slice and return it, as those of strconv do.
package btfprint
