// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io/fs"
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
	if Scarce(ve.Cause) {
		return ve.Cause // the verifier had nothing against it
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

// Scarce reports whether an error is a lack of descriptors or memory, which says nothing about what the kernel can do.
func Scarce(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

type refusedError struct{ err error }

func (e refusedError) Unwrap() error { return e.err }

func (refusedError) Error() string {
	return "the kernel does not permit it: a capability is missing, or lockdown, a security module or the container's seccomp filter forbids it"
}

// probing keeps of a kprobe's error what it comes down to. After a refusal the
// library tries the name with the prefix of system calls, and reports what the
// kernel said to that.
func probing(err error) error {
	var file *fs.PathError
	unopened := errors.As(err, &file) && file.Op == "open" // a file of tracefs, which says nothing of the name
	if !unopened && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL)) {
		return notProbedError{err}
	}
	if err != nil && strings.Contains(err.Error(), "arch-specific fallback") {
		return fallbackError{err}
	}
	return err
}

// A fallbackError is one of another kind. The library says what it tried in its own terms.
type fallbackError struct{ err error }

func (e fallbackError) Unwrap() error { return e.err }

// Error returns what the kernel said, with the file that it said it of.
func (e fallbackError) Error() string {
	err := e.err
	for {
		inner := errors.Unwrap(err)
		if _, file := err.(*fs.PathError); file || inner == nil {
			return err.Error()
		}
		err = inner
	}
}

type notProbedError struct{ err error }

func (e notProbedError) Unwrap() error { return e.err }

func (notProbedError) Error() string {
	return "the kernel has no code of that name, or does not let it be traced (notrace)"
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
