// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"bytes"
	"embed"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// Each file has the error stack of one case of the workload on one kernel as
// its source says that it must be, with the reasons in front.
//
//go:embed testdata/sessions
var expectedStacks embed.FS

// tracedBPF are the functions that the stacks are about: those that the cases
// fail in, and those that clean up after them. Two exist on 6.12 only; on 6.1
// they are inlined.
var tracedBPF = map[string][]string{
	"6.1": {"map_create", "*_map_alloc_check", "array_map_alloc", "htab_map_alloc", "bpf_map_area_*", "bpf_map_alloc_percpu", "bpf_prog_load", "bpf_prog_alloc",
		"bpf_prog_free", "security_bpf_prog_free", "__bpf_prog_put_noref", "bpf_check", "do_check_common", "*check_reg_arg", "*free_verifier_state"},
	"6.12": {"check_subprogs", "check_alu_op"},
}

// commonRow matches the rows of error stacks that are the same on every kernel.
var commonRow = regexp.MustCompile(`\[-E\w+\] (__sys_bpf|map_create|bpf_prog_load|\w+_map_alloc_check)(\+0x#)?$`)

// common leaves of stacks the rows that every kernel has, without marks: which
// function is on the stack when the failure is seen depends on what is inlined.
func common(stacks string) string {
	var b strings.Builder
	for line := range strings.Lines(stacks) {
		if m := commonRow.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			b.WriteString(strings.TrimSuffix(m[0], m[2]) + "\n")
		}
	}
	return b.String()
}

// errorRow is a row of an error stack: its mark, what stands before the function, and the function.
var errorRow = regexp.MustCompile(`^([! ])(.*\[-E\w+\] )(\w+)(\+0x#)?$`)

// inlined returns the stacks of a build of the kernel in which the compiler has inlined some of
// the functions: the return of the caller stands for that of the innermost function.
func inlined(t *testing.T, stacks string, there func(function string) bool) string {
	t.Helper()
	var out []string
	for line := range strings.SplitSeq(stacks, "\n") {
		m := errorRow.FindStringSubmatch(line)
		if m == nil || there(m[3]) {
			out = append(out, line)
			continue
		}
		above := errorRow.FindStringSubmatch(out[len(out)-1])
		if m[1] != "!" || m[4] != "" || above == nil {
			t.Fatalf("this kernel has no function %s, in the middle of a stack:\n%s", m[3], stacks)
		}
		out[len(out)-1] = "!" + above[2] + above[3]
	}
	return strings.Join(out, "\n")
}

// hasFunction returns what tells whether the kernel has a function: compilers inline others in
// each build.
func hasFunction(t *testing.T) func(string) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) bool { return bytes.Contains(text, []byte(" "+name+"\n")) }
}

func bpfSession(kernel string, there func(string) bool) []string {
	args := []string{"-e", "*sys_bpf", "-s", "none"}
	functions := tracedBPF["6.1"]
	if kernel != "6.1" {
		for _, f := range tracedBPF[kernel] {
			if there(f) {
				functions = append(functions, f)
			}
		}
	}
	for _, f := range functions {
		args = append(args, "-a", f)
	}
	return args
}

