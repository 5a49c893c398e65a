// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// Options say how a plan is attached.
type Options struct {
	Settings bpf.Settings
	Code     codegen.Options
	// Kernel is where addresses are looked up, by which many functions are
	// hooked at once.
	Kernel *kernel.View
	// Fallback allows a probe that cannot be attached with its method to be
	// attached with another one.
	Fallback bool
	// LoadOnly loads all programs and attaches none.
	LoadOnly bool
	// Latency is how long records may wait to be read together with others.
	Latency time.Duration
	// Hurry is closed when somebody waits for the end: Attach gives up then, and Records does
	// not take long for what is still in the buffer. It may be nil.
	Hurry <-chan struct{}
	// Leave passes links, whose programs are switched off, to another process, which closes them
	// after this one has: the kernel takes longer to remove them than a hurry allows. nil: this
	// process waits for that.
	Leave func([]*os.File) error
	Log   *slog.Logger
}

// untyped reports whether the kernel's own BTF is not to be counted on.
func (o *Options) untyped() bool { return o.Kernel.GivenTypes() }

// A Tracer is a plan at work. Close detaches everything.
type Tracer struct {
	plan      *plan.Plan // as it is attached; a copy of what Attach was given
	options   Options
	host      host
	engine    engine
	constants bpf.Constants // of the engine
	probes    []closer
	reader    recordReader
	failed    []Failure
	// uncounted says that the kernel does not tell all that it has skipped.
	uncounted bool
	types     *btf.Cache // of the kernel, for all programs
	// skipped is what the kernel had skipped by the time that all was attached. It
	// skips programs on a CPU that is serving a bpf system call on a map, such as
	// those that attaching takes.
	skipped   skipped
	events    int               // of tracefs that were defined
	sayEach   sync.Once         // that there is no tracefs
	objects   map[string]object // by the modules of functions
	pids      *pidSpace
	rows      rows
	turning   sync.Mutex
	stopped   bool          // by Stop
	paused    time.Duration // for how long, until pausedAt
	pausedAt  time.Time     // zero: they are not paused
	measured  []measured
	cut       atomic.Uint64 // records that Records has left out
	read      atomic.Uint64 // records
	taken     atomic.Uint64 // bytes of the ring buffer that records have taken, and nobody needs any more
	userMulti func() bool   // of the host, asked once
	places    int           // of uprobes
	// kretprobes are those of open events.
	kretprobes int
	room       room
	roomy      bool // room is for what may be fallen back on, too
	// detaching lets one goroutine at a time take probes off.
	detaching sync.Mutex
	// counting guards uncounted, and detached, which says that probes are being taken off, or were.
	counting sync.Mutex
	detached bool
	// looking guards closed: that Pending no longer looks into the buffer, whose memory goes with the reader.
	looking sync.Mutex
	closed  bool
}

// errDetached is why nothing is known of what the kernel has skipped.
var errDetached = errors.New("what is attached is being taken off")

// ErrInterrupted is why nothing is attached if somebody waited for the end before all was.
var ErrInterrupted = errors.New("interrupted while it was attaching")

// A Failure is a probe that could not be attached.
type Failure struct {
	Probe *plan.Probe
	Err   error
}

// Attach loads the programs of a plan and attaches them. They do nothing before Start. A
// probe that cannot be attached does not keep the others from it; the error is that of
// the first if there are no others.
func Attach(p *plan.Plan, o Options) (*Tracer, error) { return attachTo(running{}, p, o) }

// attachTo attaches with room for the methods of the plan. If a probe falls back on one that needs more,
// it starts again, with room for whatever may be fallen back on. Most requests need none of that.
func attachTo(h host, p *plan.Plan, o Options) (*Tracer, error) {
	t, err := attachWith(h, p, o, false)
	if errors.Is(err, errNoRoom) {
		o.Log.Debug("attaching once more, with room for other methods")
		t, err = attachWith(h, p, o, true)
	}
	return t, err
}

