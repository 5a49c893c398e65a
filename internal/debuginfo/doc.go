// SPDX-License-Identifier: Apache-2.0

// Package debuginfo reads a kernel's debug info: as much of DWARF 4 and 5 as is needed to
// tell which functions an address is in, inlined ones included, and on which source lines.
// Package find locates the files.
//
// [Open] maps a file and returns an [Info]. [Info.Lookup] and [Info.LookupAll] return the
// functions and lines at addresses, [Info.Inlined] and [Info.InlinedNamed] the places where
// functions were inlined, with the registers and memory from which parameters are computed
// there, and [Info.Sources] the code that source files define.
//
// The reader is made for files like a kernel's, with 18 million debugging information
// entries, and reads only what a question needs. .debug_aranges says which unit contains an
// address. In that unit, only the top level is walked for functions, and then the tree of
// the function that covers the address. Reading everything, as debug/dwarf does, takes many
// times as long.
//
// Files may be damaged or made to do harm. Reads stay inside sections, walks have budgets,
// and no allocation trusts a size in the file.
package debuginfo
