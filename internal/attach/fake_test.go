// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A trait is why a kernel refuses a function.
type trait uint8

const (
	notrace      trait = 1 << iota // ftrace has no place in it
	blacklisted                    // NOKPROBE_SYMBOL
	full                           // its trampoline has BPF_MAX_TRAMP_LINKS programs
	gone                           // its module has gone since
	modified                       // the debug info's end of an instruction is not the kernel's
	noMemory                       // the kernel has none left for it
	noTrampoline                   // no trampoline takes it, as of functions that never return
)

// A fakeKernel refuses what Linux refuses, with Linux' errors, and keeps account of
// what is loaded, hooked and switched on. Functions are called f0, f1, ...; the
// first lies at fakeBase + fakeSize.
type fakeKernel struct {
	t      *testing.T
	traits map[string]trait
	// What the kernel was built without.
	withoutFprobe, withoutTracefs bool
	hidden                        bool // kernel.kptr_restrict hides addresses
	// lockdown refuses every program with EPERM.
	lockdown bool
	// withoutUserMulti: as on Linux 6.1.
	withoutUserMulti bool
	contained        bool // we are in a PID namespace of our own
	lacks            []Capability
	unpaired         bool             // kprobe.multi and kprobe.session do not tell at return where the stack is
	module           string           // which functions are in, whose types are not to be found; "" is vmlinux
	refuse           map[string]error // of the engine: by what is done

	types  *btf.Spec
	events string            // the folder of tracefs
	ids    map[uint64]string // of events
	log    []string          // all that was done, in order
	held   []string          // what is open, in the order in which it was opened
	values map[string]any
	tables map[string]map[any]any
	mapped map[string][]byte
	gone   []int // the processes that have ended

	iterations []error // of the next ones, in order
	mu         sync.Mutex
	sent       [][]byte      // the records in the ring buffer
	emptied    func()        // what happens when it has been found empty
	slow       time.Duration // to read one
	answer     bool          // a call of harmless is seen
	// What programs take of a CPU: always, and while they are on.
	always, looked float64
	on             bool
	late           time.Duration // how much later than it is due a pause begins
	own            atomic.Int64  // nanoseconds that ksnoop has taken
	since          time.Time     // of the last switch
	asked          int           // how often it was read what a program took
	took           time.Duration
	skips          uint64        // of every program
	lookupPolicy   uint32        // the scheduling policy of the thread that last looked something up
	misses         uint64        // by every link
	release        string        // as uname -r has it; "" if it is not told
	hooked         func()        // is told of each link
	lasts          time.Duration // to remove a program from a trampoline
}

const (
	fakeBase = 0xffffffff81000000
	fakeSize = 0x40
)

func newFake(t *testing.T) *fakeKernel {
	k := &fakeKernel{t: t, traits: map[string]trait{}, events: t.TempDir(), ids: map[uint64]string{}, values: map[string]any{},
		tables: map[string]map[any]any{}, mapped: map[string][]byte{}, refuse: map[string]error{}}
	if err := os.Mkdir(filepath.Join(k.events, "events"), 0o700); err != nil {
		t.Fatal(err)
	}
	return k
}

// view is what the fake kernel tells of n functions `long f(long count)`.
func (k *fakeKernel) view(n int) *kernel.View {
	k.t.Helper()
	long := &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}
	var types []btf.Type
	var symbols []byte
	symbol := func(addr uint64, kind, name string) {
		if k.hidden {
			addr = 0
		}
		symbols = fmt.Appendf(symbols, "%016x %s %s\n", addr, kind, name)
	}
	symbol(fakeBase, "T", baseSymbol)
	for i := range n {
		name := fmt.Sprintf("f%d", i)
		types = append(types, &btf.Func{Name: name, Linkage: btf.StaticFunc,
			Type: &btf.FuncProto{Return: long, Params: []btf.FuncParam{{Name: "count", Type: long}}}})
		symbol(fakeBase+uint64(i+1)*fakeSize, "t", name)
	}
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	files := fstest.MapFS{"sys/kernel/btf/vmlinux": {Data: raw}, "proc/kallsyms": {Data: symbols}}
	if k.release != "" {
		files["proc/sys/kernel/osrelease"] = &fstest.MapFile{Data: []byte(k.release + "\n")}
	}
	view := kernel.Open(files)
	if k.types, err = view.BTF(); err != nil {
		k.t.Fatal(err)
	}
	return view
}

