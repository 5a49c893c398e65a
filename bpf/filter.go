// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
)

// A Filter says whose calls are traced. A call must pass all fields that are set. The zero value lets
// every call pass.
type Filter struct {
	PIDs, NotPIDs   []uint32 // processes
	TIDs            []uint32 // threads
	UIDs            []uint32
	Comms, NotComms []string // globs for the names of tasks
	Cgroup          Cgroup
	ByCgroups       bool // only tasks in one of the cgroups of a CgroupList or below
	Family          bool // only processes in the family map
	NoIRQ           bool // no calls that interrupts make on top of a task
}

// A Cgroup is a control group of the unified hierarchy. The zero value is none.
type Cgroup struct {
	ID    uint64
	Level uint32 // how far below the root it is
}

// MaxCgroups is how many cgroups a CgroupList can have.
const MaxCgroups = int(engineLimitFILTER_CGROUPS)

// VarCgroups are the cgroups that Filter.ByCgroups is about, as CgroupList returns them. They may change at any time.
const VarCgroups = engineVarCgroups

// CgroupList returns the value of VarCgroups. What is more than MaxCgroups is left out.
func CgroupList(list []Cgroup) any {
	var e engineCgroupList
	for _, c := range list[:min(len(list), MaxCgroups)] {
		e.Place[e.Count].Id, e.Place[e.Count].Level = c.ID, c.Level
		e.Count++
	}
	return e
}

// MaxFilterIDs is how many IDs each list of a filter can have.
const MaxFilterIDs = len(engineIds{}.Id)

// Active reports whether the filter can stop a call.
func (f *Filter) Active() bool {
	return f.Fleeting() || f.NoIRQ || len(f.PIDs)+len(f.NotPIDs)+len(f.TIDs) > 0
}

// Fleeting reports whether the filter may give different answers at entry and return of a call: tasks
// can change what it tests.
func (f *Filter) Fleeting() bool {
	return f.Family || f.ByCgroups || f.Cgroup.ID != 0 || len(f.UIDs)+len(f.Comms)+len(f.NotComms) > 0
}

// Check returns an error if the engine cannot hold the filter.
func (f *Filter) Check() error {
	_, err := f.variables()
	return err
}

// set fixes the filter in an engine.
func (f *Filter) set(spec *ebpf.CollectionSpec) error {
	vars, err := f.variables()
	if err != nil {
		return err
	}
	for name, v := range vars {
		if err := set(spec, name, v); err != nil {
			return err
		}
	}
	return nil
}

// variables returns the filter as the engine's constants, by name.
func (f *Filter) variables() (map[string]any, error) {
	ids, err1 := f.encodeIDs()
	comms, err2 := encodeComms(f.Comms)
	notComms, err3 := encodeComms(f.NotComms)
	return map[string]any{engineVarFilter: ids, engineVarComms: comms, engineVarNotComms: notComms}, errors.Join(err1, err2, err3)
}

// encodeIDs compiles all but the names.
func (f *Filter) encodeIDs() (engineTaskFilter, error) {
	e := engineTaskFilter{Cgroup: f.Cgroup.ID, CgroupLevel: f.Cgroup.Level}
	if f.Family {
		e.ByFamily = 1
	}
	if f.ByCgroups {
		e.ByCgroups = 1
	}
	if f.NoIRQ {
		e.NoIrq = 1
	}
	var errs []error
	for _, list := range []struct {
		what string
		from []uint32
		to   *engineIds
	}{
		{"processes", f.PIDs, (*engineIds)(&e.Pids)}, {"processes left out", f.NotPIDs, (*engineIds)(&e.NotPids)},
		{"threads", f.TIDs, (*engineIds)(&e.Tids)}, {"users", f.UIDs, (*engineIds)(&e.Uids)},
	} {
		if len(list.from) > MaxFilterIDs {
			errs = append(errs, fmt.Errorf("a filter of %d %s: there can be %d", len(list.from), list.what, MaxFilterIDs))
			continue
		}
		list.to.Count = uint32(copy(list.to.Id[:], list.from))
	}
	return e, errors.Join(errs...)
}

// commSize is the size of a task's name with the NUL that ends it.
const commSize = int(engineLimitCOMM_LEN)

// encodeComms compiles globs into parts.
func encodeComms(globs []string) (engineComms, error) {
	var to engineComms
	for _, glob := range globs {
		parts, err := commParts(glob)
		if err != nil {
			return to, fmt.Errorf("task name %q: %w", glob, err)
		}
		for i, text := range parts {
			if int(to.Count) == len(to.Part) {
				return to, fmt.Errorf("task name %q: the names have more than %d parts in all", glob, len(to.Part))
			}
			p := encodePart(text)
			if i == 0 {
				p.First = 1
			} else {
				p.Anywhere, to.Search = 1, 1
			}
			if i == len(parts)-1 {
				p.Last = 1
			}
			to.Part[to.Count] = p
			to.Count++
		}
	}
	if to.Count == 1 && to.Part[0].Some == [2]uint64{} {
		to.Plain = 1
	}
	return to, nil
}

// CutComm returns what a glob asks of names of tasks. The kernel cuts these off after 15 bytes, so what is in front of the first star
// is cut off there, too, and nothing is known of what is behind.
func CutComm(glob string) string {
	if first, _, _ := strings.Cut(glob, "*"); len(first) >= commSize-1 {
		return first[:commSize-1]
	}
	return glob
}

// commParts splits a glob at its stars. The last part ends with a NUL if the name must end there.
func commParts(glob string) ([]string, error) {
	switch {
	case glob == "":
		return nil, errors.New("it is empty")
	case strings.ContainsRune(glob, 0):
		return nil, errors.New("it contains a zero byte")
	}
	parts := strings.Split(CutComm(glob), "*")
	if len(parts[0]) == commSize-1 {
		return []string{parts[0] + "\x00"}, nil
	}
	kept := parts[:1]
	for _, part := range parts[1:] {
		if len(part) >= commSize {
			return nil, fmt.Errorf("names have at most %d bytes", commSize-1)
		}
		if part != "" {
			kept = append(kept, part)
		}
	}
	if last := parts[len(parts)-1]; last != "" {
		kept[len(kept)-1] += "\x00"
	}
	return kept, nil
}

// encodePart compiles one part of a glob.
func encodePart(text string) engineCommPart {
	p := engineCommPart{Size: uint8(len(text))}
	var value, mask, some [commSize]byte
	for i := range len(text) {
		if text[i] == '?' {
			some[i] = 0xff
			continue
		}
		value[i], mask[i] = text[i], 0xff
	}
	for i := range 2 {
		word := func(b [commSize]byte) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
		p.Value[i], p.Mask[i], p.Some[i] = word(value), word(mask), word(some)
	}
	return p
}
