// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/trace"
	"github.com/ksnoop/ksnoop/layout"
)

func TestSay(t *testing.T) {
	var b strings.Builder
	log := slog.New(sentences{&b, slog.LevelInfo})
	log.Debug("not shown")
	p := &plan.Plan{}
	for i := range 7 {
		method := layout.MethodKprobe
		if i == 0 {
			method = layout.MethodFentry
		}
		p.Probes = append(p.Probes, &plan.Probe{Func: kernel.Function{Name: fmt.Sprint("f", i)}, Probe: layout.Probe{Name: fmt.Sprint("f", i), Method: method}})
	}
	p.Probes = append(p.Probes, &plan.Probe{Func: kernel.Function{Name: "f7"}, Probe: layout.Probe{Name: "f7", Spec: specOf(t, "f7(n == 1, return)")}},
		&plan.Probe{Func: kernel.Function{Name: "f8"}, Probe: layout.Probe{Name: "f8", Spec: specOf(t, "f8("+strings.Repeat("n == 1, ", 20)+"n)")}})
	sayAttached(log, p, []attach.Failure{{Probe: p.Probes[6], Err: errors.New("kprobe of f6: busy")},
		{Probe: p.Probes[7], Err: errors.New("too long")}, {Probe: p.Probes[8], Err: errors.New("longer still")}})
	var skipped []plan.Skipped
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		skipped = append(skipped, plan.Skipped{Func: kernel.Function{Name: "tcp_" + name}, Why: fmt.Errorf("tcp_%s has no parameter sk", name)})
	}
	sayLeftOut(log, skipped)
	log.Warn("not found", "file", "/tmp/a\nksnoop: all is well", "reason", errors.New("no table"))
	const want = `ksnoop: f6: not traced: kprobe of f6: busy
ksnoop: f7(n == 1, return): not traced: too long
ksnoop: f8(n == 1, n == 1, n == 1, n == 1, n == 1, n == 1, n == 1, n =...: not traced: longer still
ksnoop: f0: attached with fentry
ksnoop: 5 functions (f1, f2, f3, f4, ...): attached with kprobe
ksnoop: 5 functions (tcp_a, tcp_b, tcp_c, tcp_d, ...): left out: for example, tcp_a has no parameter sk
ksnoop: not found: /tmp/a\nksnoop: all is well: no table
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}

func specOf(t *testing.T, text string) *expr.Spec {
	t.Helper()
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestExplained: what the kernel lets nobody trace is said to be so, in place of
// what it returned.
func TestExplained(t *testing.T) {
	k := kernel.Open(fstest.MapFS{
		"proc/kallsyms": {Data: []byte("ffffffff81000100 T sched_clock\nffffffff81000200 T native_sched_clock\n")},
		"sys/kernel/tracing/available_filter_functions": {Data: []byte("sched_clock\n")},
	})
	p := &plan.Plan{}
	var failed []attach.Failure
	for _, name := range []string{"sched_clock", "native_sched_clock"} {
		p.Probes = append(p.Probes, &plan.Probe{Func: kernel.Function{Name: name}, Probe: layout.Probe{Name: name}})
		failed = append(failed, attach.Failure{Probe: p.Probes[len(failed)], Err: fmt.Errorf("kprobe of %s: no such file", name)})
	}
	var b strings.Builder
	sayAttached(slog.New(sentences{&b, slog.LevelInfo}), p, trace.Explained(k, failed))
	const want = "ksnoop: sched_clock: not traced: kprobe of sched_clock: no such file\n" +
		"ksnoop: native_sched_clock: not traced: the kernel does not let it be traced (notrace)\n"
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}

// Remarks that differ in the names of their functions only say the same.
func TestGrouped(t *testing.T) {
	fault := &expr.ErrorList{Text: "send(x)", Errors: []*expr.Error{{Span: expr.Span{Start: 5, End: 6}, Msg: "send has no parameter", Hint: "see sendmsg"}}}
	remarks := []remark{
		remarkOn("send", errors.New("kprobe of send: busy")),
		remarkOn("recv", errors.New("kprobe of recv: busy")),
		remarkOn("send", fault),
		remarkOn("sendto", errors.New("kprobe of send: busy")),
		remarkOn("send", errors.New("send failed\nand send_all as well")),
		remarkOn("", errors.New("nothing")),
	}
	var got []string
	for _, group := range grouped(remarks) {
		got = append(got, fmt.Sprintf("%d: %s", len(group), sharedText(group)))
	}
	want := []string{
		"2: for example, kprobe of send: busy",
		"1: send has no parameter",
		"1: kprobe of send: busy",
		"1: send failed and send_all as well",
		"1: nothing",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAwaiting: a plan says that its way of attaching waits for a limited number of returns,
// if it does.
func TestAwaiting(t *testing.T) {
	half := &layout.Half{}
	for _, c := range []struct {
		probe layout.Probe
		want  bool
	}{
		{layout.Probe{Method: layout.MethodKprobeSession, Entry: half, Return: half}, true},
		{layout.Probe{Method: layout.MethodKprobeMulti, Return: half}, true},
		{layout.Probe{Method: layout.MethodKprobeMulti, Entry: half}, false},
		{layout.Probe{Method: layout.MethodFentry, Entry: half, Return: half}, false},
	} {
		p := &plan.Plan{Probes: []*plan.Probe{{Probe: layout.Probe{Method: layout.MethodKprobe, Return: half}}, {Probe: c.probe}}}
		text := awaiting(p)
		if got := strings.HasPrefix(text, "with "+c.probe.Method.String()+" the kernel waits"); got != c.want || !got && text != "" {
			t.Errorf("%s: %q", c.probe.Method, text)
		}
	}
}

// TestSayKprobes: that kprobes take long is said of many functions, not of instructions, nor of other methods.
func TestSayKprobes(t *testing.T) {
	for _, c := range []struct {
		n      int
		method layout.Method
		kind   expr.Kind
		said   bool
	}{{slowKprobes, layout.MethodKprobe, expr.Function, true}, {slowKprobes - 1, layout.MethodKprobe, expr.Function, false},
		{slowKprobes, layout.MethodKprobeMulti, expr.Function, false}, {slowKprobes, layout.MethodKprobe, expr.Instruction, false}} {
		p := &plan.Plan{Probes: slices.Repeat([]*plan.Probe{{Probe: layout.Probe{Method: c.method, Kind: c.kind}}}, c.n)}
		for _, choice := range []attach.Choice{{}, {Passed: []error{errors.New("no FPROBE")}}} {
			var b strings.Builder
			sayKprobes(slog.New(sentences{&b, slog.LevelWarn}), p, choice)
			if strings.Contains(b.String(), "to attach 1000 functions by kprobes") != c.said || strings.Contains(b.String(), "--debug") != (c.said && len(choice.Passed) > 0) {
				t.Errorf("%+v: %q", c, b.String())
			}
		}
	}
}