// attach attaches n functions, each with some items and by a method.
func (k *fakeKernel) attach(n int, items string, m layout.Method, change ...func(*Options)) (*Tracer, *plan.Plan, error) {
	k.t.Helper()
	return k.attachEach(n, []string{items}, m, change...)
}

// attachEach attaches n functions, each with several SPECs.
func (k *fakeKernel) attachEach(n int, all []string, m layout.Method, change ...func(*Options)) (*Tracer, *plan.Plan, error) {
	k.t.Helper()
	view := k.view(n)
	var specs []*expr.Spec
	for _, items := range all {
		for i := range n {
			spec, err := expr.Parse(fmt.Sprintf("f%d%s", i, items))
			if err != nil {
				k.t.Fatal(err)
			}
			specs = append(specs, spec)
		}
	}
	p, _, err := plan.Resolve(view, specs, plan.Options{Arch: "amd64", Method: func(*plan.Probe) layout.Method { return m }})
	if err != nil {
		k.t.Fatal(err)
	}
	kfuncs := func() codegen.Kfuncs { return codegen.Kfuncs{IsReturn: 101, Cookie: 102, Cast: 103} }
	o := Options{Settings: bpf.Settings{RingSize: 4096}, Code: codegen.Options{Arch: "amd64", Kfuncs: kfuncs}, Kernel: view,
		Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	for _, probe := range p.Probes {
		probe.Func.Module = k.module
	}
	tracer, err := attachTo(k, p, o)
	return tracer, p, err
}

func (k *fakeKernel) note(format string, args ...any) {
	k.log = append(k.log, fmt.Sprintf(format, args...))
}

// hold opens something that is to be closed once.
func (k *fakeKernel) hold(format string, args ...any) *heldThing {
	h := &heldThing{k, fmt.Sprintf(format, args...)}
	k.note("+%s", h.what)
	k.held = append(k.held, h.what)
	return h
}

type heldThing struct {
	k    *fakeKernel
	what string
}

func (h *heldThing) Close() error {
	h.k.t.Helper()
	i := slices.Index(h.k.held, h.what)
	if i < 0 {
		h.k.t.Errorf("%s is closed, and is not open", h.what)
		return fs.ErrClosed
	}
	h.k.held = slices.Delete(h.k.held, i, i+1)
	h.k.note("-%s", h.what)
	return nil
}

// missed is told of links to kprobes.
func (h *heldThing) missed() (uint64, bool) {
	if strings.HasPrefix(h.what, "k") {
		return h.k.misses, true
	}
	return 0, true
}

// done returns what was done that begins with some text.
func (k *fakeKernel) done(beginning string) (lines []string) {
	for _, l := range k.log {
		if strings.HasPrefix(l, beginning) {
			lines = append(lines, l)
		}
	}
	return lines
}

func (k *fakeKernel) nameAt(addr uint64) string {
	return fmt.Sprintf("f%d", (addr-fakeBase)/fakeSize-1)
}

func (k *fakeKernel) loadEngine(spec *ebpf.CollectionSpec, _ ebpf.CollectionOptions) (engine, error) {
	if k.lockdown {
		return nil, fmt.Errorf("creating map: %w (MEMLOCK may be too low)", unix.EPERM)
	}
	return &fakeEngine{k, spec, k.hold("engine")}, k.refuse["engine"]
}

// loadProgram knows what check_attach_btf_id and bpf_check_attach_target look at.
func (k *fakeKernel) loadProgram(spec *ebpf.ProgramSpec, _ ebpf.CollectionOptions) (program, error) {
	switch {
	case k.lockdown:
		return nil, fmt.Errorf("load program: %w (MEMLOCK may be too low)", unix.EPERM)
	case spec.Type == ebpf.Tracing && k.traits[spec.AttachTo]&gone != 0:
		return nil, &ebpf.VerifierError{Cause: fmt.Errorf("load program: %w", unix.ENOENT),
			Log: []string{"The address of function " + spec.AttachTo + " cannot be found", "processed 0 insns (limit 1000000) max_states_per_insn 0"}}
	case k.withoutFprobe && spec.AttachType == ebpf.AttachTraceKprobeSession:
		return nil, fmt.Errorf("load program: %w", unix.EINVAL)
	}
	what := strings.TrimPrefix(spec.AttachType.String(), "Trace")
	if spec.AttachType == 0 {
		what = spec.Type.String()
	}
	if spec.AttachTo != "" {
		what += " " + spec.AttachTo
	}
	return &fakeProgram{k.hold("program %s", what), k, spec.AttachType, spec.Type, spec.AttachTo}, nil
}

func (k *fakeKernel) loadTracing(p *tracingProgram, _ *btf.Cache) (program, error) {
	name := ""
	if p.function != 0 {
		name = k.byID(p.function)
	}
	return &fakeProgram{k.hold("program %d %s", p.as, name), k, p.as, ebpf.Tracing, name}, nil
}

func (k *fakeKernel) moduleTypes(string) (object, error)           { return nil, unix.ENOENT }
func (k *fakeKernel) loadedProgram(ebpf.ProgramID) (object, error) { return nil, unix.ENOENT }
func (k *fakeKernel) measure() (io.Closer, error) {
	return k.hold("statistics"), k.refuse["statistics"]
}
func (k *fakeKernel) ownTime() time.Duration { return time.Duration(k.own.Load()) }
func (k *fakeKernel) largeArrays() bool      { return true }
func (k *fakeKernel) settler() (settler, error) {
	if err := k.refuse["settler"]; err != nil {
		return nil, err
	}
	return fakeSettler{k.hold("settler")}, nil
}

type fakeSettler struct{ *heldThing }

func (s fakeSettler) settle() error { return s.k.refuse["settle"] }

func (k *fakeKernel) pidsAreOurs() bool  { return !k.contained }
func (k *fakeKernel) ended(pid int) bool { return slices.Contains(k.gone, pid) }

func (k *fakeKernel) has(c Capability) error {
	switch {
	case k.unpaired && (c == CapKretprobeMulti || c == CapKprobeSession):
		return errUnpaired
	case !slices.Contains(k.lacks, c):
		return nil
	}
	return fmt.Errorf("%s: %w", c, ebpf.ErrNotSupported)
}

func (k *fakeKernel) tracefs() tracefs {
	return tracefs{[]string{k.events}, func(string) (io.WriteCloser, error) {
		if k.withoutTracefs {
			return nil, fs.ErrNotExist
		}
		return &fakeEvents{k, k.hold("kprobe_events")}, nil
	}}
}

// fakeEvents is kprobe_events: each line is a command, and what comes after one that
// fails is not looked at (trace_parse_run_command).
type fakeEvents struct {
	k *fakeKernel
	*heldThing
}

var definition = regexp.MustCompile(`^(p|r\d+):(\S+) ` + baseSymbol + `\+(\d+)$`)

func (e *fakeEvents) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		if err := e.run(strings.TrimSuffix(line, "\n")); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

func (e *fakeEvents) run(line string) error {
	k := e.k
	if name, ok := strings.CutPrefix(line, "-:"); ok {
		if slices.ContainsFunc(k.held, func(what string) bool { return strings.HasSuffix(what, " of "+name) }) {
			return unix.EBUSY
		}
		k.note("%s", line)
		return os.RemoveAll(filepath.Join(k.events, "events", name))
	}
	m := definition.FindStringSubmatch(line)
	if m == nil {
		k.t.Errorf("%q defines no event", line)
		return unix.EINVAL
	}
	var offset uint64
	fmt.Sscan(m[3], &offset)
	name := k.nameAt(fakeBase + offset)
	if err := k.kprobes(name); err != nil {
		return err
	}
	k.note("%s %s", m[1], name)
	dir := filepath.Join(k.events, "events", m[2])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	id := uint64(len(k.ids) + 77)
	k.ids[id] = m[2]
	return os.WriteFile(filepath.Join(dir, "id"), fmt.Appendln(nil, id), 0o600)
}

// kprobes knows what __register_trace_kprobe and check_kprobe_address_safe refuse.
func (k *fakeKernel) kprobes(name string) error {
	switch has := k.traits[name]; {
	case has&gone != 0:
		return unix.ENOENT
	case has&(notrace|blacklisted) != 0:
		return unix.EINVAL
	case has&modified != 0:
		return unix.EILSEQ
	case has&noMemory != 0:
		return unix.ENOSPC
	}
	return nil
}

// runtime is for how long all programs have run.
func (k *fakeKernel) runtime() time.Duration {
	share, now := k.always, time.Now()
	if k.on {
		share += k.looked
	}
	if !k.since.IsZero() {
		k.took += time.Duration(share * float64(now.Sub(k.since)))
	}
	k.since = now
	return k.took
}

type fakeProgram struct {
	*heldThing
	k    *fakeKernel
	as   ebpf.AttachType
	kind ebpf.ProgramType
	of   string
}

func (p *fakeProgram) Stats() (*ebpf.ProgramStats, error) {
	p.k.asked++
	return &ebpf.ProgramStats{Runtime: p.k.runtime(), RecursionMisses: p.k.skips}, nil
}

func (p *fakeProgram) hook(err error, how string, args ...any) (closer, error) {
	if err != nil {
		return nil, fmt.Errorf("create link: %w", err)
	}
	if p.k.hooked != nil {
		p.k.hooked()
	}
	return p.k.hold(how, args...), nil
}

// trampoline knows what bpf_trampoline_link_prog and register_fentry refuse: where
// ftrace has no place, the function's first bytes are no NOP that could be patched.
func (p *fakeProgram) trampoline() (closer, error) {
	var err error
	switch has := p.k.traits[p.of]; {
	case has&notrace != 0:
		err = unix.EBUSY
	case has&full != 0:
		err = unix.E2BIG
	case has&noMemory != 0:
		err = unix.ENOMEM
	}
	how := strings.TrimPrefix(p.as.String(), "Trace")
	if p.as == attachFsession {
		how = "fsession"
	}
	l, err := p.hook(err, "%s %s", how, p.of)
	if err != nil {
		return nil, err
	}
	return fakeTrampoline{l.(*heldThing)}, nil
}

// A fakeTrampoline takes a while to be closed, unless it is open once more.
type fakeTrampoline struct{ *heldThing }

func (l fakeTrampoline) again() (*os.File, error) { return os.Open(os.DevNull) }

func (l fakeTrampoline) Close() error {
	time.Sleep(l.k.lasts)
	return l.heldThing.Close()
}

func (p *fakeProgram) fsession() (closer, error) { return p.trampoline() }

// tracingMulti knows that one function is enough for the kernel to refuse all.
func (p *fakeProgram) tracingMulti(as ebpf.AttachType, functions []btf.TypeID, cookies []uint64) (closer, error) {
	if as != p.as || len(functions) != len(cookies) {
		return p.hook(unix.EINVAL, "")
	}
	for _, id := range functions {
		if p.k.traits[p.k.byID(id)]&(notrace|gone|noTrampoline) != 0 {
			return p.hook(unix.EINVAL, "")
		}
	}
	return p.hook(nil, "tracing_multi of %d", len(functions))
}

func (k *fakeKernel) byID(id btf.TypeID) string {
	f, err := k.types.TypeByID(id)
	if err != nil {
		k.t.Fatal(err)
	}
	return f.TypeName()
}

func (p *fakeProgram) kprobe(symbol string, o *link.KprobeOptions) (closer, error) {
	return p.probe("kprobe "+symbol, symbol, o)
}

func (p *fakeProgram) kretprobe(symbol string, o *link.KprobeOptions) (closer, error) {
	return p.probe("kretprobe "+symbol, symbol, o)
}

// probe fails as the library does: what asks for room for returns takes tracefs.
func (p *fakeProgram) probe(what, symbol string, o *link.KprobeOptions) (closer, error) {
	if o != nil && o.RetprobeMaxActive != 0 {
		if p.k.withoutTracefs {
			return p.hook(fs.ErrNotExist, "")
		}
		if !strings.HasPrefix(o.TraceFSPrefix, eventGroup) {
			p.k.t.Errorf("%s: its event is in the group %q, which no ksnoop removes after a SIGKILL", what, o.TraceFSPrefix)
		}
		what += fmt.Sprintf(" of %d returns", o.RetprobeMaxActive)
	}
	return p.hook(p.k.kprobes(symbol), "%s", what)
}

func (p *fakeProgram) kprobeAt(addr uint64, e end) (closer, error) {
	name := p.k.nameAt(addr)
	return p.hook(p.k.kprobes(name), "%s %s at %#x", hookName(layout.MethodKprobe, e), name, addr)
}

// kprobeMulti knows what bpf_kprobe_multi_link_attach refuses.
func (p *fakeProgram) kprobeMulti(e end, o link.KprobeMultiOptions) (closer, error) {
	want := ebpf.AttachTraceKprobeMulti
	if o.Session {
		want = ebpf.AttachTraceKprobeSession
	}
	switch {
	case p.k.withoutFprobe:
		return p.hook(unix.EOPNOTSUPP, "")
	case p.as != want, len(o.Addresses) == 0, len(o.Cookies) != len(o.Addresses):
		return p.hook(unix.EINVAL, "")
	}
	for _, addr := range o.Addresses {
		if p.k.traits[p.k.nameAt(uint64(addr))]&(notrace|gone) != 0 {
			return p.hook(unix.EINVAL, "") // ftrace_set_filter_ips
		}
	}
	return p.hook(nil, "%s of %d", hookName(layout.MethodKprobeSession, e), len(o.Addresses))
}

func (p *fakeProgram) tracefsEvent(id uint64) (closer, error) {
	return p.hook(p.k.refuse["perf_event_open"], "program of %s", p.k.ids[id])
}

func (p *fakeProgram) tracepoint(group, name string) (closer, error) {
	return p.hook(nil, "tracepoint %s:%s", group, name)
}

func (p *fakeProgram) rawTracepoint(name string) (closer, error) {
	return p.hook(p.k.refuse["raw_tp "+name], "raw_tp %s", name)
}

func (k *fakeKernel) userMulti() bool { return !k.withoutUserMulti }

func (p *fakeProgram) uprobe(file userFile, o *link.UprobeOptions, e end) (closer, error) {
	if p.as == ebpf.AttachTraceUprobeMulti {
		return p.hook(unix.EINVAL, "")
	}
	return p.hook(p.k.refuse["uprobe"], "%s %s+%#x", hookName(layout.MethodUprobe, e), file.path, o.Address)
}

// uprobeMulti knows what bpf_uprobe_multi_link_attach refuses: a program for something else, and a place
// that is no instruction that can be probed.
func (p *fakeProgram) uprobeMulti(file userFile, o *link.UprobeMultiOptions, e end) (closer, error) {
	if p.as != ebpf.AttachTraceUprobeMulti || len(o.Addresses) == 0 || len(o.Cookies) != len(o.Addresses) || len(o.RefCtrOffsets) != 0 && len(o.RefCtrOffsets) != len(o.Addresses) {
		return p.hook(unix.EINVAL, "")
	}
	for _, place := range o.Addresses {
		if err := p.k.refuse[fmt.Sprintf("uprobe %#x", place)]; err != nil {
			return p.hook(err, "")
		}
	}
	return p.hook(p.k.refuse["uprobe"], "%s of %d %s+%#x", hookName(layout.MethodUprobe, e), len(o.Addresses), file.path, o.Addresses)
}

func (p *fakeProgram) call() error {
	if p.k.answer {
		p.k.sent = append(p.k.sent, []byte{1})
	}
	return p.k.refuse["call"]
}

func (p *fakeProgram) iterate() (io.ReadCloser, error) {
	p.k.note("iterate %s", p.of)
	err := p.k.refuse["iterator"]
	if len(p.k.iterations) > 0 {
		err, p.k.iterations = p.k.iterations[0], p.k.iterations[1:]
	}
	return io.NopCloser(bytes.NewReader(nil)), err
}

type fakeEngine struct {
	k    *fakeKernel
	spec *ebpf.CollectionSpec
	held *heldThing
}

func (e *fakeEngine) Close()                           { e.held.Close() }
func (e *fakeEngine) associate(asm.Instructions) error { return nil }

func (e *fakeEngine) program(name string) program {
	p := e.spec.Programs[name]
	if p == nil {
		return nil
	}
	return &fakeProgram{&heldThing{e.k, name}, e.k, p.AttachType, p.Type, p.AttachTo} // goes with the engine
}

func (e *fakeEngine) table(name string) table       { return fakeTable{e.k, name} }
func (e *fakeEngine) variable(name string) variable { return fakeVariable{e.k, name} }

func (e *fakeEngine) memory(name string, size int) ([]byte, error) {
	e.k.mapped[name] = make([]byte, size)
	return e.k.mapped[name], e.k.refuse["map "+name]
}

func (e *fakeEngine) unmap([]byte) error { return nil }

func (e *fakeEngine) records() (recordReader, error) {
	if err := e.k.refuse["ring buffer"]; err != nil {
		return nil, err
	}
	return &fakeReader{k: e.k, heldThing: e.k.hold("ring buffer")}, nil
}

type fakeTable struct {
	k    *fakeKernel
	name string
}

func (f fakeTable) Put(key, value any) error { return f.Update(key, value, ebpf.UpdateAny) }

func (f fakeTable) Update(key, value any, flags ebpf.MapUpdateFlags) error {
	if err := f.k.refuse["put "+f.name]; err != nil {
		return err
	}
	if _, ok := f.k.tables[f.name][key]; ok && flags == ebpf.UpdateNoExist {
		return ebpf.ErrKeyExist
	}
	if f.k.tables[f.name] == nil {
		f.k.tables[f.name] = map[any]any{}
	}
	f.k.tables[f.name][key] = value
	return nil
}

func (f fakeTable) Delete(key any) error {
	if _, ok := f.k.tables[f.name][key]; !ok {
		return ebpf.ErrKeyNotExist
	}
	delete(f.k.tables[f.name], key)
	return nil
}

func (f fakeTable) Lookup(key, value any) error {
	if attr, err := unix.SchedGetAttr(0, 0); err == nil {
		f.k.lookupPolicy = attr.Policy
	}
	v, ok := f.k.tables[f.name][key]
	switch {
	case ok:
		reflect.ValueOf(value).Elem().Set(reflect.ValueOf(v))
	case f.name == bpf.MapFamily: // a hash; the other tables are arrays
		return ebpf.ErrKeyNotExist
	}
	return f.k.refuse["lookup "+f.name]
}

type fakeVariable struct {
	k    *fakeKernel
	name string
}

func (v fakeVariable) Set(value any) error {
	v.k.note("%s = %d", v.name, value)
	if v.name == bpf.VarRunning {
		if v.k.on && value == uint32(bpf.Paused) {
			time.Sleep(v.k.late)
		}
		v.k.runtime()
		v.k.on = value == uint32(bpf.On)
	}
	return v.k.refuse["set "+v.name]
}

func (v fakeVariable) Get(value any) error {
	switch to := value.(type) {
	case *uint64:
		*to, _ = v.k.values[v.name].(uint64)
	case *uint32:
		*to, _ = v.k.values[v.name].(uint32)
	case *bpf.LeftOut:
		*to, _ = v.k.values[v.name].(bpf.LeftOut)
	default:
		return fmt.Errorf("no variable is a %T", value)
	}
	return v.k.refuse["get "+v.name]
}

// A fakeReader yields what was sent, and then waits until it is flushed unless it has a deadline.
type fakeReader struct {
	k *fakeKernel
	*heldThing
	deadline bool
	flushed  atomic.Bool
	closed   atomic.Bool
}

func (r *fakeReader) ReadInto(rec *ringbuf.Record) error {
	for r.AvailableBytes() == 0 && !r.deadline {
		if r.flushed.Load() {
			return ringbuf.ErrFlushed
		}
		time.Sleep(time.Millisecond)
	}
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	if len(r.k.sent) == 0 {
		if r.k.emptied != nil {
			r.k.emptied()
		}
		return os.ErrDeadlineExceeded
	}
	time.Sleep(r.k.slow)
	rec.RawSample, r.k.sent = r.k.sent[0], r.k.sent[1:]
	rec.Remaining = len(r.k.sent)
	return r.k.refuse["read"]
}

func (r *fakeReader) SetDeadline(at time.Time) { r.deadline = !at.IsZero() }

func (r *fakeReader) Flush() error {
	r.flushed.Store(true)
	return nil
}

func (r *fakeReader) Close() error {
	r.closed.Store(true)
	return r.heldThing.Close()
}

// AvailableBytes looks into memory that is not there after Close.
func (r *fakeReader) AvailableBytes() int {
	if r.closed.Load() {
		panic("the reader is closed")
	}
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	return len(r.k.sent) * 64
}

func (r *fakeReader) BufferSize() int { return 4096 }