func attachWith(h host, p *plan.Plan, o Options, roomy bool) (*Tracer, error) {
	if err := unpaired(h, p); err != nil {
		return nil, err
	}
	p, err := locate(p, o.Kernel)
	if err != nil {
		return nil, err
	}
	p, tables, err := withTables(p)
	if err != nil {
		return nil, err
	}
	attached := *p
	attached.Probes = slices.Clone(p.Probes)
	t := &Tracer{host: h, plan: &attached, options: o, roomy: roomy, types: o.Kernel.TypeCache(), rows: rows{tables: tables}, userMulti: sync.OnceValue(h.userMulti)}
	for _, probe := range attached.Probes {
		if probe.Method == layout.MethodUprobe {
			t.places++
		}
	}
	if !o.LoadOnly {
		_, _ = h.tracefs().removeStale(runs) // whatever comes of it
	}
	if err := t.findPIDs(); err != nil {
		return nil, err
	}
	if err := t.open(); err != nil {
		t.Close()
		return nil, shortage(err)
	}
	if err := t.attachAll(p.Probes); err != nil {
		t.Close()
		return nil, err
	}
	if err := t.attachWays(); err != nil {
		t.Close()
		return nil, err
	}
	t.skipped, _ = t.missed()
	return t, nil
}

// unpaired refuses a plan that sees returns by a method of which this kernel does not tell at return where the call's stack is.
func unpaired(h host, p *plan.Plan) error {
	for m, c := range map[layout.Method]Capability{layout.MethodKprobeMulti: CapKretprobeMulti, layout.MethodKprobeSession: CapKprobeSession} {
		if !slices.ContainsFunc(p.Probes, func(p *plan.Probe) bool { return p.Method == m && p.Return != nil }) {
			continue
		}
		if err := h.has(c); errors.Is(err, errUnpaired) {
			return fmt.Errorf("%w; auto takes kprobes then", refusal(c, err))
		}
	}
	return nil
}

// attachAll attaches probes by themselves or with others. It gives up when there is a hurry.
func (t *Tracer) attachAll(probes []*plan.Probe) error {
	var many []*plan.Probe
	for _, probe := range probes {
		if !t.alone(probe) {
			many = append(many, probe)
			continue
		}
		if t.hurried() {
			return ErrInterrupted
		}
		if err := t.attach(probe); errors.Is(err, errNoRoom) {
			return err
		} else if err != nil {
			t.fail(err, probe)
		}
	}
	if err := t.attachMany(many); err != nil {
		return err
	}
	if t.hurried() {
		return ErrInterrupted
	}
	for i := range t.failed {
		t.failed[i].Err = shortage(t.failed[i].Err)
	}
	if len(t.failed) == len(probes) {
		return t.failed[0].Err
	}
	return nil
}

// alone reports whether a probe is attached by itself, with programs of its own.
func (t *Tracer) alone(p *plan.Probe) bool {
	if p.Method == layout.MethodUprobe {
		return t.places < 2 || !t.userMulti()
	}
	return p.Method == layout.MethodFentry || p.Method == layout.MethodFsession || !p.IsCall() || p.Path() ||
		p.Method == layout.MethodKprobe && len(t.plan.Probes) < manyKprobes && !ambiguous(p)
}

// ambiguous reports whether the kernel knows several places by the name of a
// probe's function, so that a kprobe has to be told the address.
func ambiguous(p *plan.Probe) bool { return p.Func.Namesakes || p.Func.Shared }

// open loads what all probes share.
func (t *Tracer) open() error {
	s := t.options.Settings
	if err := t.makeRoom(&s); err != nil {
		return err
	}
	if err := t.makeTables(&s); err != nil {
		return err
	}
	s.Paths = pathsOf(t.plan)
	types, _ := t.options.Kernel.BTF()
	t.options.Code.Guard = codegen.GuardFor(t.plan.Layouts(), types)
	if err := t.pids.set(&s); err != nil {
		return err
	}
	t.options.Code.Namespace = s.Namespace != bpf.Namespace{}
	s.EarlyFork = !t.options.Kernel.Since(mapsAllocate.major, mapsAllocate.minor)
	s.Subprograms, s.Untyped, s.Wake = t.options.Code.Subprograms, t.options.untyped(), t.options.Latency == 0
	if slices.ContainsFunc(t.plan.Probes, func(p *plan.Probe) bool { return !t.alone(p) }) {
		s.Sites, s.Lists = uint32(len(t.plan.Probes)), uint32(len(t.plan.Probes))
	}
	spec, err := bpf.Engine(s)
	if err != nil {
		return err
	}
	t.constants = bpf.ConstantsOf(spec)
	for _, p := range spec.Programs {
		p.Instructions = t.constants.Prune(p.Instructions)
	}
	loading, err := t.loading()
	if err != nil {
		return err
	}
	if t.engine, err = t.host.loadEngine(spec, loading); err != nil {
		return fmt.Errorf("loading the BPF engine: %w", lacking(spec, explain(err)))
	}
	if s := s.Sessions; s != nil {
		t.options.Log.Debug(fmt.Sprintf("room for %d open sessions: %.1f MiB", s.Count, mebibytes(s.Count*s.Size())))
	}
	if t.reader, err = t.engine.records(); err != nil {
		return fmt.Errorf("opening the ring buffer: %w", err)
	}
	if err := t.mapRows(); err != nil {
		return fmt.Errorf("mapping the tables: %w", err)
	}
	if t.options.LoadOnly {
		return nil
	}
	return t.followTasks(spec)
}

