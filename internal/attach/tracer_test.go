// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// bothEnds are items for which something is kept from entry to return.
const bothEnds = "($duration, count)"

// engineParts are what is open besides programs of probes and what they are hooked by.
var engineParts = []string{"engine", "ring buffer", "raw_tp sched_process_exit"}

// withoutOwn leaves out what differs between processes and tracers in the names of events.
func withoutOwn(text string) string {
	return regexp.MustCompile(fmt.Sprintf(`\b(ksnoop)_%d_%s|_[A-Z2-7]{%d}\b`, os.Getpid(), process, nonce)).ReplaceAllString(text, "$1")
}

// hooks returns what is hooked and loaded for probes.
func (k *fakeKernel) hooks() []string {
	var hooks []string
	for _, what := range k.held {
		if !slices.Contains(engineParts, what) {
			hooks = append(hooks, withoutOwn(what))
		}
	}
	return hooks
}

// TestAttachBy: each method hooks the ends of calls in the order in which no entry is
// seen whose return is not, the switch is turned on by Start and nothing else, and
// Close takes off what came last first.
func TestAttachBy(t *testing.T) {
	for _, c := range []struct {
		method layout.Method
		n      int
		items  string
		want   []string
	}{
		{layout.MethodFentry, 1, bothEnds, []string{"program FExit f0", "FExit f0", "program FEntry f0", "FEntry f0"}},
		{layout.MethodFentry, 1, "(count)", []string{"program FEntry f0", "FEntry f0"}},
		{layout.MethodFentry, 1, "(return)", []string{"program FExit f0", "FExit f0"}},
		{layout.MethodFsession, 1, bothEnds, []string{"program 58 f0", "fsession f0"}},
		{layout.MethodKprobe, 1, bothEnds, []string{"program Kprobe", "kretprobe f0 of 4096 returns", "program Kprobe", "kprobe f0"}},
		{layout.MethodKprobe, 20, bothEnds, []string{"program Kprobe", "program Kprobe", "program of ksnoop/return1", "program of ksnoop/entry2"}},
		{layout.MethodKprobeMulti, 20, bothEnds, []string{"program KprobeMulti", "program KprobeMulti", "kretprobe.multi of 20", "kprobe.multi of 20"}},
		{layout.MethodKprobeSession, 20, bothEnds, []string{"program KprobeSession", "kprobe.session of 20"}},
		{layout.MethodTracingMulti, 20, bothEnds, []string{"program 61 ", "tracing_multi of 20"}},
		{layout.MethodTracingMulti, 20, "(count)", []string{"program 59 ", "tracing_multi of 20"}},
	} {
		t.Run(fmt.Sprintf("%s %d%s", c.method, c.n, c.items), func(t *testing.T) {
			k := newFake(t)
			tracer, _, err := k.attach(c.n, c.items, c.method)
			if err != nil || len(tracer.Failed()) != 0 {
				t.Fatal(err, tracer.Failed())
			}
			if d := cmp.Diff(c.want, k.hooks()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			const on = bpf.VarRunning + " = 1"
			if slices.Contains(k.log, on) {
				t.Error("the programs run before Start")
			}
			if err := tracer.Start(); err != nil || k.log[len(k.log)-1] != on {
				t.Errorf("Start: %v; last was %s", err, k.log[len(k.log)-1])
			}
			opened := slices.Clone(k.held)
			k.log = nil
			if err := tracer.Close(); err != nil || len(k.held) != 0 {
				t.Errorf("Close: %v; open are %q", err, k.held)
			}
			slices.Reverse(opened)
			closed := k.done("-")
			i := 0
			for _, what := range opened {
				if at := slices.Index(closed[i:], "-"+what); at >= 0 {
					i += at
				} else if !slices.Contains(engineParts, what) {
					t.Errorf("%s was closed out of order: %q", what, closed)
				}
			}
			if left, _ := os.ReadDir(filepath.Join(k.events, "events", fmt.Sprint(eventGroup, os.Getpid(), "_", process))); len(left) != 0 {
				t.Errorf("events are left: %v", left)
			}
		})
	}
}

// TestAttachTwice: tracers of one process have events of their own, and take away no others.
func TestAttachTwice(t *testing.T) {
	k := newFake(t)
	defined := func() int {
		events, _ := os.ReadDir(filepath.Join(k.events, "events", fmt.Sprint(eventGroup, os.Getpid(), "_", process)))
		return len(events)
	}
	var tracers [2]*Tracer
	for i := range tracers {
		var err error
		if tracers[i], _, err = k.attach(20, bothEnds, layout.MethodKprobe); err != nil {
			t.Fatal(err)
		}
	}
	if n := defined(); n != 4 {
		t.Errorf("%d events are defined, want those of two ends for each", n)
	}
	for i, tracer := range tracers {
		if err := tracer.Close(); err != nil || defined() != 2-2*i {
			t.Errorf("close: %v; %d events are left", err, defined())
		}
	}
}

// TestAttachEach: a link runs its program once at a function, so that several SPECs of the same functions have links of their own.
func TestAttachEach(t *testing.T) {
	atEntry, atBoth := []string{"(count)", "(hex(count))", "(count, count)"}, []string{bothEnds, "(hex(count), $duration)", "(return, count, $duration)"}
	for _, c := range []struct {
		m    layout.Method
		each []string
		link string
	}{
		{layout.MethodKprobeMulti, atEntry, "kprobe.multi of 20"}, {layout.MethodKprobeSession, atBoth, "kprobe.session of 20"},
		{layout.MethodTracingMulti, atEntry, "tracing_multi of 20"}, {layout.MethodTracingMulti, atBoth, "tracing_multi of 20"},
	} {
		k := newFake(t)
		tracer, _, err := k.attachEach(20, c.each, c.m)
		if err != nil || len(tracer.Failed()) != 0 {
			t.Fatal(err, tracer.Failed())
		}
		links := slices.DeleteFunc(k.hooks(), func(what string) bool { return strings.HasPrefix(what, "program") })
		if want := []string{c.link, c.link, c.link}; !slices.Equal(links, want) {
			t.Errorf("%s of %q: %q, want %q", c.m, c.each, links, want)
		}
		tracer.Close()
	}
}

// TestUnpaired: where returns cannot be told apart by kprobe.multi or kprobe.session, that is refused for them.
func TestUnpaired(t *testing.T) {
	for items, refused := range map[string]bool{"(count)": false, "(count, return)": true, "(return)": true} {
		for m, name := range map[layout.Method]string{layout.MethodKprobeMulti: "kretprobe.multi", layout.MethodKprobeSession: "kprobe.session"} {
			k := newFake(t)
			k.unpaired = true
			tracer, _, err := k.attach(20, items, m)
			if errors.Is(err, errUnpaired) != refused || refused && err.Error() != name+" is not used: "+errUnpaired.Error()+"; auto takes kprobes then" || !refused && err != nil {
				t.Errorf("%s: %v", items, err)
			}
			if err == nil {
				tracer.Close()
			}
			if len(k.held) != 0 {
				t.Errorf("%s: open are %q", items, k.held)
			}
		}
	}
}

// TestAttachInModule: a program for a function of a module is loaded for that module, since others may have a function of this name.
func TestAttachInModule(t *testing.T) {
	for _, m := range []layout.Method{layout.MethodFentry, layout.MethodFsession} {
		k := newFake(t)
		k.module = "mod"
		if _, _, err := k.attach(1, bothEnds, m); err == nil || !strings.Contains(err.Error(), "finding the types of module mod: ") {
			t.Errorf("%s: %v", m, err)
		}
	}
}

// TestAttachRefused: where the only function is refused, the error names it and the
// reason, and nothing stays loaded.
func TestAttachRefused(t *testing.T) {
	const notProbed = "the kernel has no code of that name, or does not let it be traced (notrace)"
	for _, c := range []struct {
		method layout.Method
		has    trait
		want   string
	}{
		{layout.MethodFentry, notrace, "fexit of f0: create link: device or resource busy"},
		{layout.MethodFentry, full, "fexit of f0: create link: argument list too long"},
		{layout.MethodFentry, noMemory, "fexit of f0: create link: cannot allocate memory"},
		{layout.MethodFentry, gone, "fexit of f0: the verifier says: The address of function f0 cannot be found (load program: no such file or directory)"},
		{layout.MethodFsession, notrace, "fsession of f0: create link: device or resource busy"},
		{layout.MethodKprobe, notrace, "kretprobe of f0: " + notProbed},
		{layout.MethodKprobe, blacklisted, "kretprobe of f0: " + notProbed},
		{layout.MethodKprobe, gone, "kretprobe of f0: " + notProbed},
		{layout.MethodKprobe, noMemory, "kretprobe of f0: create link: no space left on device"},
		{layout.MethodKprobeMulti, notrace, "kretprobe.multi of f0: create link: invalid argument"},
		{layout.MethodKprobeMulti, gone, "kretprobe.multi of f0: create link: invalid argument"},
		{layout.MethodKprobeSession, notrace, "kprobe.session of f0: create link: invalid argument"},
		{layout.MethodTracingMulti, notrace, "fsession.multi of f0: create link: invalid argument"},
	} {
		k := newFake(t)
		k.traits["f0"] = c.has
		tracer, _, err := k.attach(1, bothEnds, c.method)
		if err == nil || err.Error() != c.want || tracer != nil {
			t.Errorf("%s, %b: %v, want %s", c.method, c.has, err, c.want)
		}
		if len(k.held) != 0 {
			t.Errorf("%s, %b: open are %q", c.method, c.has, k.held)
		}
	}
}

// TestAttachInterrupted: who is told to stop while attaching attaches no more, and leaves nothing.
func TestAttachInterrupted(t *testing.T) {
	some := map[string]trait{"f0": gone, "f7": gone, "f19": gone} // who is among them is found by halving
	for _, c := range []struct {
		method         layout.Method
		withoutTracefs bool
		traits         map[string]trait
		links          int // in all, of which the first is the engine's
	}{
		{layout.MethodFentry, false, nil, 3}, // both ends of a function
		{layout.MethodKprobe, true, nil, 2},
		{layout.MethodKprobeMulti, false, nil, 2},
		{layout.MethodKprobeMulti, false, some, 2},
		{layout.MethodTracingMulti, false, some, 2},
	} {
		k := newFake(t)
		if k.withoutTracefs = c.withoutTracefs; c.traits != nil {
			k.traits = c.traits
		}
		hurry, links := make(chan struct{}), 0
		k.hooked = func() {
			if links++; links == 2 {
				close(hurry)
			}
		}
		tracer, _, err := k.attach(20, bothEnds, c.method, func(o *Options) { o.Hurry = hurry })
		if !errors.Is(err, ErrInterrupted) || tracer != nil {
			t.Errorf("%s: %v", c.method, err)
		}
		if links != c.links || len(k.held) != 0 {
			t.Errorf("%s: %d links, want %d; left are %q", c.method, links, c.links, k.held)
		}
	}
}

// TestAttachManyRefused: of many functions those that are refused are told, and the
// others hooked at both ends or, if the kernel refuses them, too, at none.
func TestAttachManyRefused(t *testing.T) {
	const invalid = ": create link: invalid argument"
	for _, c := range []struct {
		method layout.Method
		traits map[string]trait
		failed map[string]string
		want   []string
	}{
		{layout.MethodKprobeMulti, map[string]trait{"f7": notrace}, map[string]string{"f7": "kretprobe.multi of f7" + invalid},
			[]string{"program KprobeMulti", "program KprobeMulti", "kretprobe.multi of 19", "kprobe.multi of 19"}},
		{layout.MethodKprobeSession, map[string]trait{"f0": notrace, "f19": notrace},
			map[string]string{"f0": "kprobe.session of f0" + invalid, "f19": "kprobe.session of f19" + invalid},
			[]string{"program KprobeSession", "kprobe.session of 1", "kprobe.session of 3", "kprobe.session of 5", "kprobe.session of 5", "kprobe.session of 2",
				"kprobe.session of 1", "kprobe.session of 1"}},
		{layout.MethodTracingMulti, map[string]trait{"f3": notrace}, map[string]string{"f3": "fsession.multi of f3" + invalid},
			[]string{"program 61 ", "tracing_multi of 2", "tracing_multi of 1", "tracing_multi of 1", "tracing_multi of 5", "tracing_multi of 10"}},
		{layout.MethodKprobe, map[string]trait{"f5": notrace, "f6": blacklisted},
			map[string]string{"f5": "kretprobe of f5: invalid argument", "f6": "kretprobe of f6: invalid argument"},
			[]string{"program Kprobe", "program Kprobe", "program of ksnoop/return2", "program of ksnoop/entry3"}},
		{layout.MethodKprobe, map[string]trait{"f5": noMemory}, map[string]string{"f5": "kretprobe of f5: no space left on device"},
			[]string{"program Kprobe", "program Kprobe", "program of ksnoop/return2", "program of ksnoop/entry3"}},
	} {
		k := newFake(t)
		k.traits = c.traits
		tracer, _, err := k.attach(20, bothEnds, c.method)
		if err != nil {
			t.Errorf("%s: %v", c.method, err)
			continue
		}
		failed := map[string]string{}
		for _, f := range tracer.Failed() {
			failed[f.Probe.Name] = f.Err.Error()
		}
		if d := cmp.Diff(c.failed, failed); d != "" {
			t.Errorf("%s failed (-want +got):\n%s", c.method, d)
		}
		if d := cmp.Diff(c.want, k.hooks()); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.method, d)
		}
		// What was defined and then undone must not stay: the kernel keeps it for good.
		events, _ := os.ReadDir(filepath.Join(k.events, "events", fmt.Sprint(eventGroup, os.Getpid(), "_", process)))
		if defined := len(k.done("+program of ")) > 0; defined && len(events) != 2 {
			t.Errorf("%s: events %v are defined, want those of two ends", c.method, events)
		}
		if err := tracer.Close(); err != nil || len(k.held) != 0 {
			t.Errorf("%s: %v; open are %q", c.method, err, k.held)
		}
	}
}

