// SPDX-License-Identifier: Apache-2.0

package debuginfo

import "debug/elf"

// places are the loaded sections and their addresses.
type places struct {
	bases       []uint64 // of all sections, by number
	sections    []place
	relocatable bool
}

// A place is a loaded section.
type place struct {
	span
	name string
	code bool
}

// apartBits is the number of bits of an offset in a section that has its own range of
// addresses.
const apartBits = 32

// newPlaces decides where each section is: where it was loaded, in a range of its own,
// or where it was linked.
func newPlaces(f *elf.File, o Options) places {
	p := places{bases: make([]uint64, len(f.Sections)), relocatable: f.Type == elf.ET_REL}
	for i, s := range f.Sections {
		p.bases[i] = s.Addr
		if s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		if o.Apart && p.relocatable {
			p.bases[i] = uint64(i+1) << apartBits
		} else if o.Section != nil {
			if addr, ok := o.Section(s.Name); ok {
				p.bases[i] = addr
			}
		}
		if end := p.bases[i] + s.Size; end >= p.bases[i] {
			p.sections = append(p.sections, place{span{p.bases[i], end}, s.Name, s.Flags&elf.SHF_EXECINSTR != 0})
		}
	}
	return p
}

// Relocatable reports whether the file is an object file or a kernel module. An address in
// it means nothing without its section.
func (i *Info) Relocatable() bool { return i.places.relocatable }

// HasSection reports whether a section with this name is loaded.
func (i *Info) HasSection(name string) bool {
	for _, s := range i.places.sections {
		if s.name == name {
			return true
		}
	}
	return false
}

// InSection returns the address of an offset in a section. Compilers may make several
// sections with one name; the first that is large enough counts.
func (i *Info) InSection(name string, off uint64) (addr uint64, ok bool) {
	for _, s := range i.places.sections {
		if s.name == name && off < s.hi-s.lo {
			return s.lo + off + i.options.slide, true
		}
	}
	return 0, false
}

// SectionOf returns the section that contains an address, and the offset in it.
func (i *Info) SectionOf(addr uint64) (name string, off uint64, ok bool) {
	addr -= i.options.slide
	for _, s := range i.places.sections {
		if s.contains(addr) {
			return s.name, addr - s.lo, true
		}
	}
	return "", 0, false
}

// CodeAt returns the code sections that are large enough for an offset, .text first. In a
// relocatable file, an offset may belong to any of them.
func (i *Info) CodeAt(off uint64) (names []string) {
	for _, s := range i.places.sections {
		switch {
		case !s.code || off >= s.hi-s.lo:
		case s.name == ".text":
			names = append([]string{s.name}, names...)
		default:
			names = append(names, s.name)
		}
	}
	return names
}
