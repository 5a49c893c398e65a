// SPDX-License-Identifier: Apache-2.0

package completion_test

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/completion"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/userfunc"
)

// typesFile has what the functions below need of the types of Debian's 6.12 kernel.
const typesFile = "testdata/vmlinux-6.12.btf"

var updateTypes = flag.String("update-types", "", "make "+typesFile+" from this `FILE`, a copy of /sys/kernel/btf/vmlinux of a guest")

// described are the functions whose types there are.
var described = []string{"vfs_read", "vfs_readv", "vfs_readlink", "vfs_open", "tcp_set_state", "ip_send_skb", "kfree", "do_sys_openat2", "bpf_prog_new_fd",
	"__traceiter_task_newtask", "__x64_sys_openat", "__do_sys_brk", "tcp_v4_rcv", "blk_mq_end_request", "array_map_alloc_check", "kernel_clone"}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}

// engine returns one over the types of the file.
func engine(t testing.TB) *completion.Engine {
	t.Helper()
	if *updateTypes != "" {
		makeTypes(t)
	}
	data, err := os.ReadFile(typesFile)
	if err != nil {
		t.Fatal(err)
	}
	view, err := kernel.OpenBTF(bytes.NewReader(data), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return &completion.Engine{View: view, Arch: "amd64", UserFile: userfunc.Opener("", "amd64"), Files: func(prefix string) (files []string) {
		for _, f := range []string{"fs/open.c", "fs/read_write.c", "fs/ext4/dir.c", "fs/ext4/file.c", "kernel/fork.c"} {
			if strings.HasPrefix(f, prefix) {
				files = append(files, f)
			}
		}
		return files
	}}
}

// makeTypes cuts the types out of those of a kernel.
func makeTypes(t testing.TB) {
	t.Helper()
	file, err := os.Open(*updateTypes)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	view, err := kernel.OpenBTF(file, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	var roots []btf.Type
	for _, name := range described {
		funcs, err := view.Match(name, "")
		if err != nil || len(funcs) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		roots = append(roots, funcs[0].Type)
	}
	for _, name := range []string{"struct trace_event_raw_task_newtask", "struct tcp_sock", "struct sock_common", "struct qstr", "enum bpf_map_type"} {
		found, err := view.TypesByName(name, "")
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		roots = append(roots, found[0])
	}
	if _, err := view.Enumerators("TCP_ESTABLISHED", ""); err != nil {
		t.Fatal(err)
	}
	cut, err := view.CutTypes(nil, roots, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(typesFile, cut.Files()["sys/kernel/btf/vmlinux"], 0o644); err != nil {
		t.Fatal(err)
	}
}

// texts returns the candidates' texts, each between bars.
func texts(found []completion.Candidate) string {
	var b strings.Builder
	for _, c := range found {
		b.WriteString("|" + c.Text + "|")
	}
	return b.String()
}

// TestComplete: what the kernel's sources say can follow is among the candidates, and what they say
// cannot is not.
func TestComplete(t *testing.T) {
	e := engine(t)
	for _, c := range []struct {
		text string
		want string // texts, with ; between them
		not  string
	}{
		// Selectors.
		{"", "syscall:;tp:;rawtp:;kprobe:;:", ""},
		{"vfs_re", "ad;adv;adlink", "vfs_read"},
		{"vfs_read", "link;v", "("},
		{"vfs_readlink", "(", "[;)"},
		{"vfs_*", "(", ""},
		{"nothing_*", "", "("},
		{"sys", "call:", ""},
		{"kprobe:vfs_reada", "", "("},
		{"kprobe:vfs_readl", "ink", ""},
		{"rawtp:task_", "newtask", ""},
		{"syscall:open", "at", ""},
		{"upr", "obe:", ""},
		{"ur", "etprobe:", ""},
		{"uretprobe:../livetest/user/testdata/user_am", "d64:", ""},
		{"uretprobe:../livetest/user/testdata/user_amd64:user_", "add;open;weigh", "run"},
		{"uprobe:../livetest/us", "er/", ""},
		{"uprobe:../livetest/user/testdata/user_am", "d64:", ""},
		{"uprobe:../livetest/user/testdata/", "user_amd64:;user_arm64:", "user.c:"},
		{"uprobe:../livetest/user/testdata/user_amd64:user_", "add;open;weigh", "run"},
		{"uprobe:../livetest/user/testdata/user_amd64:user_add", "(", ""},
		{"uprobe:../livetest/user/testdata/user_amd64:user_*", "(", ""},
		{"uprobe:../livetest/user/testdata/user_amd64:user_add(", "$di;$pid;$comm", "path(;$task"},
		{"usdt:../livetest/user/testdata/user_am", "d64:", ""},
		{"usdt:../livetest/user/testdata/user_amd64:", "user:step;user:guarded", ""},
		{"usdt:../livetest/user/testdata/user_amd64:user:st", "ep", "guarded"},
		{"usdt:../livetest/user/testdata/user_amd64:user:step", "(", ""},
		{"usdt:../livetest/user/testdata/user_amd64:user:step(", "$arg1;$arg4;$pid", "$arg5;return"},
		{"uprobe:../livetest/user/testdata/user_arm64:", "", "user_add"},
		{"syscall:brk(", "brk;return", "$arg1"},
		{"tp:task_", "newtask", ""}, // without tracefs, and so without groups
		{"tp:task_newtask(", "pid;comm;clone_flags;$pid", "ent;return;$duration"},
		{":fs/", "open.c;read_write.c;ext4/", "dir.c"},
		{":fs/ext4/dir.c", "(", ""},
		{"*(:struct sk_b", "uff", ""},
		{"*(:return struct soc", "k", ""},
		{"*(:struct sk_buff *)(", "skb", "file"},
		// Parameters, the result, context values, functions.
		{"vfs_read(", "file;buf;count;pos;return;$comm;$duration;hist(;ustr(", "skb;$func"},
		{"vfs_read(count > 3, ", "file;return", "skb"},
		{"vfs_read(fi", "le", "file"},
		{"kfree(", "object", "return"},
		{"vfs_read($d", "uration", ""},
		{"vfs_read($ta", "sk", ""},
		{"vfs_read(container_of($ta", "sk", ""},
		{"vfs_read($task->", "flags;thread_info", "f_pos"},
		{"vfs_read($a", "ny(", ""},
		{"vfs_read($any(", "char *;struct file *", ""},
		{"vfs_read(hi", "st(", ""},
		{"vfs_read(pa", "th(", ""},
		{"vfs_read(path(", ")", "file"},
		{"vfs_read(path(), ", "file", "path("},
		{"rawtp:task_newtask(", "task", "path("},
		{"vfs_read(hist(", "count;return;$duration", "hist(;diff(;$func"},
		{"vfs_read(hist(count, ", "", "count"},
		{"vfs_read(top(", "", "count"},
		{"vfs_read(top(3, ", "count", ""},
		{"vfs_read(count()[", "$comm;$func;$stack;$ustack;return", "hist("},
		{"vfs_read(count()[$comm, $fu", "nc", ""},
		{"vfs_read(str(", "buf;file", "$pid;hist("},
		{"vfs_read(diff(", "file", "return;$duration"},
		{"rawtp:task_newtask(", "task;clone_flags;$pid", "return;$duration;exit(;diff("},
		{"kprobe:vfs_read+0x9(", "$di;$pid", "file;return"},
		{"kprobe:vfs_read($d", "i;x", ""},
		{"vfs_*(", "file;path", ""},
		// Members.
		{"vfs_read(file->", "f_flags;f_inode;f_path", "i_mode"},
		{"vfs_read(file->f_fl", "ags", ""},
		{"vfs_read(return < 0 && file->f_path.", "dentry;mnt", "f_flags"},
		{"vfs_read((file)->f_path.", "dentry", ""},
		{"vfs_read((*file).", "f_flags", ""},
		{"vfs_read(((struct sock *)buf)->", "sk_mark;__sk_common", "skc_family"},
		{"vfs_read(((struct sock *)buf)->__sk_common.", "skc_family;skc_dport;skc_daddr", "sk_mark"}, // skc_daddr lies in an anonymous struct in an anonymous union
		{"vfs_read(container_of(pos, struct file, f_pos)->", "f_flags", ""},
		{"vfs_read(container_of(pos, struct file, ", "f_pos;f_flags", "pos"},
		{"vfs_read(container_of(pos, struct file, f_path.", "dentry", "f_flags"},
		{"vfs_read(container_of(pos, struct f", "ile", ""},
		{"vfs_read(user(file)->", "f_flags", ""},
		{"tcp_v4_rcv(skb->cb", "[", "->"},
		{"vfs_read(file.", "", "f_flags"},
		{"vfs_read(count->", "", "f_flags"},
		{"vfs_read(nothing->", "", "f_flags"},
		// Types.
		{"vfs_read((struct so", "ck;ck_common", ""},
		{"vfs_read((struct sock_common", " *);)", ""},
		{"vfs_read((struct sock *", ")", ""},
		{"vfs_read(sizeof(struct tcp_s", "ock", ""},
		{"vfs_read((str", "uct ", ""},
		// Operators.
		{"vfs_read(count", " == ; < ; & ; && ;);, ", "->;.;["},
		{"vfs_read(count ", "== ;< ;&& ;)", "->; == "},
		{"vfs_read(file", "->; == ;)", ".; < "},
		{"vfs_read(file->f_path", ".;)", "->; == "},
		{"vfs_read(hist($duration)", "[;);, ", " == "},
		{"vfs_read(hist($duration)[$comm]", ");, ", " == ;["},
		{"vfs_read(buf(buf", ", ;[", "); == "},
		{"vfs_read(count(), file", "->; == ", ")"}, // a capture beside an aggregation is a fault
		{"kfree(object", " == ;)", "->;["},
		{"vfs_read(file->f_flags == 3", ");, ; && ", ""},
		{"vfs_read(file)", "", ")"},
		// What is compared with.
		{"tcp_set_state(state == TCP_ES", "TABLISHED", ""},
		{"kernel_clone(args->exit_signal == ", "args", ""},
		{"array_map_alloc_check((enum bpf_map_type)attr->map_type == ", "BPF_MAP_TYPE_ARRAY;BPF_MAP_TYPE_HASH", "TCP_ESTABLISHED"},
		{"array_map_alloc_check((enum bpf_map_type)attr->map_type == BPF_MAP_TYPE_AR", "RAY;RAY_OF_MAPS", ""},
		{"array_map_alloc_check(return, (enum bpf_map_type)attr->map_type != ", "BPF_MAP_TYPE_ARRAY", ""},
		{"vfs_read(return == ", "-", ""},
		{"vfs_read(return == -", "ENOENT;EINVAL;ERESTARTSYS", "file"},
		{"vfs_read(count && return == -ENOEN", "T", ""},
		{"vfs_read(file == ", "NULL", ""},
		{"vfs_open(path->dentry->d_name.name ~ ", `"`, "path"},
		{"vfs_read($comm == ", `"`, ""},
		{`vfs_read($comm == "f`, "", "file"},
		{"vfs_read(count & AF_I", "NET;NET6", ""},
		// What no text can mend.
		{"vfs_read(count count", "", " == "},
		{"vfs_read(count]", "", ")"},
		{"vfs_read(count) x", "", ")"},
		{"nothing(", "", "$pid"},
	} {
		found := texts(e.Complete(c.text))
		for want := range strings.SplitSeq(c.want, ";") {
			if want != "" && !strings.Contains(found, "|"+want+"|") {
				t.Errorf("%q: no %q among %s", c.text, want, found)
			}
		}
		for not := range strings.SplitSeq(c.not, ";") {
			if not != "" && strings.Contains(found, "|"+not+"|") {
				t.Errorf("%q: %q among %s", c.text, not, found)
			}
		}
	}
}
