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

// Info describes a recording.
type Info struct {
	Arch   string // of the kernel, as Go names it
	Writer string // the version of ksnoop that wrote it
	// Header is the size of a record's header.
	Header int
	// Sessions is not nil if the records are those of sessions.
	Sessions *Sessions `json:",omitempty"`
}

// Sessions is what is to be known of a request for sessions besides its plan.
type Sessions struct {
	Traced, Live bool      // of session.Decoder
	Args         bool      // all arguments were captured
	Branches     bool      `json:",omitempty"` // they were recorded
	Boot         time.Time // when the clock of the records was zero
	Header, Call int       // sizes of a record's header and of a call in it
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

// A probe is what it takes to make one probe of a plan again.
type probe struct {
	// Spec is the text of its SPEC, which need not be UTF-8. It is nil if the
	// probe has the SPEC of the one before or, if Bare is set, none.
	Spec    []byte `json:",omitempty"`
	Bare    bool   `json:",omitempty"`
	Func    string
	Module  string     `json:",omitempty"`
	Addr    uint64     `json:",omitempty"`
	Type    btf.TypeID `json:",omitempty"` // of the function, 0 if BTF has none
	Method  string
	Target  plan.Target    // if it is not a function
	Layout  string         // fingerprint
	Role    layout.Role    `json:",omitempty"`
	Syscall []kernel.Field `json:",omitzero"` // of plan.Probe
}

// What the plan of a recording may take. To resolve it takes time and memory for
// each probe by what its SPEC and its function have, so that a recording of a few
// kilobytes could take minutes and gigabytes. As it is, it takes seconds and
// hundreds of megabytes.
const (
	maxProbes = 1 << 17 // some for every function
	maxCost   = 4 << 20 // of all probes
)

// paramCost is what a parameter costs compared with a byte of a SPEC.
const paramCost = 16

// cost is what a probe takes to be resolved: the length of its SPEC, of which
// some is searched once for each part, and what all arguments are.
func cost(spec *expr.Spec, fn *btf.Func) int {
	n := 1
	if spec != nil {
		n += len(spec.Text) + len(spec.Text)*len(spec.Text)/512
	}
	if fn != nil {
		if proto, ok := fn.Type.(*btf.FuncProto); ok {
			n += paramCost * len(proto.Params)
		}
	}
	return n
}

// targetCost is what is declared of a probe besides its function: the fields of a tracepoint,
// the parameters of a system call and those of an inlined function, each with the
// name of a type to look up.
func targetCost(t *plan.Target, syscall []kernel.Field) (n int) {
	for _, fields := range [...][]kernel.Field{t.Fields, syscall} {
		for i := range fields {
			n += paramCost + len(fields[i].Name) + len(fields[i].Decl)
		}
	}
	for i := range t.Params {
		p := &t.Params[i]
		n += paramCost + len(p.Name) + len(p.Type.Name) + len(p.Place.Ops)
	}
	return n
}

// Affordable refuses to record what could not be replayed.
func Affordable(p *plan.Plan) error {
	sum := 0
	for _, probe := range p.Probes {
		sum += cost(probe.Spec, probe.Func.Type) + targetCost(&probe.Target, probe.Syscall)
	}
	if len(p.Probes) > maxProbes || sum > maxCost {
		return fmt.Errorf("%d functions with these SPECs are too many for a recording", len(p.Probes))
	}
	return nil
}

// An Ending says what is missing in a recording, as it is known when all is over.
type Ending struct {
	Lost      [bpf.Counters]uint64
	Cut       uint64 // records that there was no more time for after an interrupt
	Uncounted bool   // the kernel has not counted all that it skipped
}

// An ending is an Ending as it is stored, and how many records there are.
type ending struct {
	Records   uint64
	Lost      []uint64 // by bpf.Counter
	Cut       uint64   `json:",omitempty"`
	Uncounted bool     `json:",omitempty"`
}

// describe returns what is to be stored of a plan.
func describe(p *plan.Plan, view *kernel.View) ([]probe, error) {
	probes := make([]probe, 0, len(p.Probes))
	var last *expr.Spec
	for _, p := range p.Probes {
		id, err := typeID(view, p.Func)
		if err != nil {
			return nil, err
		}
		r := probe{Func: p.Func.Name, Module: p.Func.Module, Addr: p.Func.Addr, Type: id, Method: p.Method.String(), Target: p.Target, Role: p.Role, Syscall: p.Syscall, Layout: fingerprint(p)}
		if p.Spec == nil {
			r.Bare = true
		} else if p.Spec != last {
			r.Spec, last = []byte(p.Spec.Text), p.Spec
		}
		probes = append(probes, r)
	}
	return probes, nil
}

// appendProbes appends the block of a plan.
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

// maxProbe bounds the JSON of a probe, which takes up to 30 times as much memory.
const maxProbe = 1 << 20

// parseProbes is the inverse of appendProbes. What a probe is declared with is counted
// here, before there is more of it.
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
		if sum += targetCost(&r.Target, r.Syscall); sum > maxCost {
			return nil, errTooMuch
		}
		probes = append(probes, r)
	}
	return probes, nil
}

var errTooMuch = damaged("its plan takes too much to resolve")

// resolve makes a plan anew, of sessions if there are any. It is the inverse of
// describe.
func resolve(probes []probe, view *kernel.View, arch string, sessions *Sessions) (*plan.Plan, error) {
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
		if sum += cost(of.Spec, of.Func.Type) + targetCost(&r.Target, r.Syscall); sum > maxCost {
			return nil, errTooMuch
		}
	}
	p, err := plan.Restore(view, recorded, sessions != nil, sessions != nil && sessions.Args, plan.Options{Arch: arch})
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

// recorded says what it takes to make the probe again.
func (r *probe) recorded(view *kernel.View, spec *expr.Spec) (of plan.Recorded, err error) {
	f := kernel.Function{Name: r.Func, Module: r.Module, Addr: r.Addr}
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
	return plan.Recorded{Func: f, Target: r.Target, Spec: spec, Method: method, Role: r.Role, Syscall: r.Syscall}, nil
}

// types returns the BTF that describes the functions of a module.
func types(view *kernel.View, module string) (*btf.Spec, error) {
	if module == "" {
		return view.BTF()
	}
	return view.ModuleBTF(module)
}

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

// fingerprint identifies where the values of a probe lie in its records, and
// what they are.
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

// appendTerm appends a term in a form that is the same for each reading of one
// BTF, and differs with the type.
func appendTerm(dst []byte, t expr.Term) []byte {
	size, _ := btf.Sizeof(t.Type())
	dst = append(dst, expr.FormatTerm(t, func(i int) string { return fmt.Sprintf("$arg%d", i+1) })...)
	return fmt.Appendf(dst, " %v:%d", t.Type(), size)
}

// modulesOf returns the modules whose functions a plan traces.
func modulesOf(p *plan.Plan) []string {
	var names []string
	for _, p := range p.Probes {
		if m := p.Func.Module; m != "" && !slices.Contains(names, m) {
			names = append(names, m)
		}
	}
	return names
}
