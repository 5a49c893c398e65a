// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// hiding runs ksnoop where folders are empty: in a mount namespace of its own.
func hiding(t *testing.T, folders []string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return printed(t, "unshare", hidingArgs(folders, args...)...)
}

// hidingArgs are the arguments with which unshare does that.
func hidingArgs(folders []string, args ...string) []string {
	const script = `while [ "$1" != . ]; do mount -t tmpfs none "$1" || exit 99; shift; done; shift; exec ksnoop "$@"`
	return slices.Concat([]string{"-m", "sh", "-c", script, "sh"}, folders, []string{"."}, args)
}

// clean fails the test if it leaves kprobes or what hooks functions behind.
func clean(t *testing.T) {
	t.Helper()
	hooked := func() string {
		var all []string
		for _, file := range []string{"debug/kprobes/list", "tracing/kprobe_events", "tracing/enabled_functions"} {
			text, err := os.ReadFile("/sys/kernel/" + file)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
		}
		return strings.Join(all, "\n")
	}
	before := hooked()
	t.Cleanup(func() {
		if after := hooked(); after != before {
			t.Errorf("left attached:\n%s\nbefore:\n%s", after, before)
		}
	})
}

// TestLiveNoBTF: a kernel that shows no BTF is traced by that of a file, and what
// cannot be had so is refused by name.
func TestLiveNoBTF(t *testing.T) {
	guest.Require(t)
	clean(t)
	const folder = "/sys/kernel/btf"
	own := filepath.Join(t.TempDir(), "vmlinux.btf")
	data, err := os.ReadFile(folder + "/vmlinux")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, data, 0o600); err != nil {
		t.Fatal(err)
	}
	read := map[string]string{"amd64": "id == 0, regs->dx == 77", "arm64": "id == 63, regs->regs[2] == 77"}[runtime.GOARCH]
	for _, c := range []struct {
		spec, work, name string
		want             int
	}{
		{"vfs_read(count == 77, file->f_mode & 1, return == count, $comm == \"workload\")", "read -count 3 -size 77", "vfs_read", 3},
		{"rawtp:sys_enter(" + read + ")", "read -count 3 -size 77", "rawtp:sys_enter", 3},
		{"syscall:read(count == 77, return == 77)", "read -count 3 -size 77", "syscall:read", 3},
		{"rawtp:sched_process_exec(p->tgid == $pid)", "fork -children 3", "rawtp:sched_process_exec", 3},
	} {
		args := append([]string{"trace", "--join", "--uid", "0", "--btf", own, c.spec, "--", "workload"}, strings.Fields(c.work)...)
		stdout, stderr, status := hiding(t, []string{folder}, args...)
		n := records(stdout, "workload", c.name) + records(stdout, "exe", c.name)
		if status != 0 || stderr != "" || n != c.want {
			t.Errorf("%s: status %d, %d records, want %d:\n%s%s", c.spec, status, n, c.want, stdout, stderr)
		}
	}
	for _, c := range []struct {
		args   []string
		want   string
		status int
	}{
		{[]string{"vfs_read"}, "give --btf FILE with the types of this very kernel", 1},
		{[]string{"vfs_read(count == 77)"}, "give --btf FILE with the types of this very kernel", 1},
		{[]string{"--btf", otherTypes(t), "vfs_read"}, "of the 1 function that they describe this one lacks 1", 1},
	} {
		stdout, stderr, status := hiding(t, []string{folder}, append(append([]string{"trace"}, c.args...), "--", "true")...)
		if status != c.status || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: status %d, want %d and %s:\n%s%s", c.args, status, c.status, c.want, stdout, stderr)
		}
	}
}

// otherTypes is a file with types that no kernel has.
func otherTypes(t *testing.T) string {
	t.Helper()
	f := &btf.Func{Name: "no_kernel_has_this", Linkage: btf.StaticFunc,
		Type: &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}}
	b, err := btf.NewBuilder([]btf.Type{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "other.btf")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
