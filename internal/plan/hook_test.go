// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/ptregs"
)

// targetKernel is a kernel with a function, a system call, a tracepoint and a
// raw one:
//
//	int send(struct sock *sk, unsigned long count)
//	long __x64_sys_openat(const struct pt_regs *regs)
//	int __traceiter_task_newtask(void *__data, struct sock *sk, const char *name)
func targetKernel(t testing.TB) *kernel.View {
	t.Helper()
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	long := &btf.Int{Name: "long unsigned int", Size: 8}
	sock := &btf.Struct{Name: "sock", Size: 16, Members: []btf.Member{
		{Name: "len", Type: integer}, {Name: "next", Type: &btf.Pointer{Target: &btf.Void{}}, Offset: 64}}}
	regs := &btf.Struct{Name: "pt_regs", Size: 168}
	for i, name := range ptregs.Names("amd64") {
		regs.Members = append(regs.Members, btf.Member{Name: name, Type: long, Offset: btf.Bits(64 * i)})
	}
	function := func(name string, result btf.Type, params ...btf.FuncParam) btf.Type {
		return &btf.Func{Name: name, Type: &btf.FuncProto{Return: result, Params: params}, Linkage: btf.StaticFunc}
	}
	pointer := func(to btf.Type) btf.Type { return &btf.Pointer{Target: to} }
	raw := rawBTF(t,
		function("send", integer, btf.FuncParam{Name: "sk", Type: pointer(sock)}, btf.FuncParam{Name: "count", Type: long}),
		function("__x64_sys_openat", integer, btf.FuncParam{Name: "regs", Type: pointer(&btf.Const{Type: regs})}),
		function("__traceiter_task_newtask", integer, btf.FuncParam{Name: "__data", Type: pointer(&btf.Void{})},
			btf.FuncParam{Name: "sk", Type: pointer(sock)}, btf.FuncParam{Name: "name", Type: pointer(&btf.Const{Type: char})}),
		&btf.Typedef{Name: "umode_t", Type: &btf.Int{Name: "short unsigned int", Size: 2}},
		&btf.Typedef{Name: "pid_t", Type: integer},
	)
	const events = "sys/kernel/tracing/events/"
	file := func(lines ...string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(strings.Join(lines, "\n"))} }
	return kernel.Open(fstest.MapFS{
		"sys/kernel/btf/vmlinux": {Data: raw},
		"proc/kallsyms": file("ffffffff81000000 T send", "ffffffff81000040 T after", "ffffffff81001000 T __x64_sys_openat",
			"ffffffff81002000 T __x64_sys_newuname\n"),
		events + "syscalls/sys_enter_openat/format": file("field:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;",
			"field:int dfd;\toffset:16;\tsize:8;\tsigned:0;", "field:const char * filename;\toffset:24;\tsize:8;\tsigned:0;",
			"field:struct sock * sk;\toffset:32;\tsize:8;\tsigned:0;", "field:umode_t mode;\toffset:40;\tsize:8;\tsigned:0;\n"),
		events + "sched/sched_switch/format": file("field:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;",
			"field:pid_t next_pid;\toffset:24;\tsize:4;\tsigned:1;", "field:unknown_t what;\toffset:28;\tsize:2;\tsigned:1;",
			"field:__data_loc char[] name;\toffset:32;\tsize:4;\tsigned:0;", "field:__rel_loc u8[] bytes;\toffset:36;\tsize:4;\tsigned:0;",
			"field:struct sock * sk;\toffset:40;\tsize:8;\tsigned:0;", "field:long total[2];\toffset:48;\tsize:16;\tsigned:1;\n"),
	})
}

// resolve resolves one SPEC that is good for one probe.
func resolve(t testing.TB, text string) (*Probe, error) {
	t.Helper()
	spec, err := expr.Parse(text)
	if err != nil {
		return nil, err
	}
	p, _, err := Resolve(targetKernel(t), []*expr.Spec{spec}, Options{Arch: "amd64"})
	if err != nil {
		return nil, err
	}
	if len(p.Probes) != 1 {
		t.Fatalf("%s: %d probes", text, len(p.Probes))
	}
	return p.Probes[0], nil
}