// loading says how programs are loaded. Those that read the kernel's own structs are
// adjusted to their layout by BTF, of which all share what was read.
func (t *Tracer) loading() (ebpf.CollectionOptions, error) {
	o := ebpf.CollectionOptions{Cache: t.types}
	if !t.options.untyped() {
		return o, nil
	}
	types, err := t.options.Kernel.BTF()
	o.Programs.KernelTypes = types
	return o, err
}

// findPIDs finds out which PID namespace this is.
func (t *Tracer) findPIDs() error {
	o, err := t.loading()
	if err == nil {
		t.pids, err = findPIDs(t.host, o)
	}
	return err
}

// makeRoom decides how much is kept of calls in flight, and for how many.
func (t *Tracer) makeRoom(s *bpf.Settings) error {
	room := t.roomFor()
	t.room = room
	s.Stash, s.Tail.Data = room.stash, max(s.Tail.Data, room.record)
	if room.overrun && s.Sessions != nil && !s.Sessions.Overrun {
		sessions := *s.Sessions
		sessions.Overrun, s.Sessions = true, &sessions
	}
	t.options.Code.Stash = s.Stash
	if s.Stash == (bpf.Stash{}) {
		return nil
	}
	if s.InFlight == 0 {
		memory, err := ownMemory()
		if err != nil {
			return err
		}
		s.InFlight = s.Stash.FarFrames(memory)
	}
	t.options.Log.Debug(fmt.Sprintf("room for %d calls in flight besides those in the table: %.1f MiB", s.InFlight, mebibytes(s.Stash.Size(s.InFlight))))
	return nil
}

// mapsAllocate is the Linux since which hash maps have an allocator of their own (bpf_mem_alloc), which may be used with the
// lock of a run queue held. A kernel that does not tell its release is taken for an older one: there it could hang the machine.
var mapsAllocate = version{6, 1}

// followTasks attaches the engine's own programs.
func (t *Tracer) followTasks(spec *ebpf.CollectionSpec) error {
	for _, name := range []string{bpf.ProgFork, bpf.ProgForkEarly, bpf.ProgFree, bpf.ProgStashExit, bpf.ProgSessionExit, bpf.ProgSessionExec, bpf.ProgSessionFree, bpf.ProgSessionSwitch} {
		prog := t.engine.program(name)
		if prog == nil {
			continue
		}
		var l closer
		var err error
		if own := spec.Programs[name]; own.Type == ebpf.RawTracepoint {
			l, err = prog.rawTracepoint(own.AttachTo)
		} else {
			l, err = prog.trampoline()
		}
		if err != nil {
			return fmt.Errorf("following processes: %w", err)
		}
		t.probes = append(t.probes, l)
		if !slices.Contains(toldElsewhere[:], name) {
			t.probes = append(t.probes, following{prog})
		}
		if name == bpf.ProgSessionSwitch { // the others run when something ends, this one all the time
			t.measured = append(t.measured, measured{prog, RunCost(layout.MethodTPBTF)})
		}
	}
	return nil
}

func (t *Tracer) attach(p *plan.Probe) error {
	err := t.attachAs(p)
	next, possible := fallback[p.Method]
	if err == nil || !possible || p.InProgram || !t.options.Fallback {
		return err
	}
	p, layoutErr := t.change(p, next)
	if layoutErr != nil {
		return layoutErr
	}
	if !t.fits() {
		return errNoRoom
	}
	t.options.Log.Info("falling back on "+next.String(), "function", p.Name, "reason", err)
	if second := t.attachAs(p); second != nil {
		return fmt.Errorf("%w (and before that: %w)", second, err)
	}
	return nil
}

// change gives a probe of the plan another method. Whether the engine fits that is for the caller to ask.
func (t *Tracer) change(p *plan.Probe, m layout.Method) (*plan.Probe, error) {
	changed, err := p.With(m)
	if err == nil {
		t.plan.Probes[p.ID] = changed
	}
	return changed, err
}

