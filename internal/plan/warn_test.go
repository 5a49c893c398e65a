// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// clockView is a kernel of three functions that return a u64: sched_clock can be
// traced, native_sched_clock is notrace, and of cycles_2_ns there is no code.
func clockView(t *testing.T) *kernel.View {
	t.Helper()
	var types []btf.Type
	for _, name := range []string{"sched_clock", "native_sched_clock", "cycles_2_ns"} {
		types = append(types, &btf.Func{Name: name, Type: &btf.FuncProto{Return: &btf.Int{Name: "u64", Size: 8}}, Linkage: btf.StaticFunc})
	}
	return kernel.Open(fstest.MapFS{
		"sys/kernel/btf/vmlinux":                        {Data: rawBTF(t, types...)},
		"proc/kallsyms":                                 {Data: []byte("ffffffff81000100 T sched_clock\nffffffff81000200 T native_sched_clock\n")},
		"sys/kernel/tracing/available_filter_functions": {Data: []byte("sched_clock\n")},
	})
}

// What no code is left of is a fault at once, what the kernel refuses is one when
// somebody asks why it failed.
func TestUntraceable(t *testing.T) {
	for _, test := range []struct{ spec, fault, refused string }{
		{"sched_clock", "", ""},
		{"sched_*", "", ""},
		{"native_sched_clock()", "", "  native_sched_clock()\n  ^~~~~~~~~~~~~~~~~~\n  column 1: the kernel does not let native_sched_clock be traced (notrace); functions that call it may be"},
		{"native_*", `"native_sched_clock" is there, but the kernel lets nobody trace it (notrace`, ""},
		{"cycles_2_ns", "  ^~~~~~~~~~~\n  column 1: cycles_2_ns is inlined everywhere: there is no code of it to trace; its code is in a", ""},
		{"tsc_read", "  column 1: tsc_read is inlined everywhere: there is no code of it to trace; its code is in a", ""},
		{"sched_clok", `did you mean "sched_clock"`, ""},
		{"sched_clock[ext4]", `no function of a module ext4 is called "sched_clock"; "sched_clock" is in vmlinux: leave out the brackets`, ""},
	} {
		view := clockView(t)
		inlined := func(name string) string { // as debug info tells
			return map[string]string{"cycles_2_ns": "its code is in a", "tsc_read": "its code is in a"}[name]
		}
		p, _, err := Resolve(view, specs(t, test.spec), Options{Arch: "amd64", Inlined: inlined})
		if test.fault != "" {
			if err == nil || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%s: %v, want %s", test.spec, err, test.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.spec, err)
			continue
		}
		got := ""
		if err := Refused(view, p, p.Probes); err != nil {
			got = err.Error()
		}
		if got != test.refused {
			t.Errorf("%s: refused %q, want %q", test.spec, got, test.refused)
		}
	}
	// Of sessions, what is asked for by name is refused, and not what -a says.
	s, _, err := ResolveSession(clockView(t), SessionRequest{Entry: specs(t, "sched_clock"), Allow: specs(t, "native_sched_clock")}, Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	if err := Refused(clockView(t), s, s.Probes); err != nil {
		t.Errorf("-a: %v", err)
	}
	if s, _, err = ResolveSession(clockView(t), SessionRequest{Entry: specs(t, "native_sched_clock")}, Options{Arch: "amd64"}); err != nil {
		t.Fatal(err)
	}
	if err := Refused(clockView(t), s, s.Probes); err == nil {
		t.Error("-e native_sched_clock: not refused")
	}
}

// TestRefusedNamesake: of two functions with one name, one that can be traced is enough.
func TestRefusedNamesake(t *testing.T) {
	const list = "ffffffff81000100 t both\nffffffff81000200 t both\n"
	for traceable, refused := range map[string]bool{"ffffffff81000100 both": false, "ffffffff81000200 both": false, "ffffffff81000300 other": true} {
		both := &btf.Func{Name: "both", Type: &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}, Linkage: btf.StaticFunc}
		view := kernel.Open(fstest.MapFS{
			"sys/kernel/btf/vmlinux": {Data: rawBTF(t, both)},
			"proc/kallsyms":          {Data: []byte(list)},
			"sys/kernel/tracing/available_filter_functions_addrs": {Data: []byte(traceable + "\n")},
		})
		p, _, err := Resolve(view, specs(t, "both"), Options{Arch: "amd64"})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Probes) != 2 {
			t.Fatalf("%d functions", len(p.Probes))
		}
		if err := Refused(view, p, p.Probes); (err != nil) != refused {
			t.Errorf("%s can be traced: %v", traceable, err)
		}
	}
}