// TestTargets tells for each kind of target how it is hooked and what its
// fields are loaded from.
func TestTargets(t *testing.T) {
	for _, c := range []struct{ spec, name, want string }{
		{"syscall:openat(dfd < 0)", "syscall:openat", "fentry: if (*(registers+112:4) < 0); store dfd@0+8"},
		{"syscall:openat(mode, sk->len)", "syscall:openat", "fentry: store mode@0+8, sk->len@8+8"},
		{"syscall:uname($arg1 == 5)", "syscall:newuname", "kprobe: if (*(registers+112:8) == 5); store $arg1@0+8"},
		{"tp:sched:sched_switch(next_pid > 1)", "tp:sched:sched_switch", "tracepoint: if (*(record+24:4) > 1); store next_pid@0+8"},
		{"tp:sched_switch(what < 0)", "tp:sched:sched_switch", "tracepoint: if (*(record+28:2) < 0); store what@0+8"},
		{`tp:sched:sched_switch(prev_comm == "a")`, "tp:sched:sched_switch", `tracepoint: if string at record+8 == "a"; store prev_comm@0+16`},
		{`tp:sched:sched_switch(name ~ "a*")`, "tp:sched:sched_switch", `tracepoint: if string at (record + (*(record+32:4) & 65535))+0 ~ "a*"; store name@0+257`},
		{"tp:sched:sched_switch(bytes)", "tp:sched:sched_switch", "tracepoint: store bytes@0+264"},
		{"tp:sched:sched_switch(total[1] < 0)", "tp:sched:sched_switch", "tracepoint: if (*(record+56:8) < 0); store total[1]@0+8"},
		{"tp:sched:sched_switch(sk->len)", "tp:sched:sched_switch", "tracepoint: store sk->len@0+8"},
		{"rawtp:task_newtask(sk->len == 3)", "rawtp:task_newtask", "tp_btf: if (*(sk+0:4) == 3); store sk->len@0+8"},
		{`rawtp:task_newtask(name == "x")`, "rawtp:task_newtask", `tp_btf: if string at name+0 == "x"; store name@0+8, name@8+257`},
		{"kprobe:send+0x1a($di > 5)", "kprobe:send+0x1a", "kprobe: if (*(record+112:8) > 5); store $di@0+8"},
		{"kprobe:send+26($sp == $bp)", "kprobe:send+0x1a", "kprobe: if (*(record+152:8) == *(record+32:8)); store $sp@0+8, $bp@8+8"},
		{"kprobe:send(count > 5)", "kprobe:send", "kprobe: if (count > 5); store count@0+8"},
	} {
		p, err := resolve(t, c.spec)
		if err != nil {
			t.Errorf("%s:\n%v", c.spec, err)
			continue
		}
		if p.Return != nil || p.Name != c.name {
			t.Errorf("%s: %s, return %v", c.spec, p.Name, p.Return)
		}
		if got := p.Method.String() + ": " + describeEntry(p); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.spec, got, c.want)
		}
	}
}

// describeEntry lists the predicates of a probe's entry and the slots with the
// text that they show.
func describeEntry(p *Probe) string {
	var parts, stores []string
	for _, pred := range p.Entry.Predicates {
		parts = append(parts, "if "+expr.FormatTerm(pred.Term, func(i int) string { return p.Params[i].Name }))
	}
	for _, s := range p.Entry.Stores {
		stores = append(stores, p.Items[s.Item].Captures[s.Capture].Label+"@"+strconv.Itoa(int(s.Off))+"+"+strconv.Itoa(int(s.Size)))
	}
	return strings.Join(append(parts, "store "+strings.Join(stores, ", ")), "; ")
}

func TestTargetSignature(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{"syscall:openat", "dfd filename sk mode return"},
		{"syscall:newuname", "$arg1 $arg2 $arg3 $arg4 $arg5 $arg6 return"},
		{"tp:sched:sched_switch", "prev_comm next_pid what name bytes sk total"},
		{"rawtp:task_newtask", "sk name"},
		{"kprobe:send", "sk count"},
		{"kprobe:send+1", "$r15 $r14 $r13 $r12 $bp $bx $r11 $r10 $r9 $r8 $ax $cx $dx $si $di $ip $flags $sp"},
	} {
		p, err := resolve(t, c.spec)
		if err != nil {
			t.Errorf("%s:\n%v", c.spec, err)
			continue
		}
		var labels []string
		for _, it := range p.Items {
			labels = append(labels, it.Captures[0].Label)
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%s shows %s, want %s", c.spec, got, c.want)
		}
	}
}

