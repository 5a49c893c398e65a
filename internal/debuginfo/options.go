// SPDX-License-Identifier: Apache-2.0

package debuginfo

// Options say how to read debug info. The zero value is right for a file whose code runs
// where it was linked.
type Options struct {
	// slide is how far the code was moved from where it was linked, in bytes: kernels are
	// moved by KASLR. Look-ups take addresses with the slide.
	slide uint64
	// Section returns the address at which a section was loaded. A kernel module has no
	// addresses of its own.
	Section func(name string) (addr uint64, ok bool)
	// Apart gives each section of a relocatable file its own range of addresses; in the
	// file, all of them start at 0. InSection and SectionOf translate.
	Apart bool
	// Relative makes paths relative to the source tree: kernel/bpf/syscall.c.
	Relative bool
	// Stripped also accepts a file without debug info. Its symbol table then tells
	// functions, but no lines.
	Stripped bool
	// Lazy delays the relocation of a module until the first look-up. If it fails then,
	// nothing is found, and Err says why.
	Lazy bool
	// Beside is the name by which the file is found, if that is not the one that it is opened with: relative names in it
	// are of files in the same folder.
	Beside string
	// Memory bounds what several files take together. Without it, a file may take 4 GiB.
	Memory *Memory
}