// TestFallback: what refuses a function is followed by the method that docs/attaching.md
// names, if that is allowed; and if that is refused, too, both reasons are told.
func TestFallback(t *testing.T) {
	fallback := func(o *Options) { o.Fallback = true }
	for _, c := range []struct {
		what   string
		n      int
		method layout.Method
		has    trait
		lacks  []Capability
		want   string // the method of f0 in the end
		fault  string
	}{
		{"few", 2, layout.MethodFentry, full, nil, "kprobe", ""},
		{"few at both ends", 2, layout.MethodFsession, full, nil, "kprobe", ""},
		{"few, refused by all", 2, layout.MethodFentry, notrace, nil, "kprobe",
			"kretprobe of f0: the kernel has no code of that name, or does not let it be traced (notrace) (and before that: fexit of f0: create link: device or resource busy)"},
		{"many", 20, layout.MethodTracingMulti, gone, nil, "kprobe", "kretprobe of f0: no such file or directory"},
		{"many by trampolines", 20, layout.MethodTracingMulti, notrace, nil, "kprobe", "kretprobe of f0: invalid argument"},
		{"many by multi", 20, layout.MethodKprobeMulti, notrace, nil, "kprobe", "kretprobe of f0: invalid argument"},
	} {
		k := newFake(t)
		k.traits["f0"], k.lacks = c.has, c.lacks
		tracer, _, err := k.attach(c.n, bothEnds, c.method, fallback)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		fault := ""
		for _, f := range tracer.Failed() {
			fault += f.Err.Error()
		}
		if got := tracer.Attached().Probes[0].Method.String(); got != c.want || fault != c.fault {
			t.Errorf("%s: %s, %s; want %s, %s", c.what, got, fault, c.want, c.fault)
		}
		for _, probe := range tracer.Attached().Probes[1:] {
			if probe.Method != c.method {
				t.Errorf("%s: %s is attached by %s, and nothing refuses it", c.what, probe.Name, probe.Method)
			}
		}
		tracer.Close()
	}
}

