// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
)

// TestLackingCapability: what a message says is lacking is what the table says is needed.
func TestLackingCapability(t *testing.T) {
	const tracefs = "/sys/kernel/tracing/"
	open := func(file string) error {
		return fmt.Errorf("attaching: %w", &fs.PathError{Op: "open", Path: tracefs + file, Err: fs.ErrPermission})
	}
	for feature, err := range map[string]error{
		"`tp:` tracepoints":               open("events/sched/sched_switch/id"),
		"kprobes at 16 functions or more": open("kprobe_events"),
		livetest.Paranoid:                 fmt.Errorf("opening perf event: %w", unix.EACCES),
	} {
		i := slices.IndexFunc(livetest.Rights, func(r livetest.Right) bool { return r.Feature == feature })
		if name := lackingCapability(err); i < 0 || !slices.ContainsFunc(livetest.Rights[i].Needs, func(c uintptr) bool { return livetest.CapabilityNames[c] == name }) {
			t.Errorf("%s: %s", feature, name)
		}
	}
}

// TestInfoWithoutRoot: what only root may read is no fault of a SPEC, and nothing that has to do with tracing.
func TestInfoWithoutRoot(t *testing.T) {
	needBTF(t)
	if os.Getuid() != 0 {
		t.Skip("only root can become nobody")
	}
	c := exec.Command("/proc/self/exe", "info", "bpf:*", "syscall:openat")
	c.Dir, c.Env = "/", append(os.Environ(), asProgram+"=1")
	c.SysProcAttr = &unix.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, _ := c.CombinedOutput()
	if text := string(out); c.ProcessState.ExitCode() != exitFailed || strings.Contains(text, "cannot trace") || strings.Contains(text, "a fault") ||
		!strings.Contains(text, "looking for bpf:*: only root may list BPF programs") || !strings.Contains(text, "looking for syscall:openat: ") {
		t.Errorf("status %d: %s", c.ProcessState.ExitCode(), text)
	}
}

// TestUnattachable: after an interrupt nothing was tried, and nothing is blamed for that.
func TestUnattachable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := unattachable(ctx, fs.ErrInvalid); err != fs.ErrInvalid {
		t.Error(err)
	}
}

// TestPermissionAdvice: the verifier's refusal of a program that it has read is no lack of rights.
func TestPermissionAdvice(t *testing.T) {
	for want, log := range map[string][]string{
		"run as root or with CAP_SYS_ADMIN": {"processed 0 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0"},
		"which is a fault of ksnoop":        {"R4 unbounded memory access", "processed 1910 insns (limit 1000000) max_states_per_insn 4 total_states 69 peak_states 69 mark_read 25"},
	} {
		err := fmt.Errorf("loading: %w", &ebpf.VerifierError{Cause: unix.EACCES, Log: log})
		if got := permissionAdvice(err); !strings.Contains(got, want) {
			t.Errorf("%q: %s", log, got)
		}
	}
}
