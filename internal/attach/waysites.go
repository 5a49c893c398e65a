// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// attachWays puts probes on the ways of functions: one event of tracefs for all, since each
// event of its own takes the kernel a grace period, both to attach and to detach. What the
// kernel refuses is noted in the plan.
func (t *Tracer) attachWays() (err error) {
	prog := t.engine.program(bpf.ProgPathStep)
	if prog == nil || t.options.LoadOnly {
		return nil
	}
	fsys := t.host.tracefs()
	file, dir, err := fsys.events()
	if err != nil {
		return fmt.Errorf("probes of path(): %w", err)
	}
	defer file.Close()
	base, ok := t.options.Kernel.SymbolNamed(baseSymbol, "")
	if !ok {
		return fmt.Errorf("probes of path(): %w", t.noAddress(t.plan.Probes[0]))
	}
	ev := t.newEvent(dir, "path")
	d := siteDefiner{file: file, event: ev.name, base: base.Addr, symbol: t.options.Kernel.NamedSymbol, tried: map[uint64]bool{}}
	defer func() {
		if err != nil && d.defined > 0 {
			err = errors.Join(err, ev.Close())
		}
	}()
	for i, probe := range t.plan.Probes {
		if probe.Way == nil {
			continue
		}
		way, err := d.define(probe.Way)
		if err != nil {
			return fmt.Errorf("probes of path(): %w", err)
		}
		changed := *probe
		changed.Way = way
		t.plan.Probes[i] = &changed
		if err := t.putSites(&changed); err != nil {
			return err
		}
	}
	if d.defined == 0 {
		return nil
	}
	l, err := ev.open(prog)
	if err != nil {
		return fmt.Errorf("probes of path(): %w", err)
	}
	t.probes = append(t.probes, prog, ev, l)
	t.measured = append(t.measured, measured{prog, RunCost(layout.MethodKprobe)})
	return nil
}

// putSites tells the engine what to take at the probes of a way.
func (t *Tracer) putSites(p *plan.Probe) error {
	for i := range p.Way.Sites() {
		s := &p.Way.Sites()[i]
		v := bpf.PathSite{Probe: uint32(p.ID), Index: uint32(i), Word: s.Test.Word}
		if s.Start {
			v.Word = code.None
		}
		for _, o := range s.Operands {
			v.Operands = append(v.Operands, bpf.PathOperand{Memory: o.Memory, Base: o.Base, Index: o.Index, Scale: o.Scale, Size: o.Size, Disp: o.Disp})
		}
		if err := t.engine.table(bpf.MapPathSites).Put(s.Addr, v.Value()); err != nil {
			return fmt.Errorf("what to take at the probes of path(): %w", err)
		}
	}
	return nil
}

// A siteDefiner defines the probes of one event at instructions.
type siteDefiner struct {
	file    io.Writer
	event   string
	base    uint64
	symbol  func(addr uint64) (kernel.Symbol, bool)
	tried   map[uint64]bool
	defined int
}

// define defines the probes of a way. The kernel refuses instructions that it patches itself;
// where that leaves something open, others are tried.
func (d *siteDefiner) define(w *plan.Way) (*plan.Way, error) {
	for {
		var todo []uint64
		for i := range w.Sites() {
			if addr := w.Sites()[i].Addr; !d.tried[addr] {
				d.tried[addr] = true
				todo = append(todo, addr)
			}
		}
		bad, err := d.write(todo)
		if err != nil {
			return nil, err
		}
		if len(bad) == 0 {
			return w, nil
		}
		if w, err = w.Refuse(bad); err != nil {
			return nil, err
		}
	}
}

// write writes definitions, as many at once as the kernel takes. It returns those that it
// refuses.
func (d *siteDefiner) write(addrs []uint64) (refused []uint64, err error) {
	for len(addrs) > 0 {
		var text []byte
		var lines [][]byte
		var named []uint64
		n := 0
		for ; n < len(addrs) && len(text) < definitions; n++ {
			line := d.line(addrs[n])
			if line == nil {
				refused = append(refused, addrs[n])
				continue
			}
			text, lines, named = append(text, line...), append(lines, line), append(named, addrs[n])
		}
		addrs = addrs[n:]
		if _, err := d.file.Write(text); err == nil {
			d.defined += len(named)
			continue
		}
		for i, addr := range named {
			switch _, err := d.file.Write(lines[i]); {
			case err == nil || errors.Is(err, unix.EEXIST):
				d.defined++
			case refusesPlace(err):
				refused = append(refused, addr)
			default:
				return nil, err
			}
		}
	}
	return refused, nil
}

// line defines the probe of an instruction, which the name of a place tells from the others. As in appendPlace,
// modules can lie before all of the kernel: an instruction there is named by its symbol. It is nil if there is none that
// names it alone.
func (d *siteDefiner) line(addr uint64) []byte {
	dst := fmt.Appendf(nil, "p:%s ", d.event)
	if near(addr, d.base) {
		return fmt.Appendf(dst, "%s+%d\n", baseSymbol, addr-d.base)
	}
	s, ok := d.symbol(addr)
	if !ok {
		return nil // or its module has gone since its code was read
	}
	if s.Module != "" {
		dst = append(append(dst, s.Module...), ':')
	}
	return fmt.Appendf(dst, "%s+%d\n", s.Name, s.Offset)
}

// refusesPlace reports whether an error is about the instruction that is to be probed: the kernel
// patches it (EINVAL, EBUSY), does not take it for the begin of one (EILSEQ), or cannot execute
// it elsewhere (EINVAL, EOPNOTSUPP). All others are about the event or the machine.
func refusesPlace(err error) bool {
	for _, e := range [...]unix.Errno{unix.EINVAL, unix.EILSEQ, unix.EBUSY, unix.EOPNOTSUPP, unix.EADDRNOTAVAIL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