// TestFallbackRoom: a method that keeps more than the one before finds room for it. Without a fallback that needs it there is
// none, and all is attached once.
func TestFallbackRoom(t *testing.T) {
	const kept, shown = "(return == count)", "(return)"
	for _, c := range []struct {
		what    string
		n       int
		items   string
		method  layout.Method
		has     trait // of f0
		engines int
		frames  bool // there are some
	}{
		{"nothing refused", 2, kept, layout.MethodFentry, 0, 1, false},
		{"few", 2, kept, layout.MethodFentry, full, 2, true},
		{"few at both ends", 2, kept, layout.MethodFsession, full, 2, true},
		{"few, refused by all", 2, kept, layout.MethodFentry, notrace, 2, true},
		{"many", 20, kept, layout.MethodTracingMulti, noTrampoline, 2, true},
		{"nothing to keep", 2, shown, layout.MethodFentry, full, 1, false},
		{"kept in either case", 2, "($duration > 1)", layout.MethodFentry, full, 1, true},
		{"many by multi", 20, kept, layout.MethodKprobeMulti, notrace, 1, true},
	} {
		k := newFake(t)
		k.traits["f0"] = c.has
		tracer, _, err := k.attach(c.n, c.items, c.method, func(o *Options) { o.Fallback = true })
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if n := len(k.done("+engine")); n != c.engines {
			t.Errorf("%s: the engine was loaded %d times, want %d", c.what, n, c.engines)
		}
		have, need := tracer.options.Code.Stash, codegen.StashFor(tracer.Attached().Layouts())
		if (have != bpf.Stash{}) != c.frames || !have.Holds(need) {
			t.Errorf("%s: there is %+v for calls, and %+v is needed", c.what, have, need)
		}
		if err := tracer.Close(); err != nil || len(k.held) != 0 {
			t.Errorf("%s: %v; open are %q", c.what, err, k.held)
		}
	}
}

