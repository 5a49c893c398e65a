// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A group is probes, all of one method, for which the same programs serve:
// what is loaded once and hooked many times.
type group struct {
	method   layout.Method
	programs codegen.Programs
	probes   []*plan.Probe
}

// attachMany attaches probes that share what they can. Those that their method
// refuses are attached with another one, if that is allowed: what tracing_multi
// refuses may still be one of many.
func (t *Tracer) attachMany(probes []*plan.Probe) error {
	byAddress := sync.OnceValue(func() layout.Method { return (&Choice{try: t.host.has}).byAddress(t.plan.Probes) })
	for {
		before := len(t.failed)
		for _, g := range t.groups(probes) {
			if t.hurried() {
				return ErrInterrupted
			}
			t.attachGroup(g)
		}
		if t.hurried() {
			return ErrInterrupted
		}
		if !t.options.Fallback {
			return nil
		}
		probes = nil
		left := t.failed[:before:before]
		for _, f := range t.failed[before:] {
			if f.Probe.Method == layout.MethodKprobe || f.Probe.Method == layout.MethodUprobe {
				left = append(left, f)
				continue
			}
			p, err := t.change(f.Probe, afterMany(f.Probe.Method, byAddress))
			if err != nil {
				left = append(left, f)
				continue
			}
			t.options.Log.Debug("falling back on "+p.Method.String(), "function", p.Name, "reason", f.Err)
			probes = append(probes, p)
		}
		t.failed = left
		if len(probes) == 0 {
			return nil
		}
		if !t.fits() {
			return errNoRoom
		}
		located, err := locate(t.plan, t.options.Kernel)
		if err != nil {
			return err
		}
		t.plan.Probes = slices.Clone(located.Probes)
		for i, p := range probes {
			probes[i] = t.plan.Probes[p.ID]
		}
	}
}

// afterMany is the method to fall back on. To find out what the kernel has by
// address takes a while.
func afterMany(m layout.Method, byAddress func() layout.Method) layout.Method {
	if m == layout.MethodTracingMulti {
		return byAddress()
	}
	return layout.MethodKprobe
}

// groups compiles probes and puts together those whose programs came out the
// same, in the order of the first of each.
func (t *Tracer) groups(probes []*plan.Probe) []*group {
	code := t.options.Code
	code.Shared = true
	layers := map[any]int{} // by address or, on trampolines and in user space, name
	var groups []*group
	byCode, byShape := map[string]*group{}, map[moduleShape]*group{}
	var key []byte
	for _, p := range probes {
		where := any(p.Func.Addr)
		switch {
		case p.Method == layout.MethodTracingMulti:
			where = p.Func.String()
		case p.Method == layout.MethodUprobe:
			where = p.Name
		case p.Func.Addr == 0:
			t.fail(t.noAddress(p), p)
			continue
		}
		code.Layer = layers[where]
		layers[where]++
		module := moduleOf(p)
		plain, shaped := codegen.ShapeOf(&p.Probe, code)
		shape := moduleShape{plain, module}
		refusal := unfit(p)
		if g := byShape[shape]; g != nil && shaped && refusal == nil {
			if err := t.site(p, code); err != nil {
				t.fail(err, p)
			} else {
				g.probes = append(g.probes, p)
			}
			continue
		}
		if refusal != nil {
			t.fail(refusal, p)
			continue
		}
		programs, err := codegen.Compile(&p.Probe, code)
		if err == nil {
			err = t.site(p, code)
		}
		if err == nil {
			err = t.list(p, code)
		}
		if err != nil {
			t.fail(err, p)
			continue
		}
		key = append(append(key[:0], byte(p.Method)), module...)
		if p.Method != layout.MethodKprobe && p.Method != layout.MethodUprobe {
			key = binary.AppendUvarint(append(key, '|'), uint64(code.Layer)) // at a function a link runs its program once, with one cookie
		}
		for _, functions := range [][]bpf.Subprogram{programs.Entry, programs.Return} {
			key = appendCode(append(key, '|'), functions)
		}
		g := byCode[string(key)]
		if g == nil {
			g = &group{method: p.Method, programs: programs}
			byCode[string(key)] = g
			groups = append(groups, g)
		}
		if shaped {
			byShape[shape] = g
		}
		g.probes = append(g.probes, p)
	}
	return groups
}

// A moduleShape is the shape of programs that are loaded for one module's functions.
type moduleShape struct {
	codegen.Shape
	module string
}

// moduleOf returns the module for whose functions a probe's programs are loaded,
// if they are loaded for those of one.
func moduleOf(p *plan.Probe) string {
	if p.Method == layout.MethodTracingMulti {
		return p.Func.Module
	}
	return ""
}