// Of a glob, what can be meant for some function is not doubted.
func TestWarnDoubts(t *testing.T) {
	for spec, want := range map[string]string{
		"sched_clock(return < 0)": "a doubtful SPEC\n  sched_clock(return < 0)\n              ^~~~~~~~~~\n  column 13: this never holds",
		"sched_*(return < 0)":     "this never holds: return is u64, which has no negative values; to read it as a signed number write (long)return",
		"sched_clock(return)":     "",
	} {
		var got []string
		o := Options{Arch: "amd64", Warn: func(err error) { got = append(got, err.Error()) }}
		if _, _, err := Resolve(clockView(t), []*expr.Spec{parse(t, spec)}, o); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		if warned := strings.Join(got, "\n"); (warned == "") != (want == "") || !strings.Contains(warned, want) {
			t.Errorf("%s: warned %q, want %q", spec, warned, want)
		}
	}
	var got []string
	o := Options{Arch: "amd64", Warn: func(err error) { got = append(got, err.Error()) }}
	two := []*expr.Spec{parse(t, "*(return == EINVAL)")} // find and send return numbers, drop nothing
	if _, skipped, err := Resolve(sessionView(t), two, o); err != nil || len(skipped) == 0 || len(got) != 1 {
		t.Errorf("%v, %d left out, warned %q", err, len(skipped), got)
	}
	got = nil
	if _, _, err := Resolve(sessionView(t), []*expr.Spec{parse(t, "*(return < 0)")}, o); err != nil || len(got) != 0 {
		t.Errorf("%v, warned of %q, though send returns an int", err, got)
	}
	if _, _, err := ResolveSession(sessionView(t), SessionRequest{Entry: specs(t, "send(return==EINVAL)")}, o); err != nil || len(got) != 1 {
		t.Errorf("session: %v, warned of %q", err, got)
	}
}

// A record that cannot be sent is a fault of the item that makes it too large:
// 31 KiB hold seven buffers of 4096 bytes, each behind 8 bytes for its length.
func TestRecordTooLarge(t *testing.T) {
	buffers := func(n int) string { return "send(" + strings.Repeat("buf(sk, 4096), ", n-1) + "buf(sk, 4096))" }
	values := func(n int) string { return "send(" + strings.Repeat("count, ", n-1) + "count)" }
	for _, test := range []struct{ spec, want string }{
		{buffers(7), ""},
		{buffers(8), "column 111: a record of 32832 bytes is larger than the limit of 31744, which is exceeded here; ask for fewer or smaller values"},
		{values(64), ""},
		{values(65), "column 454: a record of 65 values has more than the limit of 64"},
	} {
		_, _, err := Resolve(testView(t), []*expr.Spec{parse(t, test.spec)}, Options{Arch: "amd64"})
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%.40s…: %v, want %q", test.spec, err, test.want)
		}
	}
}

// TestRefusal: what the kernel's list of functions that can be traced does not have cannot
// be, whoever asks for it by name.
func TestRefusal(t *testing.T) {
	view := clockView(t)
	parse := func(text string) []*expr.Spec {
		spec, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return []*expr.Spec{spec}
	}
	s, _, err := ResolveSession(view, SessionRequest{Entry: parse("sched_clock"), Allow: parse("native_sched_clock")}, Options{Arch: "amd64"})
	if err != nil || len(s.Probes) != 2 {
		t.Fatal(s, err)
	}
	if err := s.Probes[0].Refusal(view); err != nil {
		t.Errorf("sched_clock: %v", err)
	}
	if err := s.Probes[1].Refusal(view); err == nil || !strings.HasSuffix(err.Error(), "(notrace)") {
		t.Errorf("native_sched_clock: %v", err)
	}
}

// TestManyUnknown: each name that is unknown is told; a hint is looked for, which takes long, for the first ones.
func TestManyUnknown(t *testing.T) {
	const many = mostExplained + 8
	var names strings.Builder
	for i := range many {
		fmt.Fprintf(&names, "sched_clo%02d ", i)
	}
	unknown := specs(t, names.String())
	_, _, calls := Resolve(clockView(t), unknown, Options{Arch: "amd64"})
	_, _, sessions := ResolveSession(clockView(t), SessionRequest{Entry: specs(t, "sched_clock"), Allow: unknown}, Options{Arch: "amd64"})
	for _, err := range []error{calls, sessions} {
		text := fmt.Sprint(err)
		faults, hints := strings.Count(text, "no function is called \"sched_clo"), strings.Count(text, `did you mean "sched_clock"`)
		if faults != many || hints != mostExplained {
			t.Errorf("%d faults and %d hints, want %d and %d:\n%.300s", faults, hints, many, mostExplained, text)
		}
	}
}