// TestRoom: what methods differ in takes room of its own.
func TestRoom(t *testing.T) {
	call := func(m layout.Method, data uint32) *layout.Probe {
		record := &layout.Record{Size: data}
		return &layout.Probe{Method: m, Stashed: true, Return: &layout.Half{Record: record}}
	}
	var small, large, fprobe, sessions room
	small.add([]*layout.Probe{call(layout.MethodKprobe, 8)}, false)
	large.add([]*layout.Probe{call(layout.MethodKprobe, 80)}, false)
	fprobe.add([]*layout.Probe{call(layout.MethodKprobeMulti, 8)}, false)
	sessions.add([]*layout.Probe{call(layout.MethodKprobeMulti, 8)}, true)
	for _, c := range []struct {
		what       string
		have, need room
		want       bool
	}{
		{"nothing", room{}, room{}, true}, {"frames where there are none", room{}, small, false}, {"larger frames", small, large, false}, {"smaller frames", large, small, true},
		{"fprobes of calls", small, fprobe, true}, {"fprobes of sessions", small, sessions, false}, {"none of sessions", sessions, small, true},
	} {
		if got := c.have.holds(c.need); got != c.want {
			t.Errorf("%s: %t", c.what, got)
		}
	}
}

// TestFallbackChain: what tracing_multi refuses is hooked by its address in the best way that
// the kernel has.
func TestFallbackChain(t *testing.T) {
	for _, c := range []struct {
		lacks []Capability
		want  string
	}{
		{nil, "kprobe.session of 1"},
		{[]Capability{CapKprobeSession}, "kprobe.multi of 1"},
		{[]Capability{CapKprobeSession, CapKprobeMulti}, "program of ksnoop/entry2"},
	} {
		k := newFake(t)
		k.lacks, k.traits["f0"] = c.lacks, noTrampoline
		tracer, _, err := k.attach(20, bothEnds, layout.MethodTracingMulti, func(o *Options) { o.Fallback = true })
		if err != nil || len(tracer.Failed()) != 0 {
			t.Error(err)
			continue
		}
		if hooks := k.hooks(); hooks[len(hooks)-1] != c.want {
			t.Errorf("without %v: %q, want %s", c.lacks, hooks, c.want)
		}
		tracer.Close()
	}
}

