// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/expr"
)

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		lists []string
		want  []uint16
		fault string
	}{
		{[]string{"EINVAL"}, []uint16{22}, ""},
		{[]string{"-einval, ENOMEM", "NULL"}, []uint16{22, 12, 0}, ""},
		{[]string{"EWOULDBLOCK,edeadlock,ENOTSUP"}, []uint16{11, 35, 95}, ""},
		{[]string{"524,ENOTSUPP,-1"}, []uint16{524, 524, 1}, ""},
		{[]string{"EINVALID"}, nil, `"EINVALID" is no error`},
		{[]string{"0"}, nil, `"0" is no error`},
		{[]string{"4096"}, nil, `"4096" is no error`},
		{[]string{"EINVAL,"}, nil, `"" is no error`},
	} {
		got, err := parseErrors("-x", c.lists)
		if c.fault == "" && (err != nil || !slices.Equal(got, c.want)) || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%q: %v, %v, want %v %q", c.lists, got, err, c.want, c.fault)
		}
	}
}

func TestParseLonger(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "10": 10 * time.Millisecond, "0.5": 500 * time.Microsecond, "50us": 50 * time.Microsecond, "2s": 2 * time.Second,
		"-1": -1, "soon": -1, "10 ms": -1,
	} {
		got, err := parseLonger(text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestExpandLists(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte("# what I look at\nvfs_*\n\n  tcp_sendmsg(size)  \r\n:kernel/bpf/*.c"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := expandLists([]string{"a", "@" + file, "b"})
	if d := cmp.Diff([]string{"a", "vfs_*", "tcp_sendmsg(size)", ":kernel/bpf/*.c", "b"}, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	if _, err := expandLists([]string{"@" + file + ".not"}); err == nil {
		t.Error("a list that does not exist: no error")
	}
}

func TestPresets(t *testing.T) {
	for _, p := range presets {
		for _, globs := range []string{p.entry, p.allow} {
			if globs == "" {
				t.Errorf("%s: no functions", p.name)
			}
		}
		seen := map[string]bool{}
		for _, g := range strings.Fields(p.entry + " " + p.allow + " " + p.deny) {
			if s, err := expr.Parse(g); err != nil || s.Parens || seen[g] {
				t.Errorf("%s: %q: %v, twice %v", p.name, g, err, seen[g])
			}
			seen[g] = true
		}
	}
}

func TestCountFlag(t *testing.T) {
	var count uint64
	var names []string
	f := countFlag{&count, &names}
	for _, s := range []string{"12", "bpf", "net"} {
		if err := f.Set(s); err != nil {
			t.Error(err)
		}
	}
	if err := f.Set("bfp"); err == nil || !strings.Contains(err.Error(), "bpf, perf, net, fs, mm") {
		t.Errorf("bfp: %v", err)
	}
	if count != 12 || !slices.Equal(names, []string{"bpf", "net"}) {
		t.Errorf("%d %q", count, names)
	}
}

// Only what is no call is injected, and into a trace.
func TestInject(t *testing.T) {
	for text, want := range map[string]string{
		"kprobe:vfs_read+0x4($di)": "", "tp:sched:sched_switch(next_pid)": "", "rawtp:sched_switch": "", "kretprobe:vfs_read(return < 0)": "return",
		"vfs_read": "give the SPEC without -J", "syscall:read": "give the SPEC without -J", "kretprobe:tp:sched:sched_switch": "give the SPEC without -J",
		"kprobe:vfs_read(": "unexpected end",
	} {
		in, err := parseInjected(text)
		switch {
		case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v", text, err)
		case err == nil && in.Return != (want == "return"):
			t.Errorf("%s: %+v, want %q", text, in, want)
		}
	}
	if _, stderr, status := ran("-e", "vfs_read", "-J", "rawtp:sched_switch"); status != exitUsage || !strings.Contains(stderr, "-J goes with -T") {
		t.Errorf("status %d: %s", status, stderr)
	}
	needBTF(t)
	_, stderr, status := ran("-T", "-e", "vfs_read", "-J", "kprobe:vfs_raed")
	if status != exitUsage || !strings.Contains(stderr, `"vfs_read"`) {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// TestDryRun asks for functions that every kernel has.
func TestDryRun(t *testing.T) {
	needBTF(t)
	stdout, stderr, status := ran("--dry-run", "-e", "vfs_read", "-a", "vfs_writ*", "-a", "rw_verify_area", "-d", "vfs_writev", "vfs_write(count)")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	for _, want := range []string{"would open a session (1):\n  vfs_read\n", "would be recorded in it (", "  vfs_write(count)\n", "  rw_verify_area\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "  vfs_writev\n") {
		t.Errorf("what is denied:\n%s", stdout)
	}
	stdout, _, _ = ran("--dry-run", "vfs_read(count)")
	if want := "would be traced (1):\n  vfs_read(count), by "; !strings.HasPrefix(stdout, want) {
		t.Errorf("no %q in:\n%s", want, stdout)
	}
}

// Errors are a set: those asked for, or all, without those that are not wanted.
func TestSessionErrors(t *testing.T) {
	var f sessionFlags
	for _, c := range []struct {
		only, except []uint16
		in, out      []uint16
	}{
		{[]uint16{22, 0}, nil, []uint16{0, 22}, []uint16{1, 21, 23, 4095}},
		{nil, []uint16{22}, []uint16{0, 21, 23, 4095}, []uint16{22}},
		{[]uint16{22, 12}, []uint16{22}, []uint16{12}, []uint16{0, 22, 4095}},
	} {
		e := f.engine(sessionSettings{only: c.only, except: c.except})
		has := func(n uint16) bool { return e.Errors[n/64]>>(n%64)&1 == 1 }
		for _, n := range c.in {
			if !has(n) {
				t.Errorf("-x %v -X %v: without %d", c.only, c.except, n)
			}
		}
		for _, n := range c.out {
			if has(n) {
				t.Errorf("-x %v -X %v: with %d", c.only, c.except, n)
			}
		}
	}
	if e := f.engine(sessionSettings{}); e.Errors != nil {
		t.Error("errors are looked at though nobody asks")
	}
}
