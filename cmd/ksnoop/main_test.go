// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/livetest"
)

// needBTF skips a test that needs some kernel's types where there are none.
func needBTF(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		t.Skipf("needs BTF of the running kernel: %v", err)
	}
}

// ran runs the command line in this process.
func ran(args ...string) (stdout, stderr string, status int) {
	var out, errs bytes.Buffer
	status = run(args, &out, &errs)
	return out.String(), errs.String(), status
}

// TestMessages: each error that is joined to others is a message of its own. Faults of SPECs are one, and so is a text of several lines.
func TestMessages(t *testing.T) {
	one, two := errors.New("one"), errors.New("two\n  lines")
	_, fault := expr.Parse("f(")
	for _, tt := range []struct {
		err  error
		want []string
	}{
		{one, []string{"one"}},
		{two, []string{"two\n  lines"}},
		{errors.Join(one, nil), []string{"one"}},
		{troubleError{errors.Join(one, errors.Join(two, one))}, []string{"one", "two\n  lines", "one"}},
		{fmt.Errorf("file: %w", errors.Join(one, two)), []string{"file: one\ntwo\n  lines"}},
		{fmt.Errorf("%w, %w", one, one), []string{"one, one"}},
		{fault, []string{"a fault in the SPEC\n" + fault.Error()}},
	} {
		if got := messages(tt.err); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.err, got, tt.want)
		}
	}
}