// TestEngineRefused: whatever of the engine cannot be had, the error says what it was, and nothing stays.
func TestEngineRefused(t *testing.T) {
	for what, want := range map[string]string{
		"engine":                    "loading the BPF engine: no space left on device",
		"ring buffer":               "opening the ring buffer: no space left on device",
		"raw_tp sched_process_exit": "following processes: create link: no space left on device",
		"put " + bpf.MapLists:       "what to capture of f0: no space left on device",
	} {
		k := newFake(t)
		k.refuse[what] = unix.ENOSPC
		_, _, err := k.attach(20, bothEnds, layout.MethodTracingMulti)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
		if len(k.held) != 0 {
			t.Errorf("%s: open are %q", what, k.held)
		}
	}
}

// TestNoDescriptors: what a limit of descriptors refuses says which limit that is.
func TestNoDescriptors(t *testing.T) {
	for _, c := range []struct {
		what   string
		n      int
		method layout.Method
	}{{"engine", 1, layout.MethodFentry}, {"perf_event_open", 20, layout.MethodKprobe}} {
		k := newFake(t)
		k.refuse[c.what] = unix.EMFILE
		_, _, err := k.attach(c.n, "", c.method)
		if !errors.Is(err, unix.EMFILE) || strings.Count(err.Error(), "ulimit -n") != 1 {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestLockdown: EPERM is a matter of rights, and not of locked memory, whatever the library says.
func TestLockdown(t *testing.T) {
	k := newFake(t)
	k.lockdown = true
	_, _, err := k.attach(1, "", layout.MethodFentry)
	if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "the kernel does not permit it: a capability is missing, or lockdown") ||
		strings.Contains(err.Error(), "MEMLOCK") {
		t.Errorf("%v", err)
	}
}

// TestHiddenSymbols: what is hooked by its address cannot be where the kernel hides these.
func TestHiddenSymbols(t *testing.T) {
	for _, m := range []layout.Method{layout.MethodKprobeMulti, layout.MethodKprobe} {
		k := newFake(t)
		k.hidden = true
		_, _, err := k.attach(20, "", m)
		if err == nil || !strings.HasPrefix(err.Error(), "many functions at once are hooked by their addresses: ") || len(k.held) != 0 {
			t.Errorf("%s: %v; open are %q", m, err, k.held)
		}
	}
}

// TestWithoutTracefs: many kprobes take an event each then, and one has less room for returns.
func TestWithoutTracefs(t *testing.T) {
	k := newFake(t)
	k.withoutTracefs = true
	k.traits["f3"] = blacklisted
	tracer, _, err := k.attach(20, "(count)", layout.MethodKprobe)
	if err != nil {
		t.Fatal(err)
	}
	if hooks := k.hooks(); len(hooks) != 20 || hooks[1] != "kprobe f0 at 0xffffffff81000040" {
		t.Errorf("hooked are %q", hooks)
	}
	if f := tracer.Failed(); len(f) != 1 || f[0].Probe.Name != "f3" {
		t.Errorf("failed: %v", f)
	}
	tracer.Close()
	k = newFake(t)
	k.withoutTracefs = true
	if _, _, err = k.attach(1, "(return)", layout.MethodKprobe); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"program Kprobe", "kretprobe f0"}, k.hooks()); d != "" {
		t.Error(d)
	}
}

