// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
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
		{"unknown flag", []string{"trace", "--nope", "vfs_read"}, []string{"unknown flag: --nope"}},
		{"flag that is no number", []string{"-p", "abc", "vfs_read"}, []string{"-p", "abc"}},
		{"ring buffer of no size", []string{"--ringbuf", "3M", "vfs_read"}, []string{"power of two"}},
		{"ring buffer", []string{"--ringbuf", "lots", "vfs_read"}, []string{"write 512K or 4M"}},
		{"method", []string{"--attach", "magic", "vfs_read"}, []string{"auto, fentry, kprobe, multi and session"}},
		{"deny with items", []string{"-d", "vfs_write()", "vfs_read"}, []string{"a selector takes no items"}},
		{"all denied", []string{"-d", "vfs_*", "vfs_read"}, []string{"denied"}},
		{"session option without a session", []string{"-T", "vfs_read"}, []string{"-T goes with -e"}},
		{"allow without entry", []string{"-a", "vfs_write"}, []string{"-a goes with -e"}},
		{"option that is not for sessions", []string{"-e", "vfs_read", "--join"}, []string{"--join does not go with sessions"}},
		{"live without trace", []string{"-e", "vfs_read", "--live"}, []string{"--live goes with -T"}},
		{"entry of nothing", []string{"-e", "vfs_raed"}, []string{"  vfs_raed\n  ^~~~", `"vfs_read"`}},
		{"faults in -e, -a and a SPEC", []string{"-e", "vfs_read(", "-a", "vfs_write(", "vfs_open(=)"}, []string{"3 faults"}},
		{"two SPECs for one function", []string{"-e", "vfs_read(count)", "vfs_read(pos)"}, []string{"put all of them into one SPEC"}},
		{"error that is none", []string{"-e", "vfs_read", "-x", "EFOO"}, []string{"-x EFOO", "EINVAL"}},
		{"time that is none", []string{"-e", "vfs_read", "-L", "soon"}, []string{"10ms"}},
		{"form that is none", []string{"-e", "vfs_read", "--args", "tiny"}, []string{"compact, multiline and verbose"}},
		{"preset that is none", []string{"-c", "bfp"}, []string{"bpf, perf, net, fs, mm"}},
		{"list that is none", []string{"-e", "@/does/not/exist"}, []string{"reading a list of SPECs"}},
		{"no command", []string{"vfs_read", "--"}, []string{"no command after --"}},
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
			if len(stderr) > 2000 || time.Since(begin) > 30*time.Second {
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
		"; count == 12345\n", "imm: 12345", "; return < 0\n", "<ks_open>", "<ks_find>",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
}