var masks = []struct {
	text *regexp.Regexp
	mask string
}{
	{regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{6}`), "HH:MM:SS.uuuuuu"},
	{regexp.MustCompile(`TID/PID \d+/\d+`), "TID/PID #/#"},
	{regexp.MustCompile(`\d+\.\d\d\dus`), "#us"},
	{regexp.MustCompile(`\d+us`), "#us"},
	{regexp.MustCompile(`\+0x[0-9a-f]+`), "+0x#"},
	{regexp.MustCompile(` +`), " "},
}

// masked replaces what differs from run to run, and drops the lines that the
// workload prints.
func masked(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		if !workloadLine.MatchString(line) {
			lines = append(lines, line)
		}
	}
	out = strings.Join(lines, "")
	for _, m := range masks {
		out = m.text.ReplaceAllString(out, m.mask)
	}
	return out
}

var workloadLine = regexp.MustCompile(`^[a-z-]+ count=`)

// TestLiveErrorStacks makes all calls in one run, those that succeed among
// them: to attach takes longer than anything else.
func TestLiveErrorStacks(t *testing.T) {
	guest.Require(t)
	kernel, reduce := guest.Kernel(), func(s string) string { return s }
	if _, err := fs.Stat(expectedStacks, path.Join("testdata/sessions", kernel)); err != nil {
		kernel, reduce = "6.1", common // nobody has worked out from its source what it does
	}
	folder := path.Join("testdata/sessions", kernel)
	files, err := fs.ReadDir(expectedStacks, folder)
	if err != nil {
		t.Fatal(err)
	}
	var want, script strings.Builder
	script.WriteString("workload map-ok; workload prog-ok\n")
	for _, file := range files {
		text, err := fs.ReadFile(expectedStacks, path.Join(folder, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		_, stack, ok := strings.Cut(string(text), "\n\n")
		if !ok {
			t.Fatalf("%s: no reasons", file.Name())
		}
		want.WriteString(strings.ReplaceAll(stack, "__x64_sys_", sys))
		script.WriteString("workload " + strings.TrimSuffix(file.Name(), ".txt") + "; workload map-ok\n")
	}
	if len(files) < 10 {
		t.Errorf("%d cases", len(files))
	}
	// The verifier gives up with EAGAIN when a signal is pending, as Go's runtime
	// sends them to itself on a slow machine.
	t.Setenv("GODEBUG", "asyncpreemptoff=1")
	there := hasFunction(t)
	args := append(bpfSession(kernel, there), "--", "sh", "-c", script.String()+"exit 0")
	if d := cmp.Diff(reduce(inlined(t, want.String(), there)), reduce(masked(traced(t, args...)))); d != "" {
		t.Errorf("stacks:\n%s", d)
	}
}

// TestLiveOwnCalls: what the kernel skips because ksnoop itself makes a system call
// is no loss, be it every function that serves such calls that is traced.
func TestLiveOwnCalls(t *testing.T) {
	guest.Require(t)
	for _, attach := range []string{"multi", "session"} {
		if slices.Contains(attachMethods(), attach) {
			traced(t, "--attach="+attach, "-s", "none", "-e", "*sys_bpf", "-a", "*bpf*", "--", "true")
		}
	}
}

// TestLiveSessionValues shows the arguments of the call that fails.
func TestLiveSessionValues(t *testing.T) {
	guest.Require(t)
	spec := "array_map_alloc_check(attr->max_entries, (enum bpf_map_type)attr->map_type)"
	out := masked(traced(t, "-s", "none", "-T", "-e", "__sys_bpf", spec, "--", "workload", "map-array-zero"))
	for _, want := range []string{
		"! #us [-EINVAL] array_map_alloc_check attr->max_entries = 0, (enum bpf_map_type)attr->map_type = BPF_MAP_TYPE_ARRAY\n",
		" ↔ array_map_alloc_check [-EINVAL] #us attr->max_entries = 0, (enum bpf_map_type)attr->map_type = BPF_MAP_TYPE_ARRAY\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// TestLiveInterruptSessions: what is sent over loopback is received by an interrupt on
// the sender's back, which has sessions of its own and says so.
func TestLiveInterruptSessions(t *testing.T) {
	guest.Require(t)
	methods(t, func(t *testing.T, attach string) {
		for _, c := range []struct {
			options      []string
			own, threads int
		}{{nil, 3, 3}, {[]string{"--no-irq"}, 0, 3}} {
			args := append([]string{"trace", attach, "-S", "-e", "ip_rcv", "-a", "ip_local_deliver", "-e", "__sys_sendto"}, c.options...)
			out, errs, status := ksnoop(t, append(args, "--", "workload", "udp-send", "-size", "56", "-count", "3")...)
			sessions := regexp.MustCompile(`(?m)TID/PID \d+/\d+ \(workload/workload\):( in an interrupt)?$([^/!]*)! [^/!\]]*\]\s+(ip_rcv|__sys_sendto)\b`).FindAllStringSubmatch(out, -1)
			own, threads := 0, 0
			for _, m := range sessions {
				switch {
				case m[1] != "" && m[3] == "ip_rcv" && strings.Contains(m[2], " __sys_sendto+"): // which it has interrupted
					own++
				case m[1] == "" && m[3] == "__sys_sendto":
					threads++
				default:
					t.Errorf("%s %q: %q", attach, c.options, m)
				}
			}
			if own != c.own || threads != c.threads || status != 0 {
				t.Errorf("%s %q: %d sessions of interrupts, %d of the thread, want %d and %d; status %d:\n%s%s", attach, c.options, own, threads, c.own, c.threads, status, out, errs)
			}
		}
	})
}
