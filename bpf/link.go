// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"os"
	"slices"
	"sync"
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
	// InFlight is how many calls there is room for besides those in the stash's table.
	InFlight int
	Sites    uint32 // how many functions MapSites is to hold
	Lists    uint32 // how many probes MapLists is to hold; 0: it is not used
	Tail     Tail
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

// The engine's own programs and maps, by name in the collection.
const (
	MapEvents   = engineMapEvents
	MapCounters = engineMapCounters
	MapFamily   = engineMapFamily
	MapSites    = engineMapSites
	MapLists    = engineMapLists
	ProgFork    = engineProgProcessFork
	ProgFree    = engineProgProcessFree
	// ProgStashExit is there if Settings.Stash has frames.
	ProgStashExit = engineProgStashExit
	// These are there if Settings.Sessions is not nil, the last one if Hung is not 0.
	ProgSessionExit = engineProgSessionExit
	ProgSessionFree = engineProgSessionFree
	ProgSessionHung = engineProgSessionHung
)

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
		delete(spec.Programs, ProgFork)
		delete(spec.Programs, ProgFree)
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
	buffer := s.Tail.size()
	if s.Lists > 0 {
		buffer += listReach
	}
	return spec, prepare(spec.Maps[engineMapScratches], buffer)
}

func set(spec *ebpf.CollectionSpec, name string, v any) error {
	if err := spec.Variables[name].Set(v); err != nil {
		return fmt.Errorf("setting %s: %w", name, err)
	}
	return nil
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

// engineObject is the engine as it was compiled. To read it takes some milliseconds; who
// changes it does so in a copy.
var engineObject = sync.OnceValues(func() (*ebpf.CollectionSpec, error) {
	spec, err := loadEngine()
	if err != nil {
		return nil, fmt.Errorf("reading the BPF engine: %w", err)
	}
	return spec, nil
})

// library returns the engine's functions by name.
var library = sync.OnceValues(func() (map[string]asm.Instructions, error) {
	spec, err := engineObject()
	if err != nil {
		return nil, err
	}
	funcs := map[string]asm.Instructions{}
	for _, program := range []string{engineProgLibrary, engineProgSessionLibrary} {
		for _, f := range split(spec.Programs[program].Instructions) {
			funcs[btf.FuncMetadata(&f[0]).Name] = f
		}
	}
	return funcs, nil
})

// split cuts a stream of instructions at the first instruction of each function.
func split(insns asm.Instructions) []asm.Instructions {
	var funcs []asm.Instructions
	for i := range insns {
		if btf.FuncMetadata(&insns[i]) != nil {
			funcs = append(funcs, nil)
		}
		last := len(funcs) - 1
		funcs[last] = append(funcs[last], insns[i])
	}
	return funcs
}

// Link joins generated functions, of which the first is the program, with the functions of the engine
// that they call, directly or not. A generated function replaces the engine's of the same name.
func Link(generated ...Subprogram) (asm.Instructions, error) {
	lib, err := library()
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	var out asm.Instructions
	var add func(name string, insns asm.Instructions) error
	own := map[string]asm.Instructions{}
	for _, f := range generated {
		own[f.Name] = f.Instructions()
	}
	add = func(name string, insns asm.Instructions) error {
		if have[name] {
			return nil
		}
		have[name] = true
		if insns == nil {
			return fmt.Errorf("linking: no function %s", name)
		}
		out = append(out, static(insns)...)
		for _, ref := range insns.FunctionReferences() {
			callee := own[ref]
			if callee == nil {
				callee = lib[ref]
			}
			if err := add(ref, callee); err != nil {
				return err
			}
		}
		return nil
	}
	return out, add(generated[0].Name, own[generated[0].Name])
}

// LinkEnds makes one program for both ends of a call: choose finds out at which end it runs, and
// calls entry[0] or ret[0]. Both halves are linked by themselves, since their functions may have the
// same names.
func LinkEnds(choose Subprogram, entry, ret []Subprogram) (asm.Instructions, error) {
	out := static(choose.Instructions())
	for i, half := range [][]Subprogram{entry, ret} {
		if len(half) == 0 {
			continue // choose does not call it
		}
		insns, err := Link(half...)
		if err != nil {
			return nil, err
		}
		out = append(out, renamed(insns, half[0].Name, [...]string{"@entry", "@return"}[i])...)
	}
	return out, nil
}

// LinkJoined is LinkEnds without the calls: entry[0] and ret[0] become parts of the program. head
// falls through to entry[0] and jumps to ret[0] by its name.
func LinkJoined(head Subprogram, entry, ret []Subprogram) (asm.Instructions, error) {
	program := slices.Clone(head.Insns)
	var rest asm.Instructions
	for i, half := range [][]Subprogram{entry, ret} {
		insns, err := Link(half...)
		if err != nil {
			return nil, err
		}
		insns = renamed(insns, half[0].Name, [...]string{"@entry", "@return"}[i])
		body := plain(split(insns)[0])
		if i > 0 {
			body[0] = body[0].WithSymbol(half[0].Name)
		}
		program = append(program, body...)
		rest = append(rest, insns[len(body):]...)
	}
	head.Insns = program
	return append(static(head.Instructions()), rest...), nil
}

// plain returns a copy of a function's instructions without what makes them a function, so that
// another function can contain them.
func plain(insns asm.Instructions) asm.Instructions {
	out := make(asm.Instructions, len(insns))
	for i, ins := range insns {
		out[i] = asm.Instruction{OpCode: ins.OpCode, Dst: ins.Dst, Src: ins.Src, Offset: ins.Offset, Constant: ins.Constant}.
			WithSource(ins.Source()).WithReference(ins.Reference())
		if i > 0 && ins.Symbol() != "" {
			out[i] = out[i].WithSymbol(ins.Symbol())
		}
	}
	return out
}

// renamed returns a copy of linked functions with a suffix added to all names except keep.
func renamed(insns asm.Instructions, keep, suffix string) asm.Instructions {
	functions := map[string]bool{}
	for i := range insns {
		if fn := btf.FuncMetadata(&insns[i]); fn != nil {
			functions[insns[i].Symbol()] = insns[i].Symbol() != keep
		}
	}
	out := make(asm.Instructions, len(insns))
	for i, ins := range insns {
		if functions[ins.Symbol()] {
			ins = ins.WithSymbol(ins.Symbol() + suffix)
		}
		if functions[ins.Reference()] {
			ins = ins.WithReference(ins.Reference() + suffix)
		}
		out[i] = ins
	}
	return out
}

// static returns a copy of a function's instructions whose BTF says that the function is static. The
// verifier checks a static function at each call, with the types and values of the arguments. It
// checks a global function by itself, and knows neither.
func static(insns asm.Instructions) asm.Instructions {
	out := make(asm.Instructions, len(insns))
	copy(out, insns)
	if fn := btf.FuncMetadata(&out[0]); fn != nil && fn.Linkage != btf.StaticFunc {
		c := *fn
		c.Linkage = btf.StaticFunc
		out[0] = btf.WithFuncMetadata(out[0], &c)
	}
	return out
}

// A Subprogram is generated code: instructions that take up to five arguments in R1 to R5 and leave
// the result in R0.
type Subprogram struct {
	Name  string
	Args  int
	Insns asm.Instructions
}

// Instructions returns the instructions with a symbol and BTF: if one function of a program has BTF,
// the kernel wants it of all.
func (f Subprogram) Instructions() asm.Instructions {
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	proto := &btf.FuncProto{Return: long}
	for i := range f.Args {
		proto.Params = append(proto.Params, btf.FuncParam{Name: string(rune('a' + i)), Type: long})
	}
	insns := make(asm.Instructions, len(f.Insns))
	copy(insns, f.Insns)
	insns[0] = btf.WithFuncMetadata(insns[0].WithSymbol(f.Name), &btf.Func{Name: f.Name, Type: proto, Linkage: btf.StaticFunc})
	if insns[0].Source() == nil {
		insns[0] = insns[0].WithSource(asm.Comment(f.Name))
	}
	return insns
}
