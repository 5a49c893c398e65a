// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// Info describes a recording. It is its first block.
type Info struct {
	Arch   string // the kernel's architecture, as in GOARCH
	Writer string // version of ksnoop that wrote it
	// Header is the size of a record's header in bytes.
	Header int
	// Sessions is set if the records are those of sessions.
	Sessions *Sessions `json:",omitempty"`
	// Run names a run that has several recordings, and Part is the number of this one, from
	// 1 on. Calls and sessions may begin in one part and end in the next.
	Run  string `json:",omitempty"`
	Part int    `json:",omitempty"`
	// Redact is plan.Plan.Redact, Owner is plan.Plan.Owner.
	Redact []string     `json:",omitempty"`
	Owner  layout.Owner `json:",omitempty"`
	Origin
}

// An Origin says where and for what a recording was made.
type Origin struct {
	Host string    `json:",omitempty"` // its name
	Boot time.Time `json:",omitzero"`  // time at which the clock of the records was zero
	// BootID is what the kernel calls the time between two boots, with which one clock runs.
	// It is empty if that is not known.
	BootID string `json:",omitempty"`
	// Options are those by which it was asked for, as the command line has them. They are
	// left out if they are very long.
	Options []string `json:",omitempty"`
}

// maxJSON bounds JSON that is parsed as a whole, in bytes: it takes more memory than text.
const maxJSON = 64 << 10

// maxOptions bounds Options, in bytes.
const maxOptions = maxJSON / 4

// bounded returns o with as many options as the info block has room for: none or all.
func (o Origin) bounded() Origin {
	size := 0
	for _, text := range o.Options {
		size += len(text)
	}
	if size > maxOptions {
		o.Options = nil
	}
	return o
}

// Sessions is what a request for sessions needs besides its plan.
type Sessions struct {
	Traced, Live bool      // as in session.Decoder
	Args         bool      // all arguments were captured
	Branches     bool      `json:",omitempty"` // branches were recorded
	OffCPU       bool      `json:",omitempty"` // off-CPU times were recorded
	Boot         time.Time `json:",omitzero"`  // Origin.Boot in recordings that have no Origin
	Header, Call int       // sizes of a record's header and of a call in it, in bytes
}

// sized returns s with the sizes that this ksnoop writes.
func (s *Sessions) sized() *Sessions {
	if s == nil {
		return nil
	}
	c := *s
	c.Header, c.Call = bpf.SessionHeaderSize, bpf.CallSize
	return &c
}

// A probe is what is needed to make one probe of a plan again. It is stored as a line of
// JSON.
type probe struct {
	// Spec is the text of the SPEC, which need not be UTF-8. If it is nil, the probe has
	// the same SPEC as the previous probe, or none if Bare is set.
	Spec    []byte `json:",omitempty"`
	Bare    bool   `json:",omitempty"`
	Func    string
	Module  string     `json:",omitempty"`
	Addr    uint64     `json:",omitempty"`
	Type    btf.TypeID `json:",omitempty"` // of the function; 0 if BTF has none
	Cut     kernel.Cut `json:",omitzero"`
	Method  string
	Hook    plan.Hook      `json:"Target"` // set for anything but a function
	Layout  string         // fingerprint
	Role    layout.Role    `json:",omitempty"`
	Placed  bool           `json:",omitempty"` // of plan.Probe
	Syscall []kernel.Field `json:",omitzero"`  // of plan.Probe
	Way     *plan.Way      `json:",omitempty"`
}

// Limits on a recorded plan. Resolving a plan takes time and memory for each probe, in
// proportion to its SPEC and its function. Without limits, a recording of a few kilobytes
// could take minutes and gigabytes; with them it takes seconds and hundreds of megabytes.
const (
	maxProbes = 1 << 17 // some for every function
	maxCost   = 4 << 20 // of all probes
)

// paramCost is the cost of a parameter, where a byte of a SPEC costs 1.
const paramCost = 16

// programCost is the cost of a function of a BPF program: up to 256 types are made of those that it names,
// each of a hundred bytes and more.
const programCost = 1024

// cost estimates what resolving a probe takes: the length of its SPEC, parts of which are
// searched repeatedly, and its parameters.
func cost(spec *expr.Spec, f kernel.Function) int {
	n := 1
	if f.InProgram("") {
		n += programCost
	}
	if spec != nil {
		n += len(spec.Text) + len(spec.Text)*len(spec.Text)/512
	}
	if f.Type != nil {
		if proto, ok := f.Type.Type.(*btf.FuncProto); ok {
			n += paramCost * len(proto.Params)
		}
	}
	return n
}

