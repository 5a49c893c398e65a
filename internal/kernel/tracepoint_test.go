// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// eventKernel is a kernel with some tracepoints and system calls.
func eventKernel(t testing.TB, tracefs string) *View {
	t.Helper()
	files := fakeKernel(t, "")
	for event, field := range map[string]string{
		"sched/sched_switch":          "field:pid_t next_pid;\toffset:8;\tsize:4;\tsigned:1;",
		"sched/sched_wakeup":          "field:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;",
		"task/task_rename":            "field:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;",
		"syscalls/sys_enter_openat":   "field:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:__data_loc char[] __filename_val;\toffset:24;\tsize:4;\tsigned:0;",
		"syscalls/sys_enter_getppid":  "",
		"syscalls/sys_enter_newuname": "field:struct new_utsname * name;\toffset:16;\tsize:8;\tsigned:0;",
	} {
		files[tracefs+"/events/"+event+"/format"] = &fstest.MapFile{Data: []byte("\t" + field + "\n")}
	}
	files[tracefs+"/events/sched/filter"] = &fstest.MapFile{}
	files[tracefs+"/events/enable"] = &fstest.MapFile{}
	files[kallsymsFile].Data = append(files[kallsymsFile].Data, `ffffffff81001000 T __x64_sys_openat
ffffffff81001100 t __do_sys_getppid
ffffffff81001100 T __ia32_sys_getppid
ffffffff81001100 T __x64_sys_getppid
ffffffff81001200 T __x64_sys_newuname
ffffffff81001300 T __x64_sys_ni_syscall
ffffffff81001400 T __x64_sys_hidden
ffffffff81001500 t __do_sys_openat
ffffffff81001600 T __arm64_sys_getppid
`...)
	return Open(files)
}

func TestTracepoints(t *testing.T) {
	for _, mount := range []string{tracefs, tracefsOld} {
		v := eventKernel(t, mount)
		for _, test := range []struct{ system, name, want string }{
			{"sched", "sched_switch", "sched:sched_switch(pid_t next_pid)"},
			{"sched", "sched_*", "sched:sched_switch(pid_t next_pid) sched:sched_wakeup(pid_t pid)"},
			{"*", "*_*n*", "syscalls:sys_enter_getppid() syscalls:sys_enter_newuname(struct new_utsname *name) syscalls:sys_enter_openat(int dfd, char __filename_val[]) task:task_rename(pid_t pid)"},
			{"*", "task_rename", "task:task_rename(pid_t pid)"},
			{"s?hed", "task_*", ""},
		} {
			points, err := v.Tracepoints(test.system, test.name)
			var got []string
			for _, p := range points {
				got = append(got, p.System+":"+p.Name+"("+fieldList(p.Fields)+")")
			}
			if strings.Join(got, " ") != test.want || err != nil {
				t.Errorf("%s: %s:%s: %v, %v, want %s", mount, test.system, test.name, got, err, test.want)
			}
		}
		if n := len(v.TracepointNames()); n != 6 {
			t.Errorf("%d names, want 6", n)
		}
	}
	_, err := Open(fakeKernel(t, "")).Tracepoints("*", "sched_switch")
	var access *accessError
	if !errors.As(err, &access) || access.Need != mountTracefs || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without tracefs: %v", err)
	}
}

func fieldList(fields []Field) string {
	var out []string
	for _, f := range fields {
		out = append(out, f.String())
	}
	return strings.Join(out, ", ")
}

func TestSyscalls(t *testing.T) {
	v := eventKernel(t, tracefs)
	for _, test := range []struct{ glob, want string }{
		{"openat", "openat=__x64_sys_openat@1000(int dfd)"},
		{"*p*", "getppid=__x64_sys_getppid@1100() openat=__x64_sys_openat@1000(int dfd)"},
		{"hidden", "hidden=__x64_sys_hidden@1400?"},
		{"ni_syscall", ""},
		{"open", ""},
	} {
		calls, err := v.Syscalls(test.glob, "amd64")
		var got []string
		for _, c := range calls {
			text := c.Name + "=" + list([]Function{c.Func})
			if c.Params == nil {
				text += "?"
			} else {
				text += "(" + fieldList(c.Params) + ")"
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != test.want || err != nil {
			t.Errorf("%s: %v, %v, want %s", test.glob, got, err, test.want)
		}
	}
	if calls, err := v.Syscalls("*", "riscv64"); err == nil {
		t.Errorf("riscv64: %v", calls)
	}
}

// TestSyscallParamsAt: a system call without parameters is told from one whose parameters are not known, whichever of
// its function's names comes first.
func TestSyscallParamsAt(t *testing.T) {
	v := eventKernel(t, tracefs)
	for _, test := range []struct {
		arch string
		addr uint64
		want string
	}{
		{"amd64", 0xffffffff81001100, "()"}, {"amd64", 0xffffffff81001000, "(int dfd)"}, {"amd64", 0xffffffff81001400, "?"}, {"amd64", 0xffffffff81001500, "?"},
		{"amd64", 0xffffffff81001104, "?"}, {"arm64", 0xffffffff81001600, "()"}, {"arm64", 0xffffffff81001100, "?"},
	} {
		got := "?"
		if params := v.SyscallParamsAt(test.addr, test.arch); params != nil {
			got = "(" + fieldList(params) + ")"
		}
		if got != test.want {
			t.Errorf("%s, %#x: %s, want %s", test.arch, test.addr, got, test.want)
		}
	}
}
