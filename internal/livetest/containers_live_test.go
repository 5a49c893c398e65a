// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// write writes a file, and what is missing of the directories above it, which go with the test.
func write(t *testing.T, name, text string) {
	t.Helper()
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		t.Cleanup(func() { _ = os.Remove(dir) }) // children's come first
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(name, "/sys/") {
		t.Cleanup(func() { _ = os.Remove(name) })
	}
}

// mountV1 mounts a hierarchy of version 1 without controllers; "" if the kernel has none.
func mountV1(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("none", dir, "cgroup", 0, "none,name=ksnoop-test")
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
		t.Logf("no cgroups of version 1: %v", err)
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// TestLiveContainers: calls of containers, of one within another, of a pod, of one that starts later; and of one whose
// cgroup is of version 1, which is not known as one.
func TestLiveContainers(t *testing.T) {
	guest.Require(t)
	id := func(first string) string { return first + strings.Repeat("5c", 31) }
	const uid = "068e8fa0-9213-11e7-a01f-507b9d4141fa"
	root := "/sys/fs/cgroup/docker/" + id("a1")
	groups := []string{root, "/sys/fs/cgroup/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice/cri-containerd-" + id("b2") + ".scope", root + "/docker/" + id("c3"), "", "/sys/fs/cgroup/docker/" + id("e5")}
	if v1 := mountV1(t); v1 != "" {
		groups[3] = filepath.Join(v1, "docker", id("d4"))
	}
	write(t, "/var/lib/docker/containers/"+id("a1")+"/config.v2.json", `{"Name":"/relaxed_hopper"}`)
	write(t, "/var/log/containers/web-0_prod_app-"+id("b2")+".log", "")
	var shells []*held
	join := func(i int) {
		if groups[i] != "" {
			write(t, groups[i]+"/cgroup.procs", fmt.Sprint(shells[i].cmd.Process.Pid))
		}
	}
	for i := range groups {
		shells = append(shells, hold(t, fmt.Sprintf("exec workload read -count %d -size 37", 1<<i), nil))
		if i < 4 {
			join(i)
		}
	}
	filters := []struct {
		args []string
		want int // the sum of what the containers do
		run  *running
	}{
		{args: []string{"--container", "relaxed*"}, want: 1 + 4}, // the other one is in it
		{args: []string{"--container", id("c3")[:12]}, want: 4},
		{args: []string{"--pod", uid[:8], "--container", "app"}, want: 2},
		{args: []string{"--container", "later"}, want: 16},
		{args: []string{"--container", "d4"}, want: 0},
	}
	file := recordingFile(t)
	for i := range filters {
		filters[i].run = startTrace(t, append(filters[i].args, "--attach=kprobe", "vfs_read(count == 37)")...)
	}
	table := startSessions(t, "--attach=kprobe", "vfs_read(count == 37, count()[$container, $pod])")
	recorded := startTrace(t, "--attach=kprobe", "--record", file, "--print", "--compact", "--fields", "comm,pod,container", "vfs_read(count == 37)")
	write(t, "/var/lib/docker/containers/"+id("e5")+"/config.v2.json", `{"Name":"/later"}`)
	join(4)
	time.Sleep(livetest.Patience(5 * time.Second)) // so long may it take until it is seen
	for _, h := range shells {
		h.run(t)
	}
	time.Sleep(livetest.Patience(time.Second)) // as above, for the table
	for i := len(groups) - 1; i >= 0; i-- {
		_ = os.Remove(groups[i]) // before names are printed
	}
	stop := func(r *running) string {
		if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		out, status := r.wait(t)
		if status != 0 {
			t.Errorf("status %d:\n%s%s", status, out, &r.errs)
		}
		return out
	}
	for _, f := range filters {
		if out := stop(f.run); records(out, "workload", "vfs_read") != f.want {
			t.Errorf("%q: want %d records:\n%s%s", f.args, f.want, out, &f.run.errs)
		}
	}
	want := []string{"- - 8", "prod/web-0/app prod/web-0 2", "relaxed_hopper - 1", id("c3")[:12] + " - 4", "later - 16"}
	check := func(out string) {
		t.Helper()
		out = regexp.MustCompile(` +`).ReplaceAllString(out, " ")
		for _, row := range want {
			if !strings.Contains(out, "\n "+row+"\n") {
				t.Errorf("no row %q:\n%s", row, out)
			}
		}
	}
	check(stop(table))
	lines := regexp.MustCompile(` +`).ReplaceAllString(stop(recorded), " ")
	for begin, n := range map[string]int{"TASK POD CONTAINER FUNCTION": 1, "workload - - vfs_read(count": 8, "workload prod/web-0 prod/web-0/app vfs_read(count": 2,
		"workload - relaxed_hopper vfs_read(count": 1, "workload - " + id("c3")[:12] + " vfs_read(count": 4, "workload - later vfs_read(count": 16} {
		if got := strings.Count(lines, " "+begin); got != n {
			t.Errorf("%d lines with %q, want %d:\n%s", got, begin, n, lines)
		}
	}
	out, errs, _ := ksnoop(t, "replay", file, "vfs_read(count()[$container, $pod])")
	check(out)
	if out, _, _ = ksnoop(t, "replay", file, "--pod", "prod/*"); records(out, "workload", "vfs_read") != 2 {
		t.Errorf("replayed:\n%s%s", out, errs)
	}
}
