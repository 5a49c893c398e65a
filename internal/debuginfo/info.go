// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"fmt"
	"sync/atomic"
)

// An Info is the debug info of one kernel, module or program. The file stays mapped; if it
// is truncated meanwhile, Err says so.
type Info struct {
	path         string // "" if unknown
	fault        atomic.Pointer[error]
	options      Options
	data         []byte
	room         *room
	mapped       bool
	sections     *sections
	places       places
	relocate     func() error // runs once, before anything is read
	relocateLate func() error // runs once, before places of parameters are read
	units        *unitIndex
	supUnits     *unitIndex // of the supplementary file, if any
	loader       *loader    // nil if only the file's bytes are known
	symbols      *symbolTable
	stream       *reader
}

// A reader looks up addresses and reuses its memory.
type reader struct {
	info  *Info
	units unitCache
	// foreign caches units that others refer to. Link-time optimisation and dwz leave names
	// of functions in other units. A cache of their own keeps them from evicting the unit
	// being read.
	foreign unitCache
	chain   []entry
}

// Missing returns which .dwo file, or how many, were not found. For their code, lines are
// known but not inlined functions.
func (i *Info) Missing() error {
	h := i.sections.halves
	if h == nil {
		return nil
	}
	h.loader.mu.Lock()
	defer h.loader.mu.Unlock()
	if h.count > 1 {
		return fmt.Errorf("%w (and %d more)", h.missing, h.count-1)
	}
	return h.missing
}

// Close unmaps the files. Results of look-ups stay valid. Without an Info there is nothing to do.
func (i *Info) Close() error {
	if i == nil {
		return nil
	}
	i.room.leave()
	if !i.mapped {
		return nil
	}
	i.mapped = false
	return i.loader.close()
}
