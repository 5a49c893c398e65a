// SPDX-License-Identifier: Apache-2.0

package codegen_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/userfunc"
	"github.com/ksnoop/ksnoop/layout"
)

var update = flag.Bool("update", false, "write the golden files")

// listed is a kernel of a test's own, so that no listing depends on the build of one:
//
//	struct item { u32 flags; u32 mode:4, kind:12; struct item *next; s64 pos; char name[16]; const char *path; u8 shift; s16 half; };
//	int send(struct item *it, unsigned long count)
//	void nothing(struct item *it)
//	long wide(__int128 v)
//	long __x64_sys_openat(const struct pt_regs *regs)
//	int __traceiter_task_newtask(void *__data, struct item *it, const char *name)
func listedKernel(t *testing.T) *kernel.View {
	t.Helper()
	s64, u64 := &btf.Int{Name: "s64", Size: 8, Encoding: btf.Signed}, &btf.Int{Name: "long unsigned int", Size: 8}
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	integer, s16 := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, &btf.Int{Name: "short int", Size: 2, Encoding: btf.Signed}
	char, u8 := &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}, &btf.Int{Name: "unsigned char", Size: 1}
	i128 := &btf.Int{Name: "__int128", Size: 16, Encoding: btf.Signed}
	next := &btf.Pointer{}
	text := &btf.Pointer{Target: &btf.Const{Type: char}}
	item := &btf.Struct{Name: "item", Size: 64, Members: []btf.Member{
		{Name: "flags", Type: u32}, {Name: "mode", Type: u32, Offset: 32, BitfieldSize: 4}, {Name: "kind", Type: u32, Offset: 36, BitfieldSize: 12},
		{Name: "next", Type: next, Offset: 64}, {Name: "pos", Type: s64, Offset: 128},
		{Name: "name", Type: &btf.Array{Index: u32, Type: char, Nelems: 16}, Offset: 192}, {Name: "path", Type: text, Offset: 320},
		{Name: "shift", Type: u8, Offset: 384}, {Name: "half", Type: s16, Offset: 400}}}
	next.Target = item
	regs := &btf.Struct{Name: "pt_regs", Size: 168}
	for i, name := range strings.Fields("r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss") {
		regs.Members = append(regs.Members, btf.Member{Name: name, Type: u64, Offset: btf.Bits(64 * i)})
	}
	var types []btf.Type
	function := func(name string, result btf.Type, params ...btf.FuncParam) {
		types = append(types, &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: result, Params: params}})
	}
	function("send", integer, btf.FuncParam{Name: "it", Type: next}, btf.FuncParam{Name: "count", Type: u64})
	function("nothing", &btf.Void{}, btf.FuncParam{Name: "it", Type: next})
	function("wide", s64, btf.FuncParam{Name: "v", Type: i128})
	function("__x64_sys_openat", s64, btf.FuncParam{Name: "regs", Type: &btf.Pointer{Target: &btf.Const{Type: regs}}})
	function("__traceiter_task_newtask", integer, btf.FuncParam{Name: "__data", Type: &btf.Pointer{Target: &btf.Void{}}},
		btf.FuncParam{Name: "it", Type: next}, btf.FuncParam{Name: "name", Type: text})
	types = append(types, &btf.Struct{Name: "task_struct", Size: 16, Members: []btf.Member{{Name: "flags", Type: u32, Offset: 64}}})
	const events = "sys/kernel/tracing/events/"
	file := func(lines ...string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(strings.Join(lines, "\n") + "\n")}
	}
	return kernel.Open(fstest.MapFS{
		"sys/kernel/btf/vmlinux": {Data: rawTypes(t, types...)},
		"proc/kallsyms": file("ffffffff81000000 T send", "ffffffff81000040 T nothing", "ffffffff81000080 T wide", "ffffffff81000100 T __x64_sys_openat",
			"ffffffff81000140 T after"),
		events + "syscalls/sys_enter_openat/format": file("field:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;",
			"field:int dfd;\toffset:16;\tsize:8;\tsigned:0;", "field:const char * filename;\toffset:24;\tsize:8;\tsigned:0;"),
		events + "sched/sched_switch/format": file("field:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;",
			"field:int next_pid;\toffset:24;\tsize:4;\tsigned:1;", "field:__data_loc char[] name;\toffset:32;\tsize:4;\tsigned:0;"),
	})
}