// Attached returns the plan as it is attached: with the methods that the kernel has
// taken, and the layouts that go with them.
func (t *Tracer) Attached() *plan.Plan { return t.plan }

// fallback are the methods that need less of the kernel.
var fallback = map[layout.Method]layout.Method{
	layout.MethodFentry: layout.MethodKprobe, layout.MethodFsession: layout.MethodKprobe, layout.MethodTPBTF: layout.MethodRawTP}

// attachAs attaches a probe with its method.
func (t *Tracer) attachAs(p *plan.Probe) error {
	if err := unfit(p); err != nil {
		return err
	}
	programs, err := codegen.Compile(&p.Probe, t.options.Code)
	if err != nil {
		return err
	}
	var made []closer
	for _, half := range ends(programs) {
		prog, err := t.load(p, half)
		if err == nil {
			made = append(made, prog)
		}
		if err == nil && !t.options.LoadOnly {
			var l closer
			if l, err = t.hook(p, prog, half.end); err == nil {
				made = append(made, l)
			}
		}
		if err != nil {
			return fmt.Errorf("%s of %s: %w", hookName(p.Method, half.end), p.Name, errors.Join(err, closeAll(made)))
		}
	}
	if p.Method == layout.MethodKprobe {
		pair(made)
	}
	t.probes = append(t.probes, made...)
	return nil
}

// unfit is why a probe's method cannot take its function; nil if it may.
func unfit(p *plan.Probe) error {
	if err := p.Unfit(); err != nil {
		return fmt.Errorf("%s of %s: %w", p.Method, p.Name, err)
	}
	return nil
}

// errNoType is why fentry is impossible.
var errNoType = errors.New("the kernel's types do not describe it")

// load links a generated program with the engine and loads it.
func (t *Tracer) load(p *plan.Probe, h half) (program, error) {
	prog, err := t.loadProgram(p, h)
	if err == nil {
		t.measured = append(t.measured, measured{prog, RunCost(p.Method)})
	}
	return prog, err
}

func (t *Tracer) loadProgram(p *plan.Probe, h half) (program, error) {
	if p.Method.Trampoline() && p.Func.Type == nil {
		return nil, errNoType
	}
	insns, err := h.link()
	if err != nil {
		return nil, err
	}
	insns = t.constants.Prune(insns)
	if err := t.engine.associate(insns); err != nil {
		return nil, err
	}
	spec := &ebpf.ProgramSpec{Name: insns.Name(), Instructions: insns, License: "Dual BSD/GPL", Type: ebpf.Kprobe}
	switch {
	case p.Method == layout.MethodTracepoint:
		spec.Type = ebpf.TracePoint
	case p.Method == layout.MethodTPBTF:
		spec.Type, spec.AttachTo, spec.AttachType = ebpf.Tracing, p.Func.Name, ebpf.AttachTraceRawTp
	case p.Method == layout.MethodRawTP:
		spec.Type = ebpf.RawTracepoint
	case p.Method == layout.MethodUprobe && t.userMulti():
		spec.AttachType = ebpf.AttachTraceUprobeMulti
	case p.Method == layout.MethodUprobe:
	case p.Method == layout.MethodTracingMulti, p.Method == layout.MethodFsession && h.end == atBoth,
		p.Method.Trampoline() && p.Func.Module != "": // several modules may have a function of that name
		return t.loadTracing(p, insns, h.end)
	case p.Method.Trampoline() && h.end == atReturn:
		spec.Type, spec.AttachTo, spec.AttachType = ebpf.Tracing, p.Func.Type.Name, ebpf.AttachTraceFExit
	case p.Method.Trampoline():
		spec.Type, spec.AttachTo, spec.AttachType = ebpf.Tracing, p.Func.Type.Name, ebpf.AttachTraceFEntry
	case h.end == atBoth:
		spec.AttachType = ebpf.AttachTraceKprobeSession
	case p.Method != layout.MethodKprobe:
		spec.AttachType = ebpf.AttachTraceKprobeMulti
	}
	loading, err := t.loading()
	if err != nil {
		return nil, err
	}
	prog, err := t.host.loadProgram(spec, loading)
	if err != nil {
		return nil, lacking(&ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{spec.Name: spec}}, explain(err))
	}
	return prog, nil
}

