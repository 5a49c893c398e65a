// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// Settings are fixed when the engine is loaded.
type Settings struct {
	Filter Filter // by the kernel's own PIDs
	// Namespace is the PID namespace of this process. Self is the number of this process in the
	// initial one; 0: the same as in its own.
	Namespace Namespace
	Self      uint32
	Rate      Rate
	RingSize  uint32 // bytes, a power of two and a multiple of the page size
	Stash     Stash  // what is kept of calls in flight
	Tables    Tables // that calls are added to
	// Keys is how many keys each table is to have room for on each CPU; 0: many. KeptStacks says
	// that some keys are stacks.
	Keys       int
	KeptStacks bool
	// InFlight is how many calls there is room for besides those in the stash's table.
	InFlight int
	Sites    uint32 // how many functions MapSites is to hold
	Lists    uint32 // how many probes MapLists is to hold; 0: it is not used
	Tail     Tail
	Paths    Paths // ways through functions
	// EarlyFork says that hash maps may not take memory where a task is made ready to run. Up to Linux 6.0 they use kmalloc,
	// which may want the lock that is held there. New tasks are then seen at sched_process_fork.
	EarlyFork bool
	// Untyped says that the kernel's BTF cannot be seen: programs use helpers instead of plain
	// loads. There are no sessions then.
	Untyped bool
	// TraceSelf traces this process, too. By default it is left out: showing a call makes calls,
	// which would be shown in turn.
	TraceSelf bool
	// Wake makes the kernel wake the reader of the ring buffer for each record. By default the
	// reader polls: a wake-up costs the traced call more than everything else, and can be traced
	// itself.
	Wake bool
	// Owner is what records have of the task whose call it is: a layout.Owner.
	Owner uint8
	// Subprograms replace those of the engine with the same names. Generated programs must be
	// linked with them, too.
	Subprograms []Subprogram
	// Sessions is nil if the request has no sessions.
	Sessions *SessionSettings
}

// A Rate is the most calls that are sent in a window of time. The zero value is no limit.
type Rate struct {
	Most   uint64
	Window time.Duration
}

// Site is the key in MapSites of the function at an address. layer counts the probes of the same
// function that come before.
func Site(addr uint64, layer int) uint64 { return addr ^ uint64(layer)<<siteLayer }

const (
	siteLayer = uint64(engineLimitSITE_LAYER)
	noWakeup  = uint32(engineRingbufFlagBPF_RB_NO_WAKEUP)
	// sectionABI is there for the types that only user space needs; see union abi_only.
	sectionABI = ".rodata.abi"
)

// Engine returns the engine's maps and its own programs, set up as s says. The caller adds the
// programs that Link returns, and loads all of it.
func Engine(s Settings) (*ebpf.CollectionSpec, error) {
	object, err := engineObject()
	if err != nil {
		return nil, err
	}
	spec := object.Copy()
	delete(spec.Maps, sectionABI)
	delete(spec.Variables, engineVarAbiOnly)
	delete(spec.Programs, engineProgLibrary)
	delete(spec.Programs, ProgListPIDs)
	if !s.Filter.Family {
		delete(spec.Programs, ProgFree)
	}
	if !s.Filter.Family || s.EarlyFork {
		delete(spec.Programs, ProgFork)
	}
	if !s.Filter.Family || !s.EarlyFork {
		delete(spec.Programs, ProgForkEarly)
	}
	var config engineConfig // 0: only idle tasks are left out
	if !s.TraceSelf {
		if config.Self = s.Self; config.Self == 0 {
			config.Self = uint32(os.Getpid())
		}
	}
	if !s.Wake {
		config.Wake = noWakeup
	}
	config.Record = uint32(s.Owner)
	if s.Namespace.Addr != 0 {
		config.Record |= uint32(engineRecordPartRECORD_OURS)
	}
	setGuard(spec)
	if err := set(spec, engineVarSettings, config); err != nil {
		return nil, err
	}
	if err := set(spec, engineVarPidNamespace, enginePidNamespaceConfig{Addr: s.Namespace.Addr, Level: s.Namespace.Level}); err != nil {
		return nil, err
	}
	untyped := uint32(0)
	if s.Untyped {
		untyped = 1
	}
	if err := set(spec, engineVarUntyped, untyped); err != nil {
		return nil, err
	}
	if err := prepareSessions(spec, s.Sessions); err != nil {
		return nil, err
	}
	if err := s.Filter.set(spec); err != nil {
		return nil, err
	}
	limit := engineRateLimit{Most: s.Rate.Most, Window: uint64(s.Rate.Window)}
	if err := set(spec, engineVarRateLimit, limit); err != nil {
		return nil, err
	}
	if err := set(spec, engineVarTailSettings, s.Tail.config()); err != nil {
		return nil, err
	}
	if err := s.Stash.set(spec, s.InFlight); err != nil {
		return nil, err
	}
	if err := s.Tables.set(spec, s.KeptStacks); err != nil {
		return nil, err
	}
	for _, prog := range spec.Programs {
		var insns asm.Instructions
		for _, f := range split(prog.Instructions) {
			insns = append(insns, static(s.replacement(f))...)
		}
		prog.Instructions = insns
	}
	spec.Maps[MapEvents].MaxEntries = s.RingSize
	spec.Maps[MapSites].MaxEntries = max(s.Sites, 1)
	spec.Maps[MapLists].MaxEntries = max(s.Lists, 1)
	if err := s.Paths.set(spec); err != nil {
		return nil, err
	}
	buffer := s.Tail.size(s.Paths.size())
	if s.KeptStacks {
		buffer = max(buffer, scratchOfStack)
	}
	if s.Lists > 0 {
		buffer += listReach
	}
	return spec, prepare(spec, buffer)
}

// replacement returns f, or the subprogram that replaces it.
func (s *Settings) replacement(f asm.Instructions) asm.Instructions {
	for _, own := range s.Subprograms {
		if own.Name == btf.FuncMetadata(&f[0]).Name {
			return own.Instructions()
		}
	}
	return f
}
