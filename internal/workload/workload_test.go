// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRun(t *testing.T) {
	t.Cleanup(func() { os.Remove(fmt.Sprintf("/tmp/perf-%d.map", os.Getpid())) }) // of the case generated
	tests := []struct {
		args   string
		code   int
		stdout string // exactly, unless empty
		stderr string // is contained
	}{
		{args: "", code: 2, stderr: "usage"},
		{args: "no-such-case", code: 2, stderr: `no case "no-such-case"`},
		{args: "read -no-such-flag", code: 2, stderr: "no-such-flag"},
		{args: "read -size -1", code: 2, stderr: "negative"},
		{args: "tcp-loss -size 0", code: 2, stderr: "positive"},
		{args: "nested -depth 6", code: 2, stderr: "-depth"},
		{args: "loop -call fork", code: 2, stderr: "unknown -call"},
		{args: "loop -batches 0", code: 2, stderr: "positive"},
		// Cases that any kernel and any user can do.
		{args: "read -count 3 -size 7", stdout: "read count=3 size=7 bytes=21 result=7\n"},
		{args: "read -file /dev/null", stdout: "read count=1 size=1 bytes=0 result=0\n"},
		{args: "read-dir", stdout: "read-dir count=1 size=64 bytes=0 result=-EISDIR\n"},
		{args: "read-mem -count 2", stdout: "read-mem count=2 size=8 bytes=0 result=-EIO\n"},
		{args: "open-missing", stdout: "open-missing count=1 file=/no/such/file result=-ENOENT\n"},
		{args: "nested -depth 3", stdout: "nested count=1 depth=3 result=1\n"},
		{args: "threads -threads 3 -count 2 -size 5", stdout: "threads threads=3 count=2 size=5 bytes=30\n"},
		{args: "sleepers -n 50 -for 1ms", stdout: "sleepers n=50 for=1ms failed=0\n"},
		{args: "generated -for 0s", stdout: "generated\n"},
		// A promise that is not kept must show.
		{args: "open -file /no/such/file", code: 1, stdout: "open count=1 file=/no/such/file result=-ENOENT\n", stderr: "want success"},
		{args: "open-missing -file /dev/null", code: 1, stdout: "open-missing count=1 file=/dev/null result=0\n", stderr: "want -ENOENT"},
		{args: "read -file /no/such/file", code: 1, stderr: "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(strings.Fields(tt.args), &stdout, &stderr); code != tt.code {
				t.Errorf("exit status %d, want %d; stderr: %s", code, tt.code, &stderr)
			}
			if tt.stdout != "" && stdout.String() != tt.stdout {
				t.Errorf("stdout %q, want %q", &stdout, tt.stdout)
			}
			if !strings.Contains(stderr.String(), tt.stderr) || (tt.stderr == "" && stderr.Len() > 0) {
				t.Errorf("stderr %q, want %q in it", &stderr, tt.stderr)
			}
		})
	}
}

func TestListNamesEveryCaseOnce(t *testing.T) {
	var out bytes.Buffer
	if code := run([]string{"list"}, &out, &out); code != 0 {
		t.Fatalf("exit status %d: %s", code, &out)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		name := strings.Fields(line)[0]
		if seen[name] {
			t.Errorf("two cases are called %s", name)
		}
		seen[name] = true
	}
	if len(seen) != len(allCases()) {
		t.Errorf("list has %d cases, want %d", len(seen), len(allCases()))
	}
}

func TestResultExpect(t *testing.T) {
	tests := []struct {
		r      result
		wanted []unix.Errno
		ok     bool
	}{
		{result{n: 3}, nil, true},
		{result{errno: unix.EIO}, nil, false},
		{result{errno: unix.EIO}, []unix.Errno{unix.EIO}, true},
		{result{errno: unix.ENOMEM}, []unix.Errno{unix.E2BIG, unix.ENOMEM}, true},
		{result{errno: unix.EPERM}, []unix.Errno{unix.E2BIG, unix.ENOMEM}, false},
		{result{n: 0}, []unix.Errno{unix.EIO}, false},
	}
	for _, tt := range tests {
		if err := tt.r.expect(tt.wanted...); (err == nil) != tt.ok {
			t.Errorf("%v.expect(%v) = %v", tt.r, tt.wanted, err)
		}
	}
}
