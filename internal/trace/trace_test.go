// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// testView is a kernel that has
//
//	int send(struct task_struct *t, int count)
//
// and tells by its types whether an interrupt is being served.
func testView(t *testing.T) *kernel.View {
	t.Helper()
	view, err := kernel.OpenBTF(bytes.NewReader(testTypes(t)), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return view
}

func testTypes(t *testing.T) []byte {
	t.Helper()
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	info := &btf.Struct{Name: "thread_info", Size: 4, Members: []btf.Member{{Name: "preempt_count", Type: integer}}}
	task := &btf.Struct{Name: "task_struct", Size: 8, Members: []btf.Member{{Name: "thread_info", Type: info}, {Name: "pid", Type: integer, Offset: 32}}}
	b, err := btf.NewBuilder([]btf.Type{
		&btf.Var{Name: "__preempt_count", Type: integer, Linkage: btf.GlobalVar},
		&btf.Func{Name: "send", Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{
			{Name: "t", Type: &btf.Pointer{Target: task}}, {Name: "count", Type: integer}}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(raw)
}

func parsed(t *testing.T, text string) []*expr.Spec {
	t.Helper()
	s, err := expr.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return []*expr.Spec{s}
}

func resolved(t *testing.T, view *kernel.View, r Request) *plan.Plan {
	t.Helper()
	r.Options.Arch = runtime.GOARCH
	got, err := Resolve(view, r)
	if err != nil {
		t.Fatal(err)
	}
	return got.Plan
}

// TestOptions: the engine and the code generator are told the same, whatever is asked for,
// and the function that tells of interrupts is there once where either of them calls it.
func TestOptions(t *testing.T) {
	view := testView(t)
	calls := resolved(t, view, Request{Specs: parsed(t, "send(count)"), Method: layout.MethodFentry})
	sessions := resolved(t, view, Request{Sessions: &plan.SessionRequest{Entry: parsed(t, "send")}, Method: layout.MethodFentry})
	for _, p := range []*plan.Plan{calls, sessions} {
		for bits := range 1 << 5 {
			on := func(i int) bool { return bits>>i&1 == 1 }
			s := Settings{RingSize: 4096, InFlight: 7, Fallback: on(0)}
			if on(1) {
				s.Filter.PIDs = []uint32{1}
			}
			s.Filter.NoIRQ = on(2)
			if on(3) {
				s.Rate.Most = 5
			}
			if on(4) {
				s.Tail = bpf.Tail{Stack: 10, Branches: true}
			}
			o, err := Options(t.Context(), view, p, s)
			if err != nil {
				t.Fatal(err)
			}
			interrupts := 0
			for _, f := range o.Code.Subprograms {
				if f.Name == bpf.FuncPreemptCount {
					interrupts++
				}
			}
			if o.Code.Filtered != o.Settings.Filter.Active() || o.Code.Filtered != (on(1) || on(2)) || o.Code.Limited != (o.Settings.Rate.Most > 0) ||
				o.Code.Limited != on(3) || o.Code.Stacks != on(4) || o.Code.Branches != on(4) || o.Settings.Tail.Branches != on(4) ||
				interrupts != 1 || (o.Settings.Sessions != nil) != p.Sessions ||
				o.Settings.RingSize != 4096 || o.Settings.InFlight != 7 || o.Fallback != on(0) || o.Kernel != view || o.Code.Arch != view.Arch() {
				t.Errorf("sessions %t, %05b: %+v, %+v", p.Sessions, bits, o.Settings, o.Code)
			}
		}
	}
}

// TestOptionsOfGivenTypes: the ids of types from a file are not those of the kernel, so its preemption count is not
// found by them.
func TestOptionsOfGivenTypes(t *testing.T) {
	view, err := kernel.OpenTyped(fstest.MapFS{}, bytes.NewReader(testTypes(t)))
	if err != nil {
		t.Fatal(err)
	}
	p := resolved(t, testView(t), Request{Specs: parsed(t, "send(count)"), Method: layout.MethodKprobe})
	o, err := CodeOptions(t.Context(), view, p, Settings{})
	if err != nil || len(o.Subprograms) != 0 {
		t.Errorf("%v, %v", o.Subprograms, err)
	}
	_, err = CodeOptions(t.Context(), view, p, Settings{Filter: bpf.Filter{NoIRQ: true}})
	if err == nil || !strings.Contains(err.Error(), "leaving out what interrupts call: ids of types in a file") {
		t.Error(err)
	}
}

// TestResolveMethod: a method that was asked for is that of all calls.
func TestResolveMethod(t *testing.T) {
	for _, m := range []layout.Method{layout.MethodKprobe, layout.MethodFentry, layout.MethodKprobeMulti} {
		p := resolved(t, testView(t), Request{Specs: parsed(t, "send(return)"), Method: m})
		if len(p.Probes) != 1 || p.Probes[0].Method != m {
			t.Errorf("%v: %+v", m, p.Probes)
		}
	}
}

// TestParse: of several texts, the faults of all are told.
func TestParse(t *testing.T) {
	specs, err := ParseSpecs([]string{"a(", "b(x)", "c)"})
	if len(specs) != 1 || specs[0].Text != "b(x)" || err == nil || !strings.Contains(err.Error(), "  a(\n") || !strings.Contains(err.Error(), "  c)\n") {
		t.Errorf("%v, %v", specs, err)
	}
	if out, err := ParseSelectors([]string{"*rcu*", "x[ext4]"}); len(out) != 2 || out[0].Name != "*rcu*" || out[1].Module != "ext4" || err != nil {
		t.Errorf("%+v, %v", out, err)
	}
	for _, items := range []string{"a()", "a(x)"} {
		if _, err := ParseSelectors([]string{"b", items}); err == nil || err.Error() != items+": a selector takes no items" {
			t.Errorf("%s: %v", items, err)
		}
	}
}

// TestAdopt: what is started while children are looked for is found.
func TestAdopt(t *testing.T) {
	proc := fstest.MapFS{}
	start := func(pid, parent int) {
		name := strconv.Itoa(pid)
		proc[name+"/stat"] = &fstest.MapFile{Data: []byte(name + " (a) b) S " + strconv.Itoa(parent) + " 0\n")}
	}
	start(1, 0)
	start(10, 1)
	start(11, 10)
	start(20, 1)
	born := map[int]int{10: 12, 11: 13, 13: 14} // who has a child as it is adopted
	var adopted []int
	p := Processes{PIDs: []uint{10}, Follow: true}
	if err := p.adopt(proc, func(pid int) error {
		adopted = append(adopted, pid)
		if child := born[pid]; child != 0 {
			start(child, pid)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(adopted)
	if got := slices.Compact(adopted); !slices.Equal(got, []int{10, 11, 12, 13, 14}) {
		t.Errorf("%v", got)
	}
	refuse := errors.New("no")
	if err := p.adopt(proc, func(int) error { return refuse }); !errors.Is(err, refuse) {
		t.Error(err)
	}
	p.Follow = false
	if err := p.Adopt(func(int) error { return refuse }); err != nil {
		t.Error(err)
	}
}

// TestWatch: a run ends when all of its processes have, or all of its threads.
func TestWatch(t *testing.T) {
	ended, stop, err := Processes{}.Watch()
	if err != nil || ended != nil {
		t.Errorf("of nobody: %v, %v", ended, err)
	}
	stop()
	ended, stop, err = Processes{PIDs: []uint{uint(os.Getpid())}}.Watch()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	select {
	case <-ended:
		t.Error("we have ended")
	default:
	}
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	tid := uint(other.Process.Pid) // its only thread
	own := uint(os.Getpid())       // the first thread
	ended, stop, err = Processes{TIDs: []uint{tid}, PIDs: []uint{own}}.Watch()
	if err != nil {
		t.Fatal(err)
	}
	both, stopBoth, err := Processes{TIDs: []uint{tid, own}}.Watch()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		t.Error("a thread that goes on has ended")
	case <-time.After(300 * time.Millisecond):
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended // though nobody has asked for its status
	_ = other.Wait()
	select {
	case <-both:
		t.Error("another thread goes on")
	case <-time.After(300 * time.Millisecond):
	}
	stop()
	stopBoth()
	if _, _, err := (Processes{TIDs: []uint{1 << 30}}).Watch(); err == nil || err.Error() != "there is no thread 1073741824" {
		t.Error(err)
	}
}

func TestFindCgroup(t *testing.T) {
	dir := t.TempDir()
	if _, err := FindCgroup(dir); err == nil || !strings.Contains(err.Error(), "not a control group (cgroup v2); ") {
		t.Error(err)
	}
	for mount, want := range map[string]string{
		"":                       "control groups of version 2 are not mounted at /sys/fs/cgroup or /sys/fs/cgroup/unified, and those of version 1 alone are not supported",
		"/sys/fs/cgroup/unified": "they are below /sys/fs/cgroup/unified",
	} {
		if got := whereCgroups(mount); got != want {
			t.Errorf("%q: %s, want %s", mount, got, want)
		}
	}
	if err := (&Cgroups{}).Check(); err == nil {
		t.Error("cgroups are found without a mount")
	}
	if _, err := FindCgroup(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestExplained: what the kernel lets nobody trace is said to be so, in place of what it
// returned.
func TestExplained(t *testing.T) {
	view := kernel.Open(fstest.MapFS{
		"proc/kallsyms": {Data: []byte("ffffffff81000100 T sched_clock\nffffffff81000200 T native_sched_clock\n")},
		"sys/kernel/tracing/available_filter_functions": {Data: []byte("sched_clock\n")},
	})
	refused := errors.New("no such file")
	var failed []attach.Failure
	for _, name := range []string{"sched_clock", "native_sched_clock"} {
		failed = append(failed, attach.Failure{Probe: &plan.Probe{Func: kernel.Function{Name: name}, Probe: layout.Probe{Name: name}}, Err: refused})
	}
	got := Explained(view, failed)
	if got[0].Err != refused || got[1].Err == nil || got[1].Err.Error() != "the kernel does not let it be traced (notrace)" || failed[1].Err != refused {
		t.Errorf("%v", got)
	}
}

// TestGoOn: of the processes that are followed, those count that have not ended.
func TestGoOn(t *testing.T) {
	proc := fstest.MapFS{"self/stat": {Data: []byte("1 (a) S 0\n")}, "5": {Mode: fs.ModeDir}}
	for pid, process := range map[string]struct {
		state   string
		threads int
	}{"1": {"S", 1}, "2": {"R", 1}, "3": {"Z", 1}, "4": {"X", 0}, "6": {"D", 2}, "7": {"S", 1}, "-1": {"Z", 12}} {
		proc[pid+"/stat"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%s (a) Z) %s%s %d 0 0 0\n", pid, process.state, strings.Repeat(" 0", 16), process.threads)}
	}
	follows := func(pid int) (bool, error) { return pid < 7, nil }
	if n, err := goOn(proc, follows); n != 4 || err != nil {
		t.Errorf("%d, %v; want 1, 2, 6 and the one whose main thread has ended", n, err)
	}
	refuse := errors.New("no")
	if _, err := goOn(proc, func(int) (bool, error) { return false, refuse }); !errors.Is(err, refuse) {
		t.Error(err)
	}
}
