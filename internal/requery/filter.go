// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"bytes"
	"slices"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/glob"
)

// A Filter says whose calls are shown, and of which time. The zero value lets all pass.
type Filter struct {
	PIDs, NotPIDs, TIDs []uint32 // in ksnoop's PID namespace, as trace takes them
	Comms, NotComms     []string // globs for the names of tasks
	Range               Range
}

// passes reports whether a thread's calls are shown.
func (f *Filter) passes(pid, tid uint32, inner bpf.Inner, comm []byte) bool {
	if inner.Ours {
		pid, tid = inner.PID, inner.TID
	}
	comm, _, _ = bytes.Cut(comm, []byte{0})
	matches := func(pattern string) bool { return glob.Match(cutName(pattern), comm) }
	switch {
	case len(f.PIDs) > 0 && !slices.Contains(f.PIDs, pid), slices.Contains(f.NotPIDs, pid):
		return false
	case len(f.TIDs) > 0 && !slices.Contains(f.TIDs, tid):
		return false
	case len(f.Comms) > 0 && !slices.ContainsFunc(f.Comms, matches):
		return false
	}
	return !slices.ContainsFunc(f.NotComms, matches)
}

// maxComm is how many bytes of a task's name the kernel keeps.
const maxComm = 15

// cutName cuts a name without a star as the kernel cuts the names of tasks.
func cutName(pattern string) string {
	if !bytes.ContainsRune([]byte(pattern), '*') && len(pattern) > maxComm {
		return pattern[:maxComm]
	}
	return pattern
}
