// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// TestRefusal: what is said of a method that the kernel lacks names the method and
// what it takes, and has nothing of the verifier's words.
func TestRefusal(t *testing.T) {
	lacks := fmt.Errorf("load program: invalid argument: Tracing programs must provide btf_id: %w", ebpf.ErrNotSupported)
	for c, want := range map[Capability]string{
		CapKprobeMulti:    "kprobe.multi is not supported by this kernel: it takes Linux 5.18 and CONFIG_FPROBE",
		CapKprobeSession:  "kprobe.session is not supported by this kernel: it takes Linux 6.10 and CONFIG_FPROBE",
		CapFsession:       "fsession is not supported by this kernel: it takes Linux 7.0",
		CapBranchSnapshot: "branch records are not supported by this kernel: they take Linux 5.16 and hardware that records branches",
		CapTracingMulti:   "tracing_multi is not supported by this kernel: it takes Linux 7.3 on amd64",
	} {
		if err := refusal(c, lacks); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if err, want := refusal(c, errUnpaired), c.String()+" is not used: "+errUnpaired.Error(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		for _, other := range []error{nil, unix.EPERM} {
			if err := refusal(c, other); err != nil {
				t.Errorf("%s: %v is taken for a refusal: %v", c, other, err)
			}
		}
	}
}

// TestTooOld: a kernel that does not know a type of programs has no better words
// than that something is invalid; any other error is passed on.
func TestTooOld(t *testing.T) {
	invalid := &ebpf.VerifierError{Cause: fmt.Errorf("load program: %w", unix.EINVAL), Log: []string{"Tracing programs must provide btf_id", "processed 0 insns"}}
	want := "the kernel has no such programs, which came with Linux 7.3"
	if err := tooOld(invalid, version{7, 3}); err.Error() != want || !errors.Is(err, ebpf.ErrNotSupported) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := tooOld(unix.EPERM, version{7, 3}); !errors.Is(err, unix.EPERM) || errors.Is(err, ebpf.ErrNotSupported) {
		t.Errorf("without privileges: %v", err)
	}
}
