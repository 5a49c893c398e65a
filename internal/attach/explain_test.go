// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// TestProbing: what the library tries after a refusal is not passed on. The text
// is that of cilium/ebpf for a function that is notrace.
func TestProbing(t *testing.T) {
	refused := fmt.Errorf("creating perf_kprobe PMU (arch-specific fallback for %q): token %s: not found: %w", "native_sched_clock", "__x64_native_sched_clock", fs.ErrNotExist)
	if err := probing(refused); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "__x64_") || !strings.Contains(err.Error(), "notrace") {
		t.Errorf("a refused kprobe is explained as %q", err)
	}
	for _, other := range []error{nil, fmt.Errorf("opening perf event: %w", unix.EPERM)} {
		if err := probing(other); err != other {
			t.Errorf("another error became %q", err)
		}
	}
}

// TestAttempts: the library's names of its attempts are not passed on.
func TestAttempts(t *testing.T) {
	for want, inner := range map[string]error{
		"neither debugfs nor tracefs are mounted":                           errors.New("neither debugfs nor tracefs are mounted"),
		"open /sys/kernel/tracing/kprobe_events: permission denied":         &fs.PathError{Op: "open", Path: "/sys/kernel/tracing/kprobe_events", Err: unix.EACCES},
		"open /sys/kernel/tracing/kprobe_events: no such file or directory": &fs.PathError{Op: "open", Path: "/sys/kernel/tracing/kprobe_events", Err: unix.ENOENT},
	} {
		err := probing(fmt.Errorf("creating tracefs event (arch-specific fallback for %q): checking trace event ebpf_1/f: %w", "f", inner))
		if err.Error() != want || !errors.Is(err, inner) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestWhy: the library tells the version of Linux alone.
func TestWhy(t *testing.T) {
	old := Support{CapKprobeMulti, fmt.Errorf("kprobe.multi: %w", ebpf.ErrNotSupported)}
	if got := old.Why().Error(); !strings.HasPrefix(got, "kprobe.multi is not supported by this kernel: it takes Linux ") || !strings.HasSuffix(got, " and CONFIG_FPROBE") {
		t.Error(got)
	}
	refused := Support{CapKprobe, unix.EPERM}
	if refused.Why() != refused.Err || (Support{Capability: CapKprobe}).Why() != nil {
		t.Error(refused.Why())
	}
}

// TestExplainPermission: what the library guesses of EPERM is not passed on.
func TestExplainPermission(t *testing.T) {
	refused := fmt.Errorf("map create: %w (MEMLOCK may be too low, consider rlimit.RemoveMemlock)", unix.EPERM)
	if err := explain(refused); !errors.Is(err, unix.EPERM) || strings.Contains(err.Error(), "MEMLOCK") || !strings.Contains(err.Error(), "does not permit") {
		t.Errorf("EPERM is explained as %q", err)
	}
	other := fmt.Errorf("map create: %w", unix.ENOMEM)
	if err := explain(other); err != other {
		t.Errorf("another error became %q", err)
	}
}

// TestNotTheVerifier: what the verifier has said last is not why there is no descriptor for the program.
func TestNotTheVerifier(t *testing.T) {
	cause := fmt.Errorf("load program: %w", unix.EMFILE)
	if err := explain(&ebpf.VerifierError{Cause: cause, Log: []string{"Func#10 ('f') is safe for any args that match its prototype"}}); err != cause {
		t.Errorf("explained as %q", err)
	}
}

// TestVerifierReason: the reason is before the statistics, of which Linux 7.3 has more than others.
func TestVerifierReason(t *testing.T) {
	for _, statistics := range [][]string{
		{"processed 7 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0"},
		{"verification time 116363 usec", "stack depth 0+32", "processed 7 insns (limit 1000000)"},
		{"verification time 116363 usec", "stack depth max 96", "subprog 0 (p0_entry) main insns_self 206 insns_total 9728 stack 16", "processed 7 insns (limit 1000000)", ""},
	} {
		err := explain(&ebpf.VerifierError{Cause: unix.EACCES, Log: append([]string{"3: (79) r0 = *(u64 *)(r1 +8)", "R1 invalid mem access 'scalar'"}, statistics...)})
		if want := "the verifier says: R1 invalid mem access 'scalar' (permission denied)"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
