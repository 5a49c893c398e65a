// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// explain keeps of a verifier's complaint what it comes down to. The whole log
// is there for whoever asks: errors.As with a *ebpf.VerifierError.
func explain(err error) error {
	err = permission(err)
	var ve *ebpf.VerifierError
	if !errors.As(err, &ve) || len(ve.Log) == 0 {
		return err
	}
	return &verifierError{ve}
}

// permission says what EPERM of the bpf system call comes from. The library takes
// it for a limit of locked memory, which has meant nothing to BPF since Linux 5.11.
func permission(err error) error {
	if errors.Is(err, unix.EPERM) && strings.Contains(err.Error(), "MEMLOCK") {
		return refusedError{err}
	}
	return err
}

// shortage says what helps if there are no more file descriptors.
func shortage(err error) error {
	if errors.Is(err, unix.EMFILE) {
		return fmt.Errorf("%w: each program and each link takes one, and ulimit -n is how many there may be", err)
	}
	return err
}

type refusedError struct{ err error }

func (e refusedError) Unwrap() error { return e.err }

func (refusedError) Error() string {
	return "the kernel does not permit it: a capability is missing, or lockdown, a security module or the container's seccomp filter forbids it"
}

type verifierError struct{ *ebpf.VerifierError }

func (e *verifierError) Unwrap() error { return e.VerifierError }

// statistics begin the lines with which the verifier ends its log. It is never changed.
var statistics = [...]string{"processed ", "verification time ", "stack depth ", "subprog "}

// Error returns the last complaint of the log, before the statistics.
func (e *verifierError) Error() string {
	for i := len(e.Log) - 1; i >= 0; i-- {
		line := strings.TrimSpace(e.Log[i])
		if line != "" && !slices.ContainsFunc(statistics[:], func(s string) bool { return strings.HasPrefix(line, s) }) {
			return fmt.Sprintf("the verifier says: %s (%v)", line, e.Cause)
		}
	}
	return e.Cause.Error()
}