func rawTypes(t *testing.T, types ...btf.Type) []byte {
	t.Helper()
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Targets of the listings. Ids of BTF are made up.
var (
	kfuncs      = func() codegen.Kfuncs { return codegen.Kfuncs{IsReturn: 101, Cookie: 102, Cast: 103} }
	ofItem      = func(to btf.Type) (btf.TypeID, bool) { return 7, to.TypeName() == "item" }
	plain       = codegen.Options{Arch: "amd64", Kfuncs: kfuncs}
	shared      = codegen.Options{Arch: "amd64", Kfuncs: kfuncs, Shared: true}
	casting     = codegen.Options{Arch: "amd64", Kfuncs: kfuncs, TypeID: ofItem}
	filtered    = codegen.Options{Arch: "amd64", Filtered: true, Limited: true, Stacks: true}
	inNamespace = codegen.Options{Arch: "amd64", Namespace: true}
	arm64       = codegen.Options{Arch: "arm64"}
	guarded     = codegen.Options{Arch: "amd64", Guard: bpf.NewGuard(0)}
	adding      = codegen.Options{Arch: "amd64", Kfuncs: kfuncs, Tables: someTables, Self: 1234, SelfOffset: 1304}
	addingSome  = codegen.Options{Arch: "amd64", Kfuncs: kfuncs, Tables: someTables, Filtered: true}
	addingOnce  = codegen.Options{Arch: "amd64", Kfuncs: kfuncs, Tables: oneTable, Self: 1234, SelfOffset: 1304, Subprograms: []bpf.Subprogram{preemptCount}}
	addingMany  = codegen.Options{Arch: "amd64", Kfuncs: kfuncs, Tables: someTables, Shared: true}
)

// preemptCount stands for what PreemptCount generates.
var preemptCount = bpf.Subprogram{Name: bpf.FuncPreemptCount, Insns: asm.Instructions{asm.FnThisCpuPtr.Call(), asm.LoadMem(asm.R0, asm.R0, 0, asm.Word), asm.Return()}}

// someTables has room for the row of any listing.
var someTables, _ = bpf.NewTables([]bpf.Table{{RowWords: 2000}}, 1, 2, 1<<20)

// oneTable is that of a call that changes one word, on a machine with one CPU.
var oneTable, _ = bpf.NewTables([]bpf.Table{{RowWords: 65, Single: true}}, 1, 1, 1<<20)

// listings are what is listed, by the file in testdata.
var listings = []struct {
	file   string
	spec   string
	method layout.Method // MethodAuto: what the plan takes by itself
	target codegen.Options
}{
	{"fentry-all", "send", layout.MethodFentry, plain},
	{"fentry-argument", "send(count == 1)", layout.MethodFentry, plain},
	{"fentry-members", "send(it->pos > 5, it->flags)", layout.MethodFentry, plain},
	{"fentry-stash", "send(it->flags, return < 0)", layout.MethodFentry, plain},
	{"fentry-filtered", "send(count == 1)", layout.MethodFentry, filtered},
	{"fentry-void", "nothing($duration > 1ms)", layout.MethodFentry, plain},
	{"fentry-int128", "wide(v)", layout.MethodFentry, plain},
	{"fsession-cookie", "send(it->flags, return)", layout.MethodFsession, plain},
	{"fsession-told", "send(it->flags, return < 0)", layout.MethodFsession, plain},
	{"fsession-duration", "send($duration > 1ms)", layout.MethodFsession, plain},
	{"kprobe-members", "send(it->pos > 5, it->flags)", layout.MethodKprobe, plain},
	{"kprobe-cast", "send(it->pos > 5, it->flags)", layout.MethodKprobe, casting},
	{"kprobe-return", "send(return < count)", layout.MethodKprobe, plain},
	{"kprobe-path", "send(path(), return < 0)", layout.MethodKprobe, plain},
	{"kprobe-text", `send(it->name == "eth0")`, layout.MethodKprobe, plain},
	{"kprobe-glob", `send(it->name ~ "*th*")`, layout.MethodKprobe, plain},
	{"kprobe-prefix", `send(str(it->path) ~ "/dev/*")`, layout.MethodKprobe, plain},
	{"kprobe-user", `send(user(it)->pos == 1, ustr(it->path))`, layout.MethodKprobe, plain},
	{"kprobe-context", `send($pid == 1 && $comm == "sh" || $cpu == 2, $uid)`, layout.MethodKprobe, plain},
	{"fentry-task", "send($task->flags == 2, $task)", layout.MethodFentry, plain},
	{"kprobe-namespace", "send($pid == 1)", layout.MethodKprobe, inNamespace},
	{"kprobe-bitfield", "send(it->kind == 3, it->mode)", layout.MethodKprobe, plain},
	{"kprobe-unsigned", "send((it->pos + count) / 3 << it->shift != ~count)", layout.MethodKprobe, plain},
	{"kprobe-signed", "send(-it->half % 7 > -2, !it->pos)", layout.MethodKprobe, plain},
	{"kprobe-int128", "wide(v)", layout.MethodKprobe, plain},
	{"kprobe-arm64", "send(it->pos == 1, return < 0)", layout.MethodKprobe, arm64},
	{"uprobe-return", "uprobe:../internal/livetest/user/testdata/user_amd64:user_add((long)return < 0, *(int *)$arg1)", layout.MethodUprobe, plain},
	{"uprobe-both", "uprobe:../internal/livetest/user/testdata/user_amd64:user_add(*(int *)$arg1, return)", layout.MethodUprobe, plain},
	{"uprobe-both-arm64", "uprobe:../internal/livetest/user/testdata/user_arm64:user_add(*(int *)$arg1, return)", layout.MethodUprobe, arm64},
	{"uprobe-both-shared", "uprobe:../internal/livetest/user/testdata/user_amd64:user_add", layout.MethodUprobe, shared},
	{"kprobe-instruction", "kprobe:send+4($di == 1)", layout.MethodAuto, plain},
	{"kprobe-shared", "send(it)", layout.MethodKprobe, shared},
	{"multi-shared", "send(it->pos, return)", layout.MethodKprobeMulti, shared},
	{"session-shared", "send(return < 0, count)", layout.MethodKprobeSession, shared},
	{"tracing_multi-shared", "send(it->pos == 1, return)", layout.MethodTracingMulti, shared},
	{"tracepoint", `tp:sched:sched_switch(prev_comm == "sh", next_pid, name)`, layout.MethodAuto, plain},
	{"tracepoint-guarded", "tp:sched:sched_switch(next_pid)", layout.MethodAuto, guarded},
	{"session-shared-guarded", "send(return < 0, count)", layout.MethodKprobeSession, codegen.Options{Arch: "arm64", Kfuncs: kfuncs, Shared: true, Guard: bpf.NewGuard(0)}},
	{"tp_btf", "rawtp:task_newtask(it->flags == 3, name)", layout.MethodAuto, plain},
	{"syscall", "syscall:openat(dfd < 0, ustr(filename))", layout.MethodAuto, plain},
	{"fentry-count", "send(count == 1, count())", layout.MethodFentry, adding},
	{"fentry-read-then-count", "send(it->pos == 3, count(), sum(it->pos))", layout.MethodFentry, adding},
	{"fentry-stack", "send(count()[$stack])", layout.MethodFentry, adding},
	{"fentry-stack-filtered", "send(count()[$stack])", layout.MethodFentry, addingSome},
	{"fentry-keys", "send(hist(count)[it->flags, $comm])", layout.MethodFentry, adding},
	{"fentry-hist", "send(hist((signed char)count))", layout.MethodFentry, adding},
	{"fentry-pointer-key", "send(count()[(unsigned long)it->path])", layout.MethodFentry, adding},
	{"fentry-kept-bytes", "send(count()[buf(it->path, 3), return])", layout.MethodFentry, adding},
	{"fentry-duration", "send(return < 0, quantiles($duration), lhist(count, 0, 64, 8))", layout.MethodFentry, adding},
	{"fsession-kept-key", "send(count()[it->flags, return])", layout.MethodFsession, adding},
	{"fsession-duration-hist", "send(hist($duration, 4))", layout.MethodFsession, adding},
	{"fsession-duration-powers", "send(hist($duration))", layout.MethodFsession, addingOnce},
	{"kprobe-stacks", "send(stats(it->pos)[return, $stack, str(it->path)])", layout.MethodKprobe, adding},
	{"multi-top", "send(top(3, count)[$func])", layout.MethodKprobeMulti, addingMany},
	{"in-session-entry", "-e send", layout.MethodFentry, plain},
	{"in-session-function", "-a nothing", layout.MethodFentry, plain},
	{"in-session-fsession", "-a nothing", layout.MethodFsession, plain},
	{"in-session-items", "-a nothing(it->pos == 1)", layout.MethodKprobeSession, shared},
	{"in-session-user", "-a uprobe:../internal/livetest/user/testdata/user_amd64:user_add", layout.MethodUprobe, plain},
	{"in-session-user-items", "-a uprobe:../internal/livetest/user/testdata/user_amd64:user_add(*(int *)$arg1, (long)return < 0)", layout.MethodUprobe, plain},
	{"in-session-user-predicate", "-a uprobe:../internal/livetest/user/testdata/user_amd64:user_add((int)$arg2 < 0)", layout.MethodUprobe, plain},
	{"in-session-injected", "-J kprobe:send+4($di == 1)", layout.MethodAuto, plain},
}

// TestListings shows what changes in generated code. That it is right is for other tests to say: those
// here, and those of internal/exprfuzz, which run it.
func TestListings(t *testing.T) {
	view := listedKernel(t)
	want := map[string]string{}
	for _, l := range listings {
		p, err := listedProbe(view, l.spec, l.method, l.target.Arch)
		if err != nil {
			t.Fatalf("%s: %v", l.file, err)
		}
		programs, err := codegen.Compile(&p.Probe, l.target)
		if err != nil {
			t.Fatalf("%s: %v", l.file, err)
		}
		text := fmt.Appendf(nil, "%s by %s, %s\n", l.spec, p.Method, l.target.Arch)
		if programs.Either != nil {
			text = appendListing(append(text, "\nat both ends: "...), t, *programs.Either)
		}
		for _, f := range programs.Entry {
			text = appendListing(append(text, "\nat entry: "...), t, f)
		}
		for _, f := range programs.Return {
			text = appendListing(append(text, "\nat return: "...), t, f)
		}
		want[l.file+".txt"] = string(text)
	}
	checkGolden(t, "testdata", want)
}

// TestFaultCounted: a predicate that both ends test is counted as a fault at entry only, since
// one call is left out.
func TestFaultCounted(t *testing.T) {
	view := listedKernel(t)
	for _, c := range []struct {
		spec      string
		method    layout.Method
		atEntry   bool
		atReturn  bool
		predicate string
	}{
		{"send(7 / count > 1, it, return)", layout.MethodFentry, true, false, "of both ends"},
		{"send(7 / count > 1, return == 0)", layout.MethodFentry, false, true, "of a call that is one record"},
		{"send(7 / count > 1, it, return)", layout.MethodKprobe, true, false, "of entry, which keeps what came of it"},
		{"send(7 / count > return, it)", layout.MethodFentry, false, true, "that needs the result"},
	} {
		p, err := listedProbe(view, c.spec, c.method, plain.Arch)
		if err != nil {
			t.Fatal(err)
		}
		programs, err := codegen.Compile(&p.Probe, plain)
		if err != nil {
			t.Fatal(err)
		}
		counts := func(functions []bpf.Subprogram) bool {
			return slices.ContainsFunc(functions, func(f bpf.Subprogram) bool {
				return slices.ContainsFunc(f.Insns, func(ins asm.Instruction) bool { return ins.Reference() == bpf.FuncCount })
			})
		}
		if entry, ret := counts(programs.Entry), counts(programs.Return); entry != c.atEntry || ret != c.atReturn {
			t.Errorf("%s by %s, a predicate %s: counted at entry %t, at return %t", c.spec, c.method, c.predicate, entry, ret)
		}
	}
}

// listedProbe is the probe of a SPEC, or of an option's SPEC in a session of send.
func listedProbe(view *kernel.View, text string, m layout.Method, arch string) (*plan.Probe, error) {
	o := plan.Options{Arch: arch, UserFile: userfunc.Opener("", arch)}
	if m != layout.MethodAuto {
		o.Method = func(*plan.Probe) layout.Method { return m }
	}
	option, text, ofSession := strings.Cut(text, " ")
	if !strings.HasPrefix(option, "-") {
		text, ofSession = strings.TrimSpace(option+" "+text), false
	}
	spec, err := expr.Parse(text)
	if err != nil {
		return nil, err
	}
	if !ofSession {
		p, _, err := plan.Resolve(view, []*expr.Spec{spec}, o)
		if err != nil {
			return nil, err
		}
		return p.Probes[0], nil
	}
	entry, err := expr.Parse("send")
	if err != nil {
		return nil, err
	}
	request := plan.SessionRequest{Entry: []*expr.Spec{entry}}
	switch option {
	case "-a", "-A":
		request.Allow, request.Args = []*expr.Spec{spec}, option == "-A"
	case "-J":
		request.Inject = []plan.InjectedSpec{{Spec: spec}}
	}
	s, _, err := plan.ResolveSession(view, request, o)
	if err != nil {
		return nil, err
	}
	return s.Probes[len(s.Probes)-1], nil
}

// checkGolden compares texts with the files of a folder, each of which must be one of them.
func checkGolden(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, ok := want[filepath.Base(file)]; !ok {
			t.Errorf("%s belongs to no listing", file)
		}
	}
	for name, text := range want {
		golden, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(golden), text); d != "" {
			t.Errorf("%s has changed; if that is right, run the test with -update (-golden +now):\n%s", name, d)
		}
	}
}