func (t *Tracer) hook(p *plan.Probe, prog program, e end) (closer, error) {
	switch {
	case p.Method == layout.MethodFsession && e == atBoth:
		return prog.fsession()
	case p.Method.Trampoline(), p.Method == layout.MethodTPBTF:
		return prog.trampoline()
	case p.Method == layout.MethodTracepoint:
		return prog.tracepoint(p.Hook.System, p.Hook.Name)
	case p.Method == layout.MethodRawTP:
		return prog.rawTracepoint(p.Func.Name)
	case p.Method == layout.MethodUprobe && t.userMulti():
		return prog.uprobeMulti(fileOf(p), placesOf([]*plan.Probe{p}), e)
	case p.Method == layout.MethodUprobe:
		return prog.uprobe(fileOf(p), &link.UprobeOptions{Address: p.Hook.Place, RefCtrOffset: p.Hook.Semaphore, TraceFSPrefix: t.eventGroup()}, e)
	case p.Hook.Offset != 0 || p.Hook.Inlined:
		if err := t.checkCode(p); err != nil {
			return nil, err
		}
		return hookInstruction(p, prog)
	case ambiguous(p) && p.Func.Addr != 0:
		l, err := prog.kprobeAt(p.Func.Addr, e)
		return await(e, l, err)
	case e == atReturn:
		return t.hookReturn(p, prog)
	}
	l, err := prog.kprobe(p.Func.Name, &link.KprobeOptions{TraceFSPrefix: t.eventGroup()})
	return l, probing(err)
}

// maxActive is how many calls of one function a kretprobe can wait for at the
// same time, at most (KRETPROBE_MAXACTIVE_MAX); by default it is ten, or twice
// the number of CPUs.
const maxActive = 4096

// hookReturn attaches a kretprobe that can wait for many calls. That takes
// tracefs; without it, calls beyond the few are counted as missed.
func (t *Tracer) hookReturn(p *plan.Probe, prog program) (closer, error) {
	l, err := prog.kretprobe(p.Func.Name, &link.KprobeOptions{RetprobeMaxActive: maxActive, TraceFSPrefix: t.eventGroup()})
	if err == nil {
		return await(atReturn, l, nil)
	}
	l, err = prog.kretprobe(p.Func.Name, &link.KprobeOptions{TraceFSPrefix: t.eventGroup()})
	return await(atReturn, l, probing(err))
}

// Start switches the programs on.
func (t *Tracer) Start() error { return t.turn(bpf.On) }

// StartPaused switches the programs to the pause, in which they take up no calls, until
// KeepWithin lets them run. To begin with many functions at once can take all of a CPU:
// where each of them is called by the timer's interrupt, that takes longer than it is until
// the next one, and nothing else runs, not even what would switch the programs off.
func (t *Tracer) StartPaused() error { return t.turn(bpf.Paused) }

// Stop switches them off, for good. Records that were sent before can still be read.
func (t *Tracer) Stop() error { return t.turn(bpf.Off) }

func (t *Tracer) turn(to bpf.Switch) error {
	t.turning.Lock()
	defer t.turning.Unlock()
	if t.stopped {
		return nil
	}
	if err := t.engine.variable(bpf.VarRunning).Set(uint32(to)); err != nil {
		return fmt.Errorf("switching the programs on or off: %w", err)
	}
	t.stopped = to == bpf.Off
	switch now := time.Now(); {
	case to == bpf.Paused && t.pausedAt.IsZero():
		t.pausedAt = now
	case to != bpf.Paused && !t.pausedAt.IsZero():
		t.paused += now.Sub(t.pausedAt)
		t.pausedAt = time.Time{}
	}
	return nil
}

// SetCgroups says which cgroups are traced, with those below them, if the filter is by cgroups.
func (t *Tracer) SetCgroups(list []bpf.Cgroup) error {
	if err := t.engine.variable(bpf.VarCgroups).Set(bpf.CgroupList(list)); err != nil {
		return fmt.Errorf("selecting control groups: %w", err)
	}
	return nil
}

// Failed returns the probes that could not be attached.
func (t *Tracer) Failed() []Failure { return t.failed }

// Adopt makes a process, by its number in our PID namespace, and what it forks one of
// those that are traced. It has an effect only if the settings ask for a family.
func (t *Tracer) Adopt(pid int) error {
	global, err := t.pids.global(uint32(pid))
	if errors.Is(err, errNoSuch) {
		return nil // it has ended
	}
	if err == nil {
		err = t.enter(pid, global)
	}
	if err != nil {
		return fmt.Errorf("following process %d: %w", pid, err)
	}
	t.skipped, _ = t.missed() // that was such a system call, and nothing of the process was to be seen yet
	return nil
}