// TestBadInput has what people mistype. All of it must end with status 2, one
// message and nothing on stdout.
func TestBadInput(t *testing.T) {
	needBTF(t)
	garbage := strings.Repeat("\x1b[31m\xff(,=)\x00", 100_000/11)
	for _, c := range []struct {
		name string
		args []string
		want []string // all of them on stderr
	}{
		{"no SPEC", []string{"trace"}, []string{"no SPEC given"}},
		{"no SPEC, no command", nil, []string{"no SPEC given"}},
		{"empty SPEC", []string{""}, []string{"^", "a SPEC begins with a function"}},
		{"unknown function", []string{"ip_send_sbk"}, []string{"  ip_send_sbk\n  ^~~~", `"ip_send_skb"`}},
		{"unknown parameter", []string{"vfs_read(cuont == 3)"}, []string{"  vfs_read(cuont == 3)\n           ^~~~~\n", "column 10", `did you mean "count"?`}},
		{"unknown member", []string{"ip_send_skb(skb->lenn == 84)"}, []string{"\n                   ^~~~\n", `did you mean "len"?`}},
		{"member of a number", []string{"vfs_read(count->x)"}, []string{"\n           ^~~~~\n", "size_t is not a pointer to a struct"}},
		{"dot for arrow", []string{"vfs_read(file.f_flags)"}, []string{`write "->"`}},
		{"assignment", []string{"vfs_read(count = 3)"}, []string{"\n                 ^\n", `write "=="`}},
		{"open parenthesis", []string{"vfs_read(count"}, []string{`a closing ")" is missing`}},
		{"trailing text", []string{"vfs_read(count) x"}, []string{`nothing may follow`}},
		{"two faults", []string{"vfs_read(cuont, file->f_flagz)"}, []string{"2 faults", `"count"`, `"f_flags"`}},
		{"faults in two SPECs", []string{"vfs_read(cuont)", "vfs_write(", "nosuchfunction_at_all"}, []string{"3 faults", `"count"`, "column 11", "nosuchfunction_at_all"}},
		{"result of nothing", []string{"kfree(return)"}, []string{"returns nothing"}},
		{"garbage", []string{garbage}, []string{"the limit is 8192", "^"}},
		{"parentheses", []string{"vfs_read(" + strings.Repeat("(", 100_000)}, []string{"the limit is 8192"}},
		{"parentheses below the limit", []string{"vfs_read(" + strings.Repeat("(", 8000)}, []string{"nested more than 64 deep"}},
		{"unary below the limit", []string{"vfs_read(" + strings.Repeat("!", 8000)}, []string{"nested more than 64 deep"}},
		{"unknown flag", []string{"trace", "--nope", "vfs_read"}, []string{"there is no option --nope"}},
		{"flag that is no number", []string{"-p", "abc", "vfs_read"}, []string{"-p", "abc"}},
		{"ring buffer of no size", []string{"--ringbuf", "3M", "vfs_read"}, []string{"power of two"}},
		{"ring buffer", []string{"--ringbuf", "lots", "vfs_read"}, []string{"write 512K or 4M"}},
		{"no user", []string{"--uid", "", "vfs_read"}, []string{"--uid is given an empty word"}},
		{"no control group", []string{"--cgroup=", "vfs_read"}, []string{"--cgroup is given an empty word"}},
		{"no kind of dry run", []string{"--dry-run=", "vfs_read"}, []string{"--dry-run is given an empty word"}},
		{"no error", []string{"-e", "vfs_read", "-x", ""}, []string{"-x is given an empty word"}},
		{"no function to deny", []string{"-d", "", "vfs_read"}, []string{"  \n  ^\n  column 1: "}},
		{"method", []string{"--attach", "magic", "vfs_read"}, []string{"auto, fentry, fsession, kprobe, multi, session and tracing_multi"}},
		{"deny with items", []string{"-d", "vfs_write()", "vfs_read"}, []string{"a selector takes no items"}},
		{"all denied", []string{"-d", "vfs_*", "vfs_read"}, []string{"denied"}},
		{"deny of nothing", []string{"-d", "vfs_raed", "vfs_read"}, []string{"  vfs_raed\n  ^~~~", `did you mean "vfs_read" or`}},
		{"one dash", []string{"-dry-run", "--for", "2s", "vfs_read"}, []string{"did you mean --dry-run?", `no function matches "ry-run"`}},
		{"session option without a session", []string{"-T", "vfs_read"}, []string{"-T goes with -e"}},
		{"allow without entry", []string{"-a", "vfs_write"}, []string{"-a goes with -e"}},
		{"option that is not for sessions", []string{"-e", "vfs_read", "--join"}, []string{"--join does not go with sessions"}},
		{"room for calls beside sessions", []string{"-e", "vfs_read", "--in-flight", "5"}, []string{"--in-flight does not go with sessions"}},
		{"stack of the process, and a format that does not show it", []string{"-e", "vfs_read", "--ustack", "--format", "folded"}, []string{"--ustack does not go with sessions", "and --format folded", "text and --format json", "--record"}},
		{"copy of the stack, and a format that does not show it", []string{"-c", "fs", "--ustack=dwarf", "--format", "pprof", "-o", "/does/not/exist"}, []string{"--ustack does not go with sessions", "and --format pprof"}},
		{"stack of the process, and a picture", []string{"-e", "vfs_read", "--ustack", "--format", "perfetto", "-o", "/does/not/exist"}, []string{"--ustack does not go with sessions", "and --format perfetto"}},
		{"stack of the process, and a collector", []string{"-e", "vfs_read", "--ustack", "--otlp", "http://localhost:4318"}, []string{"--ustack does not go with sessions", "and --otlp"}},
		{"stack of the process, and sums", []string{"-e", "vfs_read", "--ustack", "--summary", "--format", "json"}, []string{"--ustack does not go with sessions", "and --summary"}},
		{"stack of the process, and no stacks", []string{"-e", "vfs_read", "-T", "--ustack", "--no-stack"}, []string{"--no-stack leaves out what --ustack is about"}},
		{"live without trace", []string{"-e", "vfs_read", "--live"}, []string{"--live goes with -T"}},
		{"entry of nothing", []string{"-e", "vfs_raed"}, []string{"  vfs_raed\n  ^~~~", `"vfs_read"`}},
		{"faults in -e, -a and a SPEC", []string{"-e", "vfs_read(", "-a", "vfs_write(", "vfs_open(=)"}, []string{"3 faults"}},
		{"two SPECs for one function", []string{"-e", "vfs_read(count)", "vfs_read(pos)"}, []string{"put all of them into one SPEC"}},
		{"error that is none", []string{"-e", "vfs_read", "-x", "EFOO"}, []string{"-x EFOO", "EINVAL"}},
		{"time that is none", []string{"-e", "vfs_read", "-L", "soon"}, []string{"10ms"}},
		{"form that is none", []string{"-e", "vfs_read", "--args", "tiny"}, []string{"compact, multiline and verbose"}},
		{"width that is none", []string{"-e", "vfs_read", "--args-width", "5"}, []string{"10 to 1048576 columns"}},
		{"nothing but a header", []string{"-e", "vfs_read", "--no-stack"}, []string{"--no-stack goes with -T or --lbr"}},
		{"no stack, and all of it", []string{"-e", "vfs_read", "-T", "--no-stack", "--full-stacks"}, []string{"--no-stack leaves out what --full-stacks is about"}},
		{"width beside calls", []string{"--args-width", "80", "vfs_read"}, []string{"--args-width goes with -e"}},
		{"preset that is none", []string{"-c", "bfp"}, []string{"bpf, perf, net, fs, mm"}},
		{"list that is none", []string{"-e", "@/does/not/exist"}, []string{"reading a list of SPECs"}},
		{"no command", []string{"vfs_read", "--"}, []string{"no command after --"}},
		{"fentry by types of a file", []string{"--btf", "vmlinux", "--attach", "fentry", "vfs_read"}, []string{"the kernel finds by its own BTF what fentry attaches to"}},
		{"kprobe.session by types of a file", []string{"--btf", "vmlinux", "--attach", "session", "vfs_read"}, []string{"There are kprobe and multi"}},
		{"interrupts by types of a file", []string{"--btf", "vmlinux", "--no-irq", "vfs_read"}, []string{"--no-irq does not go with --btf"}},
		{"sessions by types of a file", []string{"--btf", "vmlinux", "-e", "vfs_read"}, []string{"-e does not go with --btf", "by its own BTF"}},
		{"info without pattern", []string{"info"}, []string{"no PATTERN given"}},
		{"info of nothing", []string{"info", "ip_send_sbk"}, []string{"ip_send_skb"}},
		{"type of nothing", []string{"info", "--types", "struct sk_bufff"}, []string{"no type"}},
		{"type of another kind", []string{"info", "--types", "union sk_buff"}, []string{`there is "struct sk_buff"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			stdout, stderr, status := ran(c.args...)
			if status != exitUsage || stdout != "" {
				t.Errorf("status %d, want %d; stdout %q", status, exitUsage, stdout)
			}
			if !strings.HasPrefix(stderr, "ksnoop: ") || strings.Contains(stderr, "goroutine ") || strings.ContainsAny(stderr, "\x1b\x00") {
				t.Errorf("not a clear message:\n%q", stderr)
			}
			if len(stderr) > 2000 || time.Since(begin) > livetest.Patience(30*time.Second) {
				t.Errorf("%d bytes in %v", len(stderr), time.Since(begin))
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("no %q in:\n%s", want, stderr)
				}
			}
		})
	}
}

// typesFile writes the types of a kernel:
//
//	ssize_t vfs_read(struct file *file, char *buf, size_t count)
//	ssize_t vfs_write(struct file *file)
//	long __x64_sys_openat(const struct pt_regs *regs)
func typesFile(t *testing.T) string {
	t.Helper()
	signed := &btf.Typedef{Name: "ssize_t", Type: &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}}
	size := &btf.Typedef{Name: "size_t", Type: &btf.Int{Name: "long unsigned int", Size: 8}}
	file := &btf.Pointer{Target: &btf.Struct{Name: "file", Size: 8, Members: []btf.Member{{Name: "f_flags", Type: &btf.Int{Name: "unsigned int", Size: 4}}}}}
	char := &btf.Pointer{Target: &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}}
	regs := &btf.Pointer{Target: &btf.Struct{Name: "pt_regs", Size: 8, Members: []btf.Member{{Name: "di", Type: size}}}}
	// By such a name, of which libraries take the end for a CO-RE flavour, no trampoline is found.
	types := []btf.Type{&btf.Func{Name: "flavoured___two", Type: &btf.FuncProto{Return: signed}, Linkage: btf.StaticFunc}}
	for name, params := range map[string][]btf.FuncParam{
		"vfs_read":            {{Name: "file", Type: file}, {Name: "buf", Type: char}, {Name: "count", Type: size}},
		"vfs_write":           {{Name: "file", Type: file}},
		"__x64_sys_openat":    {{Name: "regs", Type: regs}},
		"__arm64_sys_openat":  {{Name: "regs", Type: regs}},
		"bpf_ringbuf_discard": {{Name: "file", Type: file}},
	} {
		types = append(types, &btf.Func{Name: name, Type: &btf.FuncProto{Return: signed, Params: params}, Linkage: btf.StaticFunc})
	}
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "vmlinux")
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestBadSpec has what people got wrong in SPECs, by the types of a file: as
// anyone, on any kernel.
func TestBadSpec(t *testing.T) {
	types := typesFile(t)
	for _, c := range []struct{ spec, want string }{
		{"openat", "  openat\n  ^~~~~~\n  column 1: no function is called \"openat\"; for the system call write \"syscall:openat\"\n"},
		{"vfs_read(retval < 0)", `did you mean "return"?`},
		{"vfs_read(comm == \"sh\")", `did you mean "$comm"?`},
		{"vfs_[rw]ead", `column 1: brackets hold the name of a module`},
		{"vfs_read(count == 089)", "                    ^~~\n  column 19: "},
		{"vfs_read count > 3", "           ^~~~~\n  column 10: unexpected \"count\"; items stand in parentheses: vfs_read(count > 3)\n"},
		{"vfs_read(" + strings.Repeat("buf(buf, 4096), ", 7) + "buf(buf, 4096))", "larger than the limit of 31744"},
	} {
		for _, how := range []string{"--explain", "--dry-run"} {
			stdout, stderr, status := ran(how, "--btf", types, c.spec)
			if status != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "ksnoop: a fault in the SPEC\n") || !strings.Contains(stderr, c.want) {
				t.Errorf("%s %s: status %d, stdout %q:\n%s", how, c.spec, status, stdout, stderr)
			}
		}
	}
}

// TestNearestCommand: what is no command is a SPEC, and hardly meant as one.
func TestNearestCommand(t *testing.T) {
	types := typesFile(t)
	for _, c := range []struct {
		args []string
		want string // at the begin of the message, or at its end
	}{
		{[]string{"trcae", "--explain", "--btf", types, "vfs_read"}, "ksnoop: did you mean the command \"trace\"? There is none called \"trcae\", so that it was taken for a SPEC:\n"},
		{[]string{"doctro", "--explain", "--btf", types}, "ksnoop: did you mean the command \"doctor\"? There is none called \"doctro\", so that it was taken for a SPEC:\n"},
		{[]string{"replya", "--explain", "--btf", types}, "ksnoop: did you mean the command \"replay\"? There is none called \"replya\", so that it was taken for a SPEC:\n"},
		{[]string{"trace", "trcae", "--explain", "--btf", types}, "no function is called \"trcae\"\n"},
		{[]string{"kfree", "--explain", "--btf", types}, "no function is called \"kfree\"\n"},
		{[]string{"record", "vfs_read", "--explain", "--btf", types}, "ksnoop: there is no command \"record\": to record what is traced, write ksnoop trace --record FILE SPEC\n"},
		{[]string{"version", "--explain", "--btf", types}, "ksnoop: there is no command \"version\": for the version write ksnoop --version\n"},
		{[]string{"", "--explain", "--btf", types}, "a SPEC begins with a function, as in \"vfs_read(count > 4096)\"\n"},
		{[]string{"help", "nosuch"}, "sessions, sym, trace, view, why\n"},
		{[]string{"help", "pritn"}, "ksnoop: there is no command or page \"pritn\"; did you mean \"print\"?\n"},
		{[]string{"help", "langage"}, "did you mean \"language\"?\n"},
		{[]string{"-version", "--explain", "--btf", types}, "ksnoop: did you mean --version? With one dash, each letter is an option:\n"},
		{[]string{"trace", "-pid", "3", "vfs_read", "--explain", "--btf", types}, "ksnoop: did you mean --pid? With one dash, each letter is an option:\n"},
		{[]string{"info", "--btf", types, "struct file"}, "for a type write: ksnoop info --types 'struct file'\n"},
		{[]string{"info", "--btf", types, "--types", "struct fiel"}, "did you mean \"struct file\"?\n"},
		{[]string{"trace", "--explain", "--btf", types, "vfs_read((struct fiel *)buf)"}, "did you mean \"struct file\"?\n"},
		{[]string{"info", "--btf", types, "file"}, "none is called \"file\"; for the type write: ksnoop info --types 'struct file'\n"},
		{[]string{"vfs_read,vfs_write", "--explain", "--btf", types}, "each SPEC is an argument of its own: write vfs_read vfs_write\n"},
		{[]string{"tp:sched/sched_switch", "--explain", "--btf", types}, "write \"tp:sched:sched_switch\"\n"},
		{[]string{"replay", ""}, "ksnoop: replay is given an empty word; leave it out, or write the name of a FILE or a SPEC\n"},
		{[]string{"print", "--btf", types, ""}, "ksnoop: \"\" cannot be the name of a type, which looks like 'struct sock' or pid_t\n"},
		{[]string{"print", "--btf", types, "\x1b[31mx"}, "ksnoop: \"\\x1b[31mx\" cannot be the name of a type, which looks like 'struct sock' or pid_t\n"},
		{[]string{"agent", "x"}, "ksnoop: agent takes no arguments, and here is \"x\": the requests stand in the file of --config\n"},
		{[]string{"doctor", "x"}, "ksnoop: doctor takes no arguments: \"x\"\n"},
	} {
		stdout, stderr, status := ran(c.args...)
		if status != exitUsage || stdout != "" || !strings.HasSuffix(stderr, c.want) && !strings.HasPrefix(stderr, c.want) {
			t.Errorf("%q: status %d, stdout %q:\n%s", c.args, status, stdout, stderr)
		}
	}
	for _, args := range [][]string{{"help"}, {"help", "trace"}, {"help", "help"}} {
		if stdout, stderr, status := ran(args...); status != 0 || stderr != "" || !strings.Contains(stdout, "Usage:") {
			t.Errorf("%q: status %d, %q", args, status, stderr)
		}
	}
}

// TestDoubtfulSpec is about what is traced and hardly meant.
func TestDoubtfulSpec(t *testing.T) {
	types := typesFile(t)
	for _, c := range []struct{ spec, want string }{
		{"vfs_read(file->f_flags & 4 == 4)", "           ^~~~~~~~~~~~~~~~~~~~~~\n  column 10: == binds before &"},
		{"vfs_read(count < 0)", "           ^~~~~~~~~\n  column 10: this never holds"},
		{"vfs_read(return == EINVAL)", "                     ^~~~~~\n  column 20: functions return errors as negative numbers"},
		{"vfs_read(return < 0)", ""},
	} {
		stdout, stderr, status := ran("--explain", "--btf", types, c.spec)
		if status != 0 || stdout == "" || (stderr == "") != (c.want == "") || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d:\n%s", c.spec, status, stderr)
		}
	}
}

// TestDoubtfulComm: ps puts the names of kernel threads in brackets, the kernel does
// not. It cuts names to TASK_COMM_LEN, which is 16, with the NUL at their end.
func TestDoubtfulComm(t *testing.T) {
	types := typesFile(t)
	for _, c := range []struct{ flag, glob, want string }{
		{"-n", "nginx[0-9]", "ksnoop: -n nginx[0-9] matches names with the character [ in them"},
		{"-N", "[kworker]", "ksnoop: -N [kworker] matches names with the character [ in them"},
		{"-n", "nginx*", ""},
		{"-n", "systemd-resolved", "ksnoop: -n systemd-resolved matches tasks called systemd-resolve: the kernel keeps 15 bytes of a task's name\n"},
		{"-N", "systemd-resolve", ""},
		{"-n", "systemd-resolve*", ""},
		{"-n", "systemd-resolve*d", "ksnoop: -n systemd-resolve*d matches tasks called systemd-resolve: "},
		{"-n", "systemd-resolved*", "ksnoop: -n systemd-resolved* matches tasks called systemd-resolve: "},
	} {
		_, stderr, status := ran("--explain", "--btf", types, c.flag, c.glob, "vfs_read")
		if status != 0 || !strings.HasPrefix(stderr, c.want) || (stderr == "") != (c.want == "") {
			t.Errorf("%s %s: status %d, %q", c.flag, c.glob, status, stderr)
		}
	}
}

// TestUnmatchedAllow: one -a of several may match nothing, all of them may not.
func TestUnmatchedAllow(t *testing.T) {
	types := typesFile(t)
	stdout, stderr, status := ran("--dry-run", "--btf", types, "-e", "vfs_read", "-a", "nosuch*", "-a", "vfs_write")
	if want := "ksnoop: nothing is recorded for one SPEC\n  nosuch*\n  ^~~~~~~\n"; status != 0 || !strings.HasPrefix(stderr, want) || !strings.Contains(stdout, "recorded in it (1):\n  vfs_write\n") {
		t.Errorf("status %d, stderr:\n%s\nstdout:\n%s", status, stderr, stdout)
	}
	if stdout, stderr, status = ran("--dry-run", "--btf", types, "-e", "vfs_read", "-a", "nosuch*", "-a", "nothing"); status != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "ksnoop: 2 faults") {
		t.Errorf("status %d, stderr:\n%s\nstdout:\n%s", status, stderr, stdout)
	}
}

// TestInfoSpelling: types have C's spellings, as in SPECs.
func TestInfoSpelling(t *testing.T) {
	types := typesFile(t)
	for _, spelling := range []string{"unsigned long", "unsigned long int", "long unsigned int", "const unsigned long"} {
		stdout, stderr, status := ran("info", "--btf", types, "--types", spelling)
		if status != 0 || stderr != "" || !strings.Contains(stdout, "long unsigned int") {
			t.Errorf("%s: status %d, %q, %s", spelling, status, stdout, stderr)
		}
	}
}

func TestInfo(t *testing.T) {
	needBTF(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"info", "ip_send_skb"}, []string{"int ip_send_skb(struct net * net, struct sk_buff * skb);\n"}},
		{[]string{"info", "vfs_write"}, []string{"const char * buf", "size_t count"}},
		{[]string{"info", "_printk"}, []string{"const char * fmt, ...);"}},
		{[]string{"info", "ip_append_data"}, []string{"int (*getfrag)(", "unsigned int flags);"}}, // ten parameters
		{[]string{"info", "--types", "struct list_head"}, []string{"struct list_head {", "next;", "/* size: 16,"}},
		{[]string{"info", "-l", "vfs_read"}, []string{"struct file {", "f_flags;"}},
		{[]string{"info", "--btf", "/sys/kernel/btf/vmlinux", "ip_send_sk*"}, []string{"int ip_send_skb(struct net * net, struct sk_buff * skb);\n"}},
		{[]string{"--version"}, []string{"ksnoop "}},
		{[]string{"--help"}, []string{"ksnoop trace ip_send_skb", "Usage:"}},
	} {
		stdout, stderr, status := ran(c.args...)
		if status != 0 || stderr != "" {
			t.Errorf("%q: status %d: %s", c.args, status, stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("%q: no %q in:\n%.2000s", c.args, want, stdout)
			}
		}
	}
}

// TestExplain makes sure that what is explained is what the SPEC says, and
// that nothing is needed for it but types.
func TestExplain(t *testing.T) {
	needBTF(t)
	stdout, stderr, status := ran("trace", "--explain", "--btf", "/sys/kernel/btf/vmlinux", "vfs_read(count == 12345, file->f_flags, return < 0)")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	for _, want := range []string{
		"one record for a call, stashed at entry and sent at return",
		"entry   must hold: count == 12345", "return  must hold: return < 0",
		"; count == 12345\n", " if r0 != 0x3039 goto .entry_drop1\n", "; return < 0\n", " call ks_open_far\n", " call ks_find_far\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
}

// Whatever a message quotes, nothing of it acts on the terminal.
func TestMessagesAreText(t *testing.T) {
	for _, args := range [][]string{
		{"replay", "\x1b]0;owned\x07\u009b31m\u202e\xff"},
		{"sym", "-e", "\x1b]0;owned\x07\u009b31m\u202e\xff"},
		{"print", "--btf", "\x1b]0;owned\x07\u009b31m\u202e\xff", "int"},
	} {
		stdout, stderr, status := ran(args...)
		if want := `\x1b]0;owned\x07\xc2\x9b31m\xe2\x80\xae\xff: no such file`; stdout != "" || status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, stderr %q, want %s in it", args, status, stderr, want)
		}
	}
}