// TestKretprobesCounted: the kretprobes of open events count, also where a function was refused and the others are hooked once more.
func TestKretprobesCounted(t *testing.T) {
	k := newFake(t)
	k.traits["f3"] = noMemory
	tracer, _, err := k.attach(20, "(return)", layout.MethodKprobe)
	if err != nil {
		t.Fatal(err)
	}
	if len(tracer.Failed()) != 1 || tracer.kretprobes != 19 {
		t.Errorf("%d kretprobes, failed: %v", tracer.kretprobes, tracer.Failed())
	}
	if tracer.Close(); tracer.kretprobes != 0 {
		t.Errorf("%d kretprobes after all were closed", tracer.kretprobes)
	}
}

// TestEventNotOpened: an event whose program cannot be hooked is taken away again.
func TestEventNotOpened(t *testing.T) {
	k := newFake(t)
	k.refuse["perf_event_open"] = unix.ENOMEM
	_, _, err := k.attach(20, "(count)", layout.MethodKprobe)
	if want := "event ksnoop/entry1: create link: cannot allocate memory"; err == nil || withoutOwn(err.Error()) != want {
		t.Errorf("%v, want %s", err, want)
	}
	if len(k.held) != 0 || len(k.done("-:")) != 1 {
		t.Errorf("open are %q; done was %q", k.held, k.log)
	}
}