// enter adds a process to the family, if its parent has not done so. One that ends before it is in the family is not taken out
// of it by the kernel, and the next one with its PID would be taken for it.
func (t *Tracer) enter(pid int, global uint32) error {
	family := t.engine.table(bpf.MapFamily)
	switch err := family.Update(global, uint64(0), ebpf.UpdateNoExist); {
	case errors.Is(err, ebpf.ErrKeyExist):
		return nil
	case err != nil || !t.host.ended(pid):
		return err
	}
	if err := family.Delete(global); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

// Follows reports whether a process, by its number in our PID namespace, is one that was adopted, or a descendant.
func (t *Tracer) Follows(pid int) (bool, error) {
	global, err := t.pids.global(uint32(pid))
	if err == nil {
		var signal uint64
		err = t.engine.table(bpf.MapFamily).Lookup(global, &signal)
	}
	if errors.Is(err, errNoSuch) || errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	return err == nil, err
}

// SetSpanPlace tells the engine where a process has its spans: by its number in the initial PID namespace or, if
// that is 0, by pid, its number in ours.
func (t *Tracer) SetSpanPlace(pid int, global uint32, place bpf.SpanPlace) (err error) {
	if global == 0 {
		if global, err = t.pids.global(uint32(pid)); err != nil {
			if errors.Is(err, errNoSuch) {
				return nil // it has ended
			}
			return err
		}
	}
	return t.engine.table(bpf.MapSpanPlaces).Put(global, place)
}

// Counters returns how often each cause of loss has occurred, over all CPUs. From
// Detach on it is an error: what the kernel has skipped is known to what is
// attached.
func (t *Tracer) Counters() ([bpf.Counters]uint64, error) {
	t.counting.Lock()
	defer t.counting.Unlock()
	var sums [bpf.Counters]uint64
	if t.detached {
		return sums, fmt.Errorf("reading the counters: %w", errDetached)
	}
	// Before looking into maps: while it does, the kernel skips programs.
	skipped, uncounted := t.missed()
	if err := unpreempted(func() error { return t.addCounters(&sums) }); err != nil {
		return sums, fmt.Errorf("reading the counters: %w", err)
	}
	t.uncounted = uncounted
	since := skipped.since(t.skipped)
	sums[bpf.Missed] = since.busy
	sums[bpf.MissedReturn] += since.flight
	sums[bpf.MissedTask] = since.tasks
	sums[bpf.PausedTime] = uint64(t.pausedFor().Milliseconds())
	return sums, nil
}

// addCounters adds what the engine has counted.
func (t *Tracer) addCounters(sums *[bpf.Counters]uint64) error {
	for i := range sums {
		var perCPU []uint64
		if err := t.engine.table(bpf.MapCounters).Lookup(uint32(i), &perCPU); err != nil {
			return err
		}
		for _, n := range perCPU {
			sums[i] += n
		}
	}
	var guarded uint64
	if err := t.engine.variable(bpf.VarGuarded).Get(&guarded); err != nil {
		return err
	}
	sums[bpf.LostRecursion] += guarded
	if !t.plan.Sessions {
		return nil
	}
	var left bpf.LeftOut
	if err := t.engine.variable(bpf.VarLeftOut).Get(&left); err != nil {
		return err
	}
	copy(sums[bpf.LeftFine:], left[:])
	return nil
}

// Uncounted reports whether the kernel has not told all that bpf.Missed, as
// Counters returned it, should count.
func (t *Tracer) Uncounted() bool {
	t.counting.Lock()
	defer t.counting.Unlock()
	return t.uncounted
}

// Detach takes all probes off the kernel. Records that were sent before can
// still be read.
func (t *Tracer) Detach() error {
	t.detaching.Lock()
	defer t.detaching.Unlock()
	t.counting.Lock() // until who reads counters at the moment has done so
	t.detached = true
	t.counting.Unlock()
	err := t.closeProbes()
	t.probes = nil
	return err
}

// Close detaches all probes and frees everything else. Another goroutine may call Pending, Cut, Stop, Counters, Uncounted and
// Detach meanwhile, and afterwards: who ends ksnoop at once does.
func (t *Tracer) Close() error {
	err := t.Detach()
	if t.reader != nil {
		t.looking.Lock() // until who looks into the buffer at the moment has done so
		t.closed = true
		t.looking.Unlock()
		err = errors.Join(err, t.reader.Close())
	}
	for _, h := range t.objects {
		err = errors.Join(err, h.Close())
	}
	err = errors.Join(err, t.unmapRows())
	if t.engine != nil {
		t.engine.Close()
	}
	return err
}
