// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/attach"
)

func TestCleanUp(t *testing.T) {
	for _, c := range []struct {
		stale     attach.Stale
		err       error
		out, says string
	}{
		{out: "no kprobe events of killed ksnoops are left\n"},
		{stale: attach.Stale{Removed: 1}, out: "removed 1 kprobe event of killed ksnoops\n"},
		{stale: attach.Stale{Removed: 2}, out: "removed 2 kprobe events of killed ksnoops\n"},
		{stale: attach.Stale{Kept: 1}, out: "removed 0 kprobe events of killed ksnoops\nleft 1 kprobe event that somebody else uses\n"},
		{stale: attach.Stale{Unseen: 12}, out: "removed 0 kprobe events of killed ksnoops\nleft those of process 12, which could not be looked at: it may be tracing\n"},
		{err: &fs.PathError{Op: "open", Path: "/sys/kernel/tracing/events", Err: fs.ErrPermission},
			says: "removing kprobe events of killed ksnoops: open /sys/kernel/tracing/events: permission denied; run as root"},
		{err: errors.New("tracefs is not mounted"), says: "removing kprobe events of killed ksnoops: tracefs is not mounted"},
	} {
		var out strings.Builder
		err := cleanUp(&out, func() (attach.Stale, error) { return c.stale, c.err })
		if out.String() != c.out || (err == nil) != (c.says == "") || err != nil && err.Error() != c.says {
			t.Errorf("%+v: %q, %v", c, out.String(), err)
		}
	}
}

// TestDoctorTypes: the types of the running kernel are its own, those of three
// functions are not.
func TestDoctorTypes(t *testing.T) {
	needBTF(t)
	for file, want := range map[string]string{
		"/sys/kernel/btf/vmlinux": "\ntypes of --btf             yes      those of this kernel\n",
		typesFile(t):              "\ntypes of --btf             no       --btf ",
		"/dev/null":               "\ntypes of --btf             no       --btf: /dev/null: types are read from a regular file only",
	} {
		stdout, stderr, status := ran("doctor", "--btf", file)
		if status != 0 || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("%s: status %d, %q, want %q in\n%s", file, status, stderr, want, stdout)
		}
	}
	if _, stderr, status := ran("doctor", "--clean", "--btf", "x"); status != exitUsage || !strings.Contains(stderr, "--clean does not go with --btf") {
		t.Errorf("status %d, %q", status, stderr)
	}
}