// TestAttachStale: events of a process that was killed go before anything is attached, and what
// is only tried changes nothing.
func TestAttachStale(t *testing.T) {
	const stale = "ksnoop_1073741824/entry1_1073741824" // more than PIDs can be
	k := newFake(t)
	if err := os.MkdirAll(filepath.Join(k.events, "events", stale), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.attach(1, "", layout.MethodFentry, func(o *Options) { o.LoadOnly = true }); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"program FExit f0", "program FEntry f0"}, k.hooks()); d != "" {
		t.Errorf("to load only (-want +got):\n%s", d)
	}
	if len(k.done("-:")) != 0 {
		t.Errorf("to load only: %q", k.log)
	}
	k.log = nil
	if _, _, err := k.attach(1, "", layout.MethodFentry); err != nil {
		t.Fatal(err)
	}
	removed, loaded := slices.Index(k.log, "-:"+stale), slices.Index(k.log, "+engine")
	if removed < 0 || removed > loaded {
		t.Errorf("%q", k.log)
	}
	if _, err := os.Stat(filepath.Join(k.events, "events", stale)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestInstruction: a kprobe inside a function; what the kernel says of a place where no
// instruction begins, too.
func TestInstruction(t *testing.T) {
	for has, want := range map[trait]string{
		0:           "",
		modified:    "no instruction begins there, or it is one that the kernel patches at run time or lets nobody trace: look at a disassembly of f0",
		blacklisted: "no instruction begins there, or it is one that the kernel patches at run time or lets nobody trace: look at a disassembly of f0",
		noMemory:    "create link: no space left on device",
	} {
		for _, addr := range []uint64{0, fakeBase + fakeSize} {
			k := newFake(t)
			k.traits["f0"] = has
			p := &plan.Probe{Probe: layout.Probe{Method: layout.MethodKprobe}}
			p.Func.Name, p.Func.Addr, p.Hook.Offset = "f0", addr, 4
			prog := &fakeProgram{k.hold("program"), k, 0, 0, "f0"}
			l, err := new(Tracer).hook(p, prog, atEntry)
			if got := fmt.Sprint(err); want != "" && got != want || want == "" && err != nil {
				t.Errorf("%b: %v, want %s", has, err, want)
			}
			if (err == nil) != (l != nil) {
				t.Errorf("%b: %v with %v", has, l, err)
			}
			if at := fmt.Sprintf("+kprobe f0 at %#x", addr+4); err == nil && addr != 0 && !slices.Contains(k.log, at) {
				t.Errorf("%q, want %s", k.log, at)
			}
		}
	}
	for errno, want := range map[trait]string{
		blacklisted: "the kernel lets nobody probe the function that it was inlined into",
		modified:    "the kernel patches its first instruction at run time",
	} {
		k := newFake(t)
		k.traits["f0"] = errno
		p := &plan.Probe{Probe: layout.Probe{Method: layout.MethodKprobe}}
		p.Func.Name, p.Func.Addr, p.Hook.Inlined = "f0", fakeBase+fakeSize, true
		if _, err := new(Tracer).hook(p, &fakeProgram{k.hold("program"), k, 0, 0, "f0"}, atEntry); err == nil || err.Error() != want {
			t.Errorf("inlined: %v, want %s", err, want)
		}
	}
}