// hookCost estimates what the other declarations of a probe take: fields of a tracepoint,
// parameters of a system call or of an inlined function. Each names a type to look up.
func hookCost(h *plan.Hook, syscall []kernel.Field) (n int) {
	for _, fields := range [...][]kernel.Field{h.Fields, syscall} {
		for i := range fields {
			n += paramCost + len(fields[i].Name) + len(fields[i].Decl)
		}
	}
	n += len(h.File) + paramCost*len(h.Args)
	for i := range h.Params {
		p := &h.Params[i]
		n += paramCost + len(p.Name) + len(p.Type.Name) + len(p.Place.Ops)
	}
	return n
}

// wayCost estimates what finding the blocks of a function takes: some 150 bytes of memory for an
// instruction, which may have one byte.
func wayCost(w *plan.Way) (n int) {
	if w == nil {
		return 0
	}
	for i := range w.Code.Parts {
		n += 4 * len(w.Code.Parts[i].Bytes)
	}
	for i := range w.Notes {
		n += 4 * (1 + len(w.Notes[i].Lines) + len(w.Notes[i].Names))
	}
	return n + 4*(len(w.Code.Parts)+len(w.Code.Faults)+len(w.Code.Strange)+len(w.Refused)+len(w.Callees)+len(w.Syscall))
}

// Affordable returns an error if a recording of p could not be replayed.
func Affordable(p *plan.Plan) error {
	sum := 0
	for _, probe := range p.Probes {
		sum += cost(probe.Spec, probe.Func) + hookCost(&probe.Hook, probe.Syscall) + wayCost(probe.Way)
	}
	if len(p.Probes) > maxProbes || sum > maxCost {
		return fmt.Errorf("%d functions with these SPECs are too many for a recording", len(p.Probes))
	}
	return nil
}

// An ending is event.Losses as it is stored, with the number of records.
type ending struct {
	Records   uint64
	Lost      []uint64 // by bpf.Counter
	Cut       uint64   `json:",omitempty"`
	Uncounted bool     `json:",omitempty"`
	// More says that the run goes on in its next part. What it has lost is in the last one.
	More bool `json:",omitempty"`
}

// describe returns what is stored of a plan. Types have their IDs in cut, if that is not nil.
func describe(p *plan.Plan, view *kernel.View, cut *kernel.TypeCut) ([]probe, error) {
	probes := make([]probe, 0, len(p.Probes))
	var last *expr.Spec
	for _, p := range p.Probes {
		id, err := typeID(view, p.Func)
		if err != nil {
			return nil, err
		}
		if cut != nil {
			id = cut.ID(p.Func.Module, id)
		}
		r := probe{Func: p.Func.Name, Module: p.Func.Module, Addr: p.Func.Addr, Type: id, Cut: p.Func.Cut, Method: p.Method.String(), Hook: p.Hook, Role: p.Role, Placed: p.Placed, Syscall: p.Syscall, Way: p.Way, Layout: fingerprint(p)}
		if p.Spec == nil {
			r.Bare = true
		} else if p.Spec != last {
			r.Spec, last = []byte(p.Spec.Text), p.Spec
		}
		probes = append(probes, r)
	}
	return probes, nil
}

// appendProbes appends the contents of the plan's block.
func appendProbes(dst []byte, probes []probe) ([]byte, error) {
	for i := range probes {
		line, err := json.Marshal(&probes[i])
		if err != nil {
			return dst, err
		}
		dst = append(append(dst, line...), '\n')
	}
	return dst, nil
}

// maxProbe bounds the JSON of a probe, in bytes. Parsing takes up to 30 times as much
// memory.
const maxProbe = 1 << 20

// parseProbes is the inverse of appendProbes. It adds up the cost as it goes, before much
// has been allocated.
func parseProbes(block []byte) ([]probe, error) {
	var probes []probe
	sum := 0
	for line := range bytes.Lines(block) {
		var r probe
		switch {
		case len(line) > maxProbe:
			return nil, damaged("its plan has a probe of %d bytes", len(line))
		case len(probes) == maxProbes:
			return nil, damaged("its plan has more than %d probes", maxProbes)
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, damaged("its plan: %v", err)
		}
		if sum += hookCost(&r.Hook, r.Syscall) + wayCost(r.Way); sum > maxCost {
			return nil, errTooMuch
		}
		probes = append(probes, r)
	}
	return probes, nil
}

var errTooMuch = damaged("its plan takes too much to resolve")

