// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

// TestDryRunInstruction: nothing is promised of instructions inside a function:
// where they begin only the kernel finds out, and only when it is to hook one.
func TestDryRunInstruction(t *testing.T) {
	types := typesFile(t)
	const unsure = "known only on attaching, whether an instruction begins there that can be probed: "
	const unasked = "mind: no kernel was asked which methods it has: these are those of one that has fentry; tracing with --btf takes kprobe or multi\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"kprobe:vfs_read+0x1($ip)", "kprobe:vfs_read", "vfs_write"},
			"would be traced (3):\n  kprobe:vfs_read+0x1($ip), by kprobe\n  kprobe:vfs_read, by kprobe\n  vfs_write, by fentry\n" + unsure + "kprobe:vfs_read+0x1\n" + unasked},
		{[]string{"kprobe:vfs_read+8", "kprobe:vfs_write+16"},
			"would be traced (2):\n  kprobe:vfs_read+0x8, by kprobe\n  kprobe:vfs_write+0x10, by kprobe\n" + unsure + "kprobe:vfs_read+0x8 kprobe:vfs_write+0x10\n"},
		{[]string{"-T", "-e", "vfs_read", "-J", "kprobe:vfs_write+1"},
			"would open a session (1):\n  vfs_read\nwould be injected (1):\n  kprobe:vfs_write+0x1\n" + "would be attached by fentry (1), kprobe (1)\n" + unsure + "kprobe:vfs_write+0x1\n" + unasked},
		{[]string{"kprobe:vfs_read"}, "would be traced (1):\n  kprobe:vfs_read, by kprobe\n"},
	} {
		stdout, stderr, status := ran(append(c.args, "--dry-run", "--btf", types)...)
		if status != 0 || stderr != "" || stdout != c.want {
			t.Errorf("%q: status %d, %q, printed\n%swant\n%s", c.args, status, stderr, stdout, c.want)
		}
	}
}

// TestDryRunStack: what needs more stack than the kernel gives is said without asking it.
func TestDryRunStack(t *testing.T) {
	deep := "vfs_read(" + strings.Repeat("(count + ", 50) + "count" + strings.Repeat(")", 50) + " == 1)"
	stdout, stderr, status := ran(deep, "vfs_write", "--dry-run", "--btf", typesFile(t))
	if want := "would be traced (1):\n  vfs_write, by fentry\n"; status != 0 || stderr != "" || !strings.HasPrefix(stdout, want) ||
		!strings.Contains(stdout, "512 bytes of stack that the kernel gives; make it shorter or nest it less: vfs_read((count + (count") {
		t.Errorf("status %d, %q, printed\n%s", status, stderr, stdout)
	}
}

// TestDryRunUnsupported: a method that this kernel has not is refused as the run would.
func TestDryRunUnsupported(t *testing.T) {
	needBTF(t)
	for method, flag := range map[layout.Method]string{layout.MethodKprobeMulti: "multi", layout.MethodKprobeSession: "session", layout.MethodFsession: "fsession", layout.MethodTracingMulti: "tracing_multi"} {
		lacks := attach.Supported(method, kernel.OpenRunning().TypeCache())
		stdout, stderr, status := ran("--dry-run", "--attach", flag, "vfs_read")
		switch {
		case lacks == nil && status != 0:
			t.Errorf("%s: status %d: %s", flag, status, stderr)
		case lacks != nil && (status != exitFailed || stdout != "" || !strings.Contains(stderr, lacks.Error())):
			t.Errorf("%s: status %d, printed %q, said %q; want %v", flag, status, stdout, stderr, lacks)
		}
	}
}

// TestDryRunMethod: a method that cannot take a function is said without asking the kernel.
func TestDryRunMethod(t *testing.T) {
	for method, want := range map[string]string{
		"fentry": "would not be traced:\n  BTF has no signature of it under this name that a trampoline could take; kprobes need none: flavoured___two\n",
		"kprobe": "would be traced (1):\n  flavoured___two, by kprobe\n",
	} {
		stdout, stderr, status := ran("--attach", method, "flavoured*", "--dry-run", "--btf", typesFile(t))
		if status != 0 || stderr != "" || stdout != want {
			t.Errorf("by %s: status %d, %q, printed\n%s", method, status, stderr, stdout)
		}
	}
}