// site tells the engine which probe it is that is hit at an address, where a
// link cannot.
func (t *Tracer) site(p *plan.Probe, code codegen.Options) error {
	if p.Method != layout.MethodKprobe {
		return nil
	}
	return t.engine.table(bpf.MapSites).Put(bpf.Site(p.Func.Addr, code.Layer), codegen.Cookie(&p.Probe))
}

// list hands over what the engine is to capture for a probe, if it is to.
func (t *Tracer) list(p *plan.Probe, code codegen.Options) error {
	entry, atEntry := codegen.List(&p.Probe, p.Entry, code)
	ret, atReturn := codegen.List(&p.Probe, p.Return, code)
	if !atEntry && !atReturn {
		return nil
	}
	if err := bpf.PutLists(t.engine.table(bpf.MapLists), uint32(p.ID), entry, ret); err != nil {
		return fmt.Errorf("what to capture of %s: %w", p.Func.Name, err)
	}
	return nil
}

// appendCode appends what makes functions differ to the kernel.
func appendCode(dst []byte, functions []bpf.Subprogram) []byte {
	for _, f := range functions {
		dst = append(dst, f.Name...)
		for i := range f.Insns {
			ins := &f.Insns[i]
			dst = binary.LittleEndian.AppendUint64(dst, uint64(ins.OpCode)<<32|uint64(ins.Dst)<<24|uint64(ins.Src)<<16|uint64(uint16(ins.Offset)))
			dst = binary.LittleEndian.AppendUint64(dst, uint64(ins.Constant))
			dst = append(append(append(dst, ins.Symbol()...), 0), ins.Reference()...)
			dst = append(dst, 0)
		}
	}
	return dst
}

// attachGroup loads the programs of a group and hooks them. Functions that
// refuse are left out, at both ends.
func (t *Tracer) attachGroup(g *group) {
	hook := t.hookMulti
	switch g.method {
	case layout.MethodKprobe:
		hook = t.hookEvent
	case layout.MethodTracingMulti:
		hook = t.hookTracing
	case layout.MethodUprobe:
		hook = t.hookUser
	}
	loaded := map[end]program{}
	for _, half := range ends(g.programs) {
		prog, err := t.load(g.probes[0], half)
		if err != nil {
			t.fail(fmt.Errorf("%s of %s: %w", hookName(g.method, half.end), g.probes[0].Func.Name, err), g.probes...)
			return
		}
		loaded[half.end] = prog
		t.probes = append(t.probes, prog)
	}
	if t.options.LoadOnly {
		return
	}
	for probes := g.probes; len(probes) > 0 && !t.hurried(); {
		var made []closer
		var failed []Failure
		for _, half := range ends(g.programs) {
			var links []closer
			begin := time.Now()
			links, failed = hook(loaded[half.end], probes, half.end)
			t.options.Log.Debug(fmt.Sprintf("%s of %d functions", hookName(g.method, half.end), len(probes)), "took", time.Since(begin))
			made = append(made, links...)
			if len(failed) > 0 {
				break
			}
		}
		if len(failed) == 0 || len(loaded) == 1 {
			if g.method == layout.MethodKprobe {
				pair(made)
			}
			t.probes = append(t.probes, made...)
			t.failed = append(t.failed, failed...)
			break
		}
		// Once more without them: no function is to have one end only.
		if err := closeAll(made); err != nil {
			t.options.Log.Warn("programs stay hooked at one end of some calls", "reason", err)
		}
		t.failed = append(t.failed, failed...)
		probes = without(probes, failed)
	}
}

// without returns the probes that have not failed.
func without(probes []*plan.Probe, failed []Failure) []*plan.Probe {
	bad := make(map[*plan.Probe]bool, len(failed))
	for _, f := range failed {
		bad[f.Probe] = true
	}
	var good []*plan.Probe
	for _, p := range probes {
		if !bad[p] {
			good = append(good, p)
		}
	}
	return good
}

func (t *Tracer) fail(err error, probes ...*plan.Probe) {
	for _, p := range probes {
		t.failed = append(t.failed, Failure{t.plan.Probes[p.ID], err})
	}
}

// noAddress is why a function cannot be one of many.
func (t *Tracer) noAddress(p *plan.Probe) error {
	err := t.options.Kernel.Symbols()
	switch {
	case err != nil && ambiguous(p):
		return fmt.Errorf("several functions are called %s, and only their addresses tell which is meant: %w", p.Name, err)
	case err != nil:
		return fmt.Errorf("many functions at once are hooked by their addresses: %w", err)
	}
	return fmt.Errorf("%s cannot be hooked with others: /proc/kallsyms has no address of %[1]s", p.Name)
}
