// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// Many kprobes are made as one event of tracefs that has many probes (Linux
// 5.5), hooked by one perf event: an event of its own for each takes the
// kernel a grace period each, both to attach and to detach.

func (t *Tracer) eventGroup() string { return fmt.Sprintf("%s%d_%s", eventGroup, t.pids.self, process) }

// affordReturns refuses kretprobes that are too many for this machine with those that there are.
func (t *Tracer) affordReturns(functions int, e end) error {
	if e == atEntry || !t.options.Kernel.Since(perCPUReturns.major, perCPUReturns.minor) {
		return nil
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	memory, err := machineMemory()
	if err != nil {
		return err
	}
	return tooManyReturns(t.kretprobes+functions, cpus, os.Getpagesize(), memory)
}

// hookEvent hooks a program at many functions by one event. The program looks
// up by the function's address which probe it runs for.
func (t *Tracer) hookEvent(prog program, probes []*plan.Probe, e end) (made []closer, failed []Failure) {
	if err := t.affordReturns(len(probes), e); err != nil {
		for _, p := range probes {
			failed = append(failed, Failure{p, err})
		}
		return nil, failed
	}
	fsys := t.host.tracefs()
	file, dir, err := fsys.events()
	if errors.Is(err, fs.ErrNotExist) {
		return t.hookEach(prog, probes, e, failed)
	}
	if err != nil {
		for _, p := range probes {
			failed = append(failed, Failure{p, err})
		}
		return nil, failed
	}
	defer file.Close()
	base, ok := t.options.Kernel.SymbolNamed(baseSymbol, "")
	if !ok {
		for _, p := range probes {
			failed = append(failed, Failure{p, t.noAddress(p)})
		}
		return nil, failed
	}
	unnamed := slices.DeleteFunc(slices.Clone(probes), func(p *plan.Probe) bool { return named(&p.Func, base.Addr) })
	if len(unnamed) > 0 {
		var bad []Failure
		made, bad = t.hookAddresses(prog, unnamed, e)
		failed = append(failed, bad...)
		probes = slices.DeleteFunc(slices.Clone(probes), func(p *plan.Probe) bool { return !named(&p.Func, base.Addr) })
	}
	if len(probes) == 0 {
		return made, failed
	}
	ev := t.newEvent(dir, [...]string{"entry", "return"}[e])
	bad := ev.define(file, probes, e, base.Addr)
	failed = append(failed, bad...)
	probes = without(probes, bad)
	if len(probes) == 0 {
		return made, failed
	}
	l, err := ev.open(prog)
	if err != nil {
		err = errors.Join(err, ev.Close())
		for _, p := range probes {
			failed = append(failed, Failure{p, err})
		}
		return made, failed
	}
	var counts closer = ev
	if e == atReturn {
		t.kretprobes += len(probes)
		ev.closed = func() { t.kretprobes -= len(probes) }
		counts = awaiting{ev}
	}
	return append(made, counts, l), failed // closed in reverse order
}

// newEvent names an event of tracefs, which is in the folder dir. The kernel takes definitions of
// one name for those of one event, and a process may have several tracers.
func (t *Tracer) newEvent(dir, kind string) *event {
	t.events++
	return &event{fsys: t.host.tracefs(), dir: dir, name: fmt.Sprintf("%s/%s%d_%s", t.eventGroup(), kind, t.events, rand.Text()[:nonce])}
}

// hookEach hooks a program at many functions by an event for each, which takes
// no tracefs. It is added to what has failed before.
func (t *Tracer) hookEach(prog program, probes []*plan.Probe, e end, failed []Failure) (made []closer, _ []Failure) {
	t.sayEach.Do(func() {
		t.options.Log.Warn("tracefs is not there, so that each kprobe takes an event of its own: that takes the kernel long, above all at the end",
			"remedy", "mount -t tracefs tracefs "+tracefsDirs[0])
	})
	made, bad := t.hookAddresses(prog, probes, e)
	return made, append(failed, bad...)
}

// hookAddresses hooks a program at functions by an event for each.
func (t *Tracer) hookAddresses(prog program, probes []*plan.Probe, e end) (made []closer, failed []Failure) {
	for _, p := range probes {
		if t.hurried() {
			break // Attach gives up
		}
		l, err := prog.kprobeAt(p.Func.Addr, e)
		if l, err = await(e, l, err); err != nil {
			failed = append(failed, Failure{p, err})
			continue
		}
		made = append(made, l)
	}
	return made, failed
}

// An event is one event of tracefs. Close takes its definition away.
type event struct {
	fsys      tracefs
	dir, name string // the folder of tracefs; GROUP/NAME, of which NAME is unique
	closed    func() // called by Close, if it is not nil
}

// baseSymbol is a symbol that every kernel has, before all functions.
const baseSymbol = "_stext"

// definitions is how many bytes of definitions are written at once.
const definitions = 4000

// define writes the definitions of an event's probes. The kernel stops at the
// first that it refuses, so those of a part that was not taken whole are
// written one by one.
func (ev *event) define(file io.Writer, probes []*plan.Probe, e end, base uint64) (failed []Failure) {
	kind := "p"
	if e == atReturn {
		kind = fmt.Sprintf("r%d", max(maxActive/len(probes), 32))
	}
	line := func(dst []byte, p *plan.Probe) []byte {
		return append(appendPlace(fmt.Appendf(dst, "%s:%s ", kind, ev.name), &p.Func, base), '\n')
	}
	var text []byte
	flush := func(part []*plan.Probe) {
		if _, err := file.Write(text); err == nil {
			return
		}
		for _, p := range part {
			if _, err := file.Write(line(nil, p)); err != nil && !errors.Is(err, unix.EEXIST) {
				failed = append(failed, Failure{p, fmt.Errorf("%s of %s: %w", hookName(p.Method, e), p.Func.Name, err)})
			}
		}
	}
	first := 0
	for i, p := range probes {
		text = line(text, p)
		if len(text) > definitions || i == len(probes)-1 {
			flush(probes[first : i+1])
			first, text = i+1, text[:0]
		}
	}
	return failed
}

// near reports whether a place can be named by how far it is behind base.
func near(addr, base uint64) bool { return addr >= base && addr-base <= math.MaxUint32 }

// named reports whether appendPlace can name a function. Of several symbols of one name in a module the
// kernel takes the first, a newer one none.
func named(f *kernel.Function, base uint64) bool { return near(f.Addr, base) || !f.Namesakes }

// appendPlace names a function as how far behind base it is: the kernel tells
// probes of one event by what they are named by, and several functions may share
// a name. Modules can lie before all of the kernel, as they do on arm64; there
// the name has to do, in its module.
func appendPlace(dst []byte, f *kernel.Function, base uint64) []byte {
	if near(f.Addr, base) {
		return fmt.Appendf(dst, "%s+%d", baseSymbol, f.Addr-base)
	}
	return fmt.Appendf(dst, "%s:%s", f.Module, f.Name)
}

// open hooks a program at the event.
func (ev *event) open(prog program) (closer, error) {
	b, err := os.ReadFile(filepath.Join(ev.dir, "events", ev.name, "id"))
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("id of event %s: %w", ev.name, err)
	}
	l, err := prog.tracefsEvent(id)
	if err != nil {
		return nil, fmt.Errorf("event %s: %w", ev.name, err)
	}
	return l, nil
}

// Close takes the definition away.
func (ev *event) Close() error {
	file, _, err := ev.fsys.events()
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "-:%s\n", ev.name); err != nil {
		return fmt.Errorf("removing event %s: %w", ev.name, err)
	}
	if ev.closed != nil {
		ev.closed()
	}
	return nil
}
