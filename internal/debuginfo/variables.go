// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"runtime/debug"
	"slices"
)

// A Variable is a variable or parameter that exists at an address of the code, and where its
// value is there.
type Variable struct {
	Param
	// Depth counts the inlined calls around it: 0 is the function whose code it is.
	Depth int
}

// mostVariables bounds what a damaged file can claim.
const mostVariables = 4096

// Variables returns the variables that exist at an address, of inlined calls too, innermost
// first. Those that are nowhere are left out.
func (i *Info) Variables(addr uint64) []Variable {
	defer i.recovered(debug.SetPanicOnFault(true))
	if !i.ready() {
		return nil
	}
	addr -= i.options.slide
	off, ok := i.units.find(addr)
	f := inlineFinder{reader: newReader(i, 1)}
	defer f.reader.release()
	if !ok || !f.open(off) {
		return nil
	}
	if f.function, ok = f.unit.function(addr); !ok {
		return nil
	}
	if err := i.relocateLate(); err != nil {
		i.fail(err)
		return nil
	}
	v := variableFinder{inlineFinder: &f, addr: addr}
	v.walk()
	v.name()
	slices.Reverse(v.found)
	slices.SortStableFunc(v.found, func(a, b Variable) int { return b.Depth - a.Depth })
	return v.found
}

// A variableFinder walks the tree of one function.
type variableFinder struct {
	*inlineFinder
	addr  uint64
	found []Variable
	typed []typedValue // by the index of found
}

// A typedValue says where a variable's type is: at the entry that it is an instance of, or
// where its own entry says.
type typedValue struct {
	origin uint64 // 0: there is none
	typ    value
}

func (f *variableFinder) walk() {
	u := f.unit
	c := u.cursor(f.function)
	a := u.abbrevs.find(c.uleb())
	if a == nil || !a.children {
		return
	}
	f.visits = int(u.end - u.off)
	u.skip(&c, a)
	u.refill()
	p := placer{info: f.reader.info, unit: u, addr: f.addr, frames: f.frameTable(), base: f.frameBase()}
	var inlined []int // at which depths inlined calls begin
	for depth := 1; depth > 0 && c.pos < len(c.b) && f.visits > 0 && len(f.found) < mostVariables; f.visits-- {
		code := c.uleb()
		if code == 0 {
			if depth--; len(inlined) > 0 && inlined[len(inlined)-1] == depth {
				inlined = inlined[:len(inlined)-1]
			}
			continue
		}
		if a = u.abbrevs.find(code); a == nil {
			return
		}
		switch {
		case a.role == roleParameter || a.role == roleVariable:
			f.add(c, a, &p, len(inlined))
		case a.role == roleInlined || a.role == roleBlock:
			if f.covers(c, a) && a.children {
				if a.role == roleInlined {
					inlined = append(inlined, depth)
				}
				u.skip(&c, a)
				depth++
				continue
			}
		}
		if u.skipTree(&c, a) {
			depth++
		}
	}
}

// covers reports whether an inlined call or a block has the address. A block without addresses
// of its own has those of what is around it.
func (f *variableFinder) covers(c cursor, a *abbrev) bool {
	if !a.hasPC {
		return a.role == roleBlock
	}
	u := f.unit
	x := u.extent(c, a)
	u.scratch = u.spans(u.scratch[:0], &x)
	return slices.ContainsFunc(u.scratch, func(s span) bool { return s.contains(f.addr) })
}

// add adds the variable at the cursor, if it is anywhere.
func (f *variableFinder) add(c cursor, a *abbrev, p *placer, depth int) {
	u := f.unit
	u.refill()
	var origin, name, typ, location, constant value
	for _, attr := range u.abbrevs.of(a) {
		switch v := u.read(&c, attr); attr.name {
		case attrAbstractOrigin:
			origin = v
		case attrName:
			name = v
		case attrType:
			typ = v
		case attrLocation:
			location = v
		case attrConstValue:
			constant = v
		}
	}
	place := p.place(location, constant)
	if place.Ops == nil {
		return
	}
	off, _ := u.reference(origin)
	f.typed = append(f.typed, typedValue{off, typ})
	f.found = append(f.found, Variable{Param: Param{Name: identifier(u.str(name)), Place: place}, Depth: depth})
}

// name gives the variables their names and types, which may be in other units; opening those
// closes this one.
func (f *variableFinder) name() {
	for i := range f.found {
		v, t := &f.found[i], f.typed[i]
		u := f.unitOf(f.function)
		if t.origin != 0 {
			u = f.unitOf(t.origin)
		}
		if u == nil {
			continue
		}
		if t.origin != 0 {
			v.Name, t.typ = u.named(t.origin)
		}
		v.Type = f.typeOf(u, t.typ)
	}
	f.found = slices.DeleteFunc(f.found, func(v Variable) bool { return v.Name == "" })
}

// named returns the name and the type of the entry at an offset.
func (u *unit) named(off uint64) (name string, typ value) {
	c := u.cursor(off)
	a := u.abbrevs.find(c.uleb())
	if a == nil {
		return "", typ
	}
	for _, attr := range u.abbrevs.of(a) {
		switch v := u.read(&c, attr); attr.name {
		case attrName:
			name = identifier(u.str(v))
		case attrType:
			typ = v
		}
	}
	return name, typ
}
