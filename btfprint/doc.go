// SPDX-License-Identifier: Apache-2.0

// Package btfprint prints BTF: types as C declarations, and raw bytes that have a BTF type
// as C initialisers, as JSON, or as a list of differences.
//
// To print values, compile their type once and use the [Printer] for any number of values:
//
//		p, err := btfprint.Compile(t, binary.LittleEndian)
//		text := p.AppendValue(nil, raw, nil) // (struct route){ .metric = (u32)100, ... }
//
//	  - [Printer.AppendValue] writes C, [Printer.AppendJSON] one JSON value, [Printer.AppendDiff] the
//	    members that differ between two captures. [ValueOptions] chooses form, limits and names.
//	  - [AppendType] writes a declaration with offsets, sizes and holes, as pahole does. [AppendFunc],
//	    [AppendDecl] and [AppendTypeName] write shorter forms.
//
// All functions append to a slice and return it, as those of strconv do. A Printer holds
// tables in which all text that does not depend on the value is already written out. It is
// immutable and allocates nothing, so any number of goroutines may share it.
//
// The format of values is that of the kernel's bpf_snprintf_btf and of libbpf's
// btf_dump__dump_type_data, without the known faults of either; ValueOptions.Plain is
// closest to libbpf.
//
// Neither the BTF nor the bytes are trusted. Compile refuses a type that contradicts
// itself. Missing bytes end the text with "...". The length of the output is bounded.
// Unprintable characters in names and strings are escaped.
//
// The package reads no memory and looks up no symbols: the caller passes bytes, and functions
// for names and for captured memory behind pointers. Integers of up to 8 bytes and floats of 4
// and 8 bytes print as numbers; wider ones print in hexadecimal.
//
// examples/mapvalues in this module prints the values of a BPF map.
package btfprint