// resolve makes the plan again. It is the inverse of describe. A layout that differs from
// the recorded one is an error.
func resolve(probes []probe, view *kernel.View, info Info) (*plan.Plan, error) {
	sessions := info.Sessions
	var recorded []plan.Recorded
	var spec *expr.Spec
	sum := 0
	for i := range probes {
		r := &probes[i]
		if r.Spec != nil {
			var err error
			if spec, err = expr.Parse(string(r.Spec)); err != nil {
				return nil, err
			}
		}
		if spec == nil && !r.Bare {
			return nil, damaged("its plan begins without a SPEC")
		}
		of, err := r.recorded(view, spec)
		if err != nil {
			return nil, err
		}
		recorded = append(recorded, of)
		if sum += cost(of.Spec, of.Func) + hookCost(&r.Hook, r.Syscall); sum > maxCost {
			return nil, errTooMuch
		}
	}
	p, err := plan.Restore(view, recorded, sessions != nil, sessions != nil && sessions.Args, plan.Options{Arch: info.Arch, Redact: info.Redact, Owner: info.Owner})
	if err != nil {
		return nil, err
	}
	for i, made := range p.Probes {
		if fingerprint(made) != probes[i].Layout {
			return nil, fmt.Errorf("%s: this ksnoop lays records out in another way", recorded[i].Func)
		}
	}
	return p, nil
}

// recorded returns what plan.Restore needs to make the probe again.
func (r *probe) recorded(view *kernel.View, spec *expr.Spec) (of plan.Recorded, err error) {
	f := kernel.Function{Name: r.Func, Module: r.Module, Addr: r.Addr, Cut: r.Cut}
	method, ok := layout.MethodNamed(r.Method)
	if !ok {
		return of, damaged("%s: no way to attach is called %q", f, r.Method)
	}
	if r.Type != 0 {
		if f.Type, err = typeOf(view, f, r.Type); err != nil {
			return of, err
		}
	}
	if r.Bare {
		spec = nil
	}
	return plan.Recorded{Func: f, Hook: r.Hook, Spec: spec, Method: method, Role: r.Role, Placed: r.Placed, Syscall: r.Syscall, Way: r.Way}, nil
}

// types returns the BTF that describes the functions of a module.
func types(view *kernel.View, module string) (*btf.Spec, error) {
	if module == "" {
		return view.BTF()
	}
	return view.ModuleBTF(module)
}

// typeID returns the BTF id of a function's type; 0 if BTF does not describe it.
func typeID(view *kernel.View, f kernel.Function) (btf.TypeID, error) {
	if f.Type == nil {
		return 0, nil
	}
	spec, err := types(view, f.Module)
	if err != nil {
		return 0, err
	}
	id, err := spec.TypeID(f.Type)
	if err != nil {
		return 0, fmt.Errorf("type of %s: %w", f, err)
	}
	return id, nil
}

// typeOf is the inverse of typeID. A recording may give any number, so the type must be
// a function.
func typeOf(view *kernel.View, f kernel.Function, id btf.TypeID) (*btf.Func, error) {
	spec, err := types(view, f.Module)
	if err != nil {
		return nil, err
	}
	t, err := spec.TypeByID(id)
	if err != nil {
		return nil, fmt.Errorf("type of %s: %w", f, err)
	}
	fn, ok := t.(*btf.Func)
	if !ok {
		return nil, damaged("type %d is not that of function %s", id, f)
	}
	return fn, nil
}

// fingerprint identifies a probe's layout: the places of all values in its records, and
// their types.
func fingerprint(p *plan.Probe) string {
	b := fmt.Appendf(nil, "%s %t %t\n", p.Method, p.Joined, p.Timed)
	for i, half := range []*layout.Half{p.Entry, p.Return} {
		if half == nil || half.Record == nil {
			continue
		}
		b = fmt.Appendf(b, "%d: %d\n", i, half.Record.Size)
		for _, s := range half.Record.Slots {
			b = fmt.Appendf(b, "%d %d+%d %d.%d.%d %s\n", s.Index, s.Off, s.Size, s.Item, s.Capture, s.Part, appendTerm(nil, s.Term))
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// appendTerm appends a text for a term. It is the same each time a given BTF is read, and
// depends on the type.
func appendTerm(dst []byte, t expr.Term) []byte {
	size, _ := btf.Sizeof(t.Type())
	dst = append(dst, expr.FormatTerm(t, func(i int) string { return fmt.Sprintf("$arg%d", i+1) })...)
	return fmt.Appendf(dst, " %v:%d", t.Type(), size)
}

// modulesOf returns the modules with traced functions.
func modulesOf(p *plan.Plan) []string {
	var names []string
	for _, p := range p.Probes {
		if m := p.Func.Module; m != "" && !slices.Contains(names, m) {
			names = append(names, m)
		}
	}
	return names
}
