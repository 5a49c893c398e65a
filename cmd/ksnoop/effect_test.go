// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// TestNoEffect: an option that changes nothing is refused, not passed over.
func TestNoEffect(t *testing.T) {
	types := typesFile(t)
	for _, c := range []struct{ args, want string }{
		{"-e vfs_read --hung 0", "--hung 0s: a time to wait is more than 0"},
		{"-e vfs_read --hung -1s", "--hung -1s: a time to wait is more than 0"},
		{"--lbr-max 5", "--lbr-max goes with --lbr"},
		{"-e vfs_read -C fmt.lbr-max-count=5", "--lbr-max goes with --lbr"},
		{"--unfiltered", "--unfiltered goes with --lbr"},
		{"-K --attach multi", "by kprobe and by multi: give one method"},
		{"--attach multi -K", "by multi and by kprobe: give one method"},
		{"-F --attach=kprobe -F", "by fentry and by kprobe: give one method"},
		{"-K -M", "by kprobe and by multi: give one method"},
	} {
		stdout, stderr, status := ran(append(strings.Fields(c.args), "--dry-run", "--btf", types, "vfs_write")...)
		if status != exitUsage || stdout != "" || !strings.HasPrefix(stderr, "ksnoop: ") || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q", c.args, status, stdout, stderr)
		}
	}
	for _, args := range []string{"", "-K", "-K --attach kprobe", "--attach kprobe --attach kprobe", "--lbr --lbr-max 5 --unfiltered",
		"-e vfs_read --hung 1s", "-e vfs_read -C stacks.unfiltered=y"} {
		stdout, stderr, status := ran(append(strings.Fields(args), "--dry-run", "--btf", types, "vfs_write")...)
		if status != 0 || stderr != "" || stdout == "" {
			t.Errorf("%s: status %d, stderr %q", args, status, stderr)
		}
	}
}

// TestUnread: debug info is asked for by SPECs that name a source file.
func TestUnread(t *testing.T) {
	types, missing := typesFile(t), t.TempDir()+"/vmlinux"
	for _, how := range []string{"--dry-run", "--explain"} {
		want := "ksnoop: -k " + missing + " was not read: " + how + " shows no addresses, and no SPEC names a source file\n"
		if stdout, stderr, status := ran(how, "--btf", types, "-k", missing, "vfs_read"); status != 0 || stderr != want || stdout == "" {
			t.Errorf("%s: status %d, stderr %q, want %q", how, status, stderr, want)
		}
	}
	needBTF(t)
	if _, stderr, status := ran("--dry-run", "-k", missing, ":fs/read_write.c"); status == 0 || !strings.Contains(stderr, "vmlinux: no such file") {
		t.Errorf("of a source file: status %d, stderr %q", status, stderr)
	}
}
