// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
)

// running is the kernel that we run on.
type running struct{ types *btf.Cache } // nil: capabilities are tried with types that are read anew

func (running) loadEngine(spec *ebpf.CollectionSpec, o ebpf.CollectionOptions) (engine, error) {
	c, err := ebpf.NewCollectionWithOptions(spec, o)
	if err != nil {
		return nil, err
	}
	return loadedEngine{c}, nil
}

func (running) loadProgram(spec *ebpf.ProgramSpec, o ebpf.CollectionOptions) (program, error) {
	prog, err := newProgram(spec, o)
	if err != nil {
		return nil, err
	}
	return loadedProgram{prog}, nil
}

// newProgram loads a collection of one: only these share what was read of the
// kernel's types.
func newProgram(spec *ebpf.ProgramSpec, o ebpf.CollectionOptions) (*ebpf.Program, error) {
	const one = "program"
	c, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{one: spec}}, o)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.DetachProgram(one), nil
}

func (running) loadTracing(p *tracingProgram, types *btf.Cache) (program, error) {
	prog, err := p.load(types)
	if err != nil {
		return nil, err
	}
	return loadedProgram{prog}, nil
}

func (running) moduleTypes(name string) (object, error) {
	h, err := btf.FindHandle(func(info *btf.HandleInfo) bool { return info.IsModule() && info.Name == name })
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (running) loadedProgram(id ebpf.ProgramID) (object, error) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// measure needs CAP_SYS_ADMIN, unless the administrator has the kernel measure all the time.
func (running) measure() (io.Closer, error) {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if !errors.Is(err, unix.EPERM) {
		return stats, err
	}
	always, readErr := os.ReadFile("/proc/sys/kernel/bpf_stats_enabled")
	switch {
	case Scarce(readErr):
		return nil, readErr // which may pass
	case strings.TrimSpace(string(always)) == "1":
		return io.NopCloser(nil), nil
	}
	return nil, err
}

func (running) ownTime() time.Duration {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func (running) tracefs() tracefs   { return mountedTracefs() }
func (running) pidsAreOurs() bool  { return inInitialNamespace() }
func (running) ended(pid int) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

func (r running) has(c Capability) error {
	if r.types == nil {
		return c.Probe()
	}
	return c.ProbeWith(r.types)
}

type loadedEngine struct{ *ebpf.Collection }

func (e loadedEngine) associate(insns asm.Instructions) error {
	for name, m := range e.Maps {
		if err := insns.AssociateMap(name, m); err != nil && !errors.Is(err, asm.ErrUnreferencedSymbol) {
			return fmt.Errorf("linking map %s: %w", name, err)
		}
	}
	return nil
}

func (e loadedEngine) program(name string) program {
	if p := e.Programs[name]; p != nil {
		return loadedProgram{p}
	}
	return nil
}

func (e loadedEngine) table(name string) table       { return e.Maps[name] }
func (e loadedEngine) variable(name string) variable { return e.Variables[name] }

func (e loadedEngine) memory(name string, size int) ([]byte, error) {
	return unix.Mmap(e.Maps[name].FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func (loadedEngine) unmap(memory []byte) error { return unix.Munmap(memory) }

func (running) largeArrays() bool {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 5 << 20, MaxEntries: 1})
	if err != nil {
		return false
	}
	_ = m.Close()
	return true
}

// A nest is a map in another one. When it is replaced, the kernel waits until no program can use the old one any more
// (maybe_wait_bpf_programs).
type nest struct{ outer, inner *ebpf.Map }

func (running) settler() (settler, error) {
	spec := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	outer, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: spec})
	if err != nil {
		return nil, err
	}
	inner, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, errors.Join(err, outer.Close())
	}
	return nest{outer, inner}, nil
}

// settle replaces the map by itself.
func (n nest) settle() error {
	return unpreempted(func() error { return n.outer.Put(uint32(0), n.inner) })
}

func (n nest) Close() error { return errors.Join(n.outer.Close(), n.inner.Close()) }

func (e loadedEngine) records() (recordReader, error) {
	r, err := ringbuf.NewReader(e.Maps[bpf.MapEvents])
	if err != nil {
		return nil, err
	}
	return r, nil
}

type loadedProgram struct{ *ebpf.Program }

var _ program = loadedProgram{}

func (p loadedProgram) trampoline() (closer, error) {
	return lastingLinked(link.AttachTracing(link.TracingOptions{Program: p.Program}))
}

func (p loadedProgram) fsession() (closer, error) { return linkTracing(p.Program, attachFsession) }

func (p loadedProgram) tracingMulti(as ebpf.AttachType, functions []btf.TypeID, cookies []uint64) (closer, error) {
	return linkTracingMulti(p.Program, as, functions, cookies)
}

func (p loadedProgram) kprobe(symbol string, o *link.KprobeOptions) (closer, error) {
	return linked(link.Kprobe(symbol, p.Program, o))
}

func (p loadedProgram) kretprobe(symbol string, o *link.KprobeOptions) (closer, error) {
	return linked(link.Kretprobe(symbol, p.Program, o))
}

func (p loadedProgram) kprobeAt(addr uint64, e end) (closer, error) {
	return hookAddress(addr, e, p.Program)
}

func (p loadedProgram) kprobeMulti(e end, o link.KprobeMultiOptions) (closer, error) {
	if e == atReturn {
		return lastingLinked(link.KretprobeMulti(p.Program, o))
	}
	return lastingLinked(link.KprobeMulti(p.Program, o))
}

func (p loadedProgram) tracefsEvent(id uint64) (closer, error) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Size: unix.PERF_ATTR_SIZE_VER5,
		Sample_type: unix.PERF_SAMPLE_RAW, Sample: 1, Wakeup: 1}
	return linkEvent(p.Program, &attr)
}

func (p loadedProgram) tracepoint(group, name string) (closer, error) {
	return linked(link.Tracepoint(group, name, p.Program, nil))
}

func (p loadedProgram) rawTracepoint(name string) (closer, error) {
	return linked(link.AttachRawTracepoint(link.RawTracepointOptions{Name: name, Program: p.Program}))
}

func (running) userMulti() bool { return features.HaveBPFLinkUprobeMulti() == nil }

func (p loadedProgram) uprobe(file userFile, o *link.UprobeOptions, e end) (closer, error) {
	x, done, err := file.openExecutable()
	if err != nil {
		return nil, err
	}
	defer done()
	if e == atReturn {
		return linked(x.Uretprobe("", p.Program, o))
	}
	return linked(x.Uprobe("", p.Program, o))
}

func (p loadedProgram) uprobeMulti(file userFile, o *link.UprobeMultiOptions, e end) (closer, error) {
	x, done, err := file.openExecutable()
	if err != nil {
		return nil, err
	}
	defer done()
	if e == atReturn {
		return userLinked(x.UretprobeMulti(nil, p.Program, o))
	}
	return userLinked(x.UprobeMulti(nil, p.Program, o))
}

// call runs the program as bpf_prog_test_run_tracing does.
func (p loadedProgram) call() error {
	_, err := p.Run(&ebpf.RunOptions{})
	return err
}

func (p loadedProgram) iterate() (io.ReadCloser, error) {
	it, err := link.AttachIter(link.IterOptions{Program: p.Program})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	return it.Open()
}