// TestUserSpace: the pointers of a system call lead to user space, at every
// level; those of a tracepoint do not.
func TestUserSpace(t *testing.T) {
	for spec, want := range map[string]expr.Space{
		"syscall:openat(sk->len == 1)": expr.User, "syscall:openat(*(int *)sk->next == 1)": expr.User,
		`syscall:openat(filename == "x")`: expr.User, "syscall:openat(dfd == 1)": expr.Kernel,
		"tp:sched:sched_switch(sk->len == 1)": expr.Kernel, "rawtp:task_newtask(sk->len == 1)": expr.Kernel,
	} {
		p, err := resolve(t, spec)
		if err != nil {
			t.Errorf("%s:\n%v", spec, err)
			continue
		}
		var outermost *expr.Space
		expr.Walk(p.Items[0].Predicate, func(t expr.Term) bool {
			switch t := t.(type) {
			case *expr.Load:
				outermost = &t.Space
			case *expr.Match:
				outermost = &t.X.Space
			}
			return outermost == nil
		})
		if outermost == nil || *outermost != want {
			t.Errorf("%s: reads space %v, want %v", spec, outermost, want)
		}
	}
}

func TestTargetFaults(t *testing.T) {
	for spec, want := range map[string]string{
		"syscall:opnat":                      `there is no system call "opnat"; did you mean "openat"?`,
		"tp:sched:sched_swich":               `there is no tracepoint "sched:sched_swich"; did you mean "sched:sched_switch"?`,
		"tp:task:sched_switch":               `did you mean "sched:sched_switch"?`,
		"tp:sched_swich":                     `there is no tracepoint "sched_swich"`,
		"tp:sched":                           `there is no tracepoint "sched"; it is a group: write "tp:sched:*"`,
		"rawtp:task_newtsk":                  `there is no raw tracepoint "task_newtsk"; did you mean "task_newtask"?`,
		"kprobe:send+0x40($ax)":              "there is no instruction 0x40 of send; it has 0x40 bytes",
		"kprobe:send+0x1000($ax)":            "there is no instruction 0x1000 of send; it has 0x40 bytes", // it lies in another function
		"kprobe:send+1(sk)":                  `has no parameter "sk"`,
		"kprobe:send(return)":                "kprobe:send is passed, and does not return",
		"tp:sched:sched_switch(exit(sk))":    "is passed, and does not return",
		"tp:sched:sched_switch(diff(sk))":    "is passed, and does not return",
		"tp:sched:sched_switch($duration>1)": "is passed, and does not return",
		"kprobe:send+1($dj)":                 `did you mean "$dx"?`,
		"kprobe:*+1($di)":                    "4 functions match, but an instruction is in one",
		"send.count":                         `no function is called "send.count"; items stand in parentheses: send(count)`,
		"openat":                             `no function is called "openat"; for the system call write "syscall:openat"`,
		"sys_openat":                         `for the system call write "syscall:openat"`,
		"__arm64_sys_openat(dfd)":            `for the system call write "syscall:openat"`,
		"uname":                              `for the system call write "syscall:uname"`, // newuname, as with syscall:
		"__x64_sys_openat(filename)":         `the function is handed registers; the parameters are those of "syscall:openat(filename)"`,
		" __x64_sys_openat (filename)":       `those of "syscall:openat (filename)"`,
		"*_sys_openat(filename)":             `the function is handed registers; the parameters are those of "syscall:openat"`,
		"__x64_*(filename)":                  `those of "syscall:newuname"`, // the first of them
		"__x64_sys_openat(retrun < 0)":       `did you mean "return"?`,
	} {
		p, err := resolve(t, spec)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, error:\n%v\nwant %s", spec, p, err, want)
		}
	}
}

// TestHookCheck: a recording can speak of hooks that no SPEC leads to.
func TestHookCheck(t *testing.T) {
	view := viewOf(t)
	spec := specs(t, "f")[0]
	void := &btf.Func{Name: "f", Type: &btf.FuncProto{Return: &btf.Void{}}}
	for name, c := range map[string]struct {
		f    kernel.Function
		hook Hook
	}{
		"no such kind":               {kernel.Function{Name: "f"}, Hook{Kind: 77}},
		"a tracepoint without types": {kernel.Function{Name: "f"}, Hook{Kind: expr.RawTracepoint, Name: "f"}},
		"one without its own data":   {kernel.Function{Name: "f", Type: void}, Hook{Kind: expr.RawTracepoint, Name: "f"}},
	} {
		if _, err := newProbeOn(view, spec, c.f, c.hook, Options{Arch: "amd64"}); err == nil {
			t.Errorf("%s: resolved", name)
		}
	}
}
