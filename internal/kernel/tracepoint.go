// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// A Tracepoint is a place in the kernel that its authors marked for tracing, with the
// values they chose.
type Tracepoint struct {
	System string // its group: "sched"
	Name   string
	Fields []Field
}

// eventsDir is where tracefs describes tracepoints.
const eventsDir = "events"

// Tracepoints returns the tracepoints whose groups and names match two globs, sorted. No
// match is not an error.
func (v *View) Tracepoints(system, name string) ([]Tracepoint, error) {
	systems, err := v.eventDir(system, "")
	if err != nil {
		return nil, err
	}
	var found []Tracepoint
	for _, s := range systems {
		names, err := v.eventDir(name, s)
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if fields, err := v.format(s, n); err == nil { // a group also has files that are not events
				found = append(found, Tracepoint{s, n, fields})
			} else if !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	if len(found) == 0 {
		_, err := v.readTracefs(eventsDir) // is there any tracefs?
		return nil, err
	}
	return found, nil
}

// TracepointNames returns the names of all tracepoints: "sched:sched_switch".
func (v *View) TracepointNames() []string {
	var names []string
	systems, _ := v.eventDir("*", "")
	for _, s := range systems {
		events, _ := v.eventDir("*", s)
		for _, e := range events {
			names = append(names, s+":"+e)
		}
	}
	return names
}

// eventDir returns the names in a directory of events that match a glob.
func (v *View) eventDir(pattern, system string) ([]string, error) {
	if v.root == nil {
		return nil, errNoKernel
	}
	if !glob.Is(pattern) {
		return []string{pattern}, nil
	}
	entries, err := v.readTracefs(path.Join(eventsDir, system))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && glob.Match(pattern, e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (v *View) readTracefs(dir string) ([]fs.DirEntry, error) {
	var first error
	for _, mount := range []string{tracefs, tracefsOld} {
		entries, err := fs.ReadDir(v.root, path.Join(mount, dir))
		if err == nil {
			return entries, nil
		}
		if first == nil {
			first = access(path.Join(mount, dir), "the tracepoints", mountTracefs, err)
		}
	}
	return nil, first
}

// format returns the fields of a tracepoint.
func (v *View) format(system, name string) ([]Field, error) {
	var first error
	for _, mount := range []string{tracefs, tracefsOld} {
		file := path.Join(mount, eventsDir, system, name, "format")
		f, err := v.open(file, "the fields of a tracepoint", "there is no such tracepoint, or tracefs is not mounted")
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		fields, err := parseFormat(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("reading /%s: %w", file, err)
		}
		return fields, nil
	}
	return nil, first
}

// traceIter is the prefix of the functions that call the programs on a raw tracepoint.
// Their parameters after the first are those of the tracepoint.
const traceIter = "__traceiter_"

// RawTracepoints returns the tracepoints whose names match a glob. Each is a function that
// takes the tracepoint's arguments. Its Type is that of the kernel's function, which has a
// pointer before them.
func (v *View) RawTracepoints(pattern string) ([]Function, error) {
	infos, err := v.infos("")
	if err != nil {
		return nil, err
	}
	var found []Function
	for _, info := range infos {
		var names []string
		for name := range info.raw.functions() {
			if point, ok := strings.CutPrefix(string(name), traceIter); ok && glob.Match(pattern, point) {
				names = append(names, point)
			}
		}
		for _, name := range names {
			types, err := info.funcs(traceIter + name)
			if err != nil {
				return nil, err
			}
			found = append(found, Function{Name: name, Module: info.name, Type: types[0]})
		}
	}
	slices.SortFunc(found, compare)
	return slices.CompactFunc(found, func(a, b Function) bool { return compare(a, b) == 0 }), nil
}

// RawTracepointNames returns the names of all raw tracepoints.
func (v *View) RawTracepointNames() []string {
	var names []string
	infos, _ := v.infos("")
	for _, info := range infos {
		for name := range info.raw.functions() {
			if point, ok := strings.CutPrefix(string(name), traceIter); ok {
				names = append(names, point)
			}
		}
	}
	return names
}
