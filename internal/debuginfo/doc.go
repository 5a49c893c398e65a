// SPDX-License-Identifier: Apache-2.0

// Package debuginfo reads a kernel's debug info: DWARF 4 and 5 as far as is needed
// to tell which functions an address is in, inlined ones included, and which source
// lines they are at. Package find finds the files.
//
// The reader is made for files like a kernel's, with 18 million debugging
// information entries. The file is mapped and parts of it are read when they are
// needed: .debug_aranges says which unit an address is in, of that unit the top
// level is walked for functions, and of the function that covers the address
// its own tree.
//
// Of functions that were inlined it tells where the code of each call begins, and
// from which registers and memory the parameters are computed there.
package debuginfo
