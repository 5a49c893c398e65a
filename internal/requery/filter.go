// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"bytes"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/glob"
)

// A Filter says whose calls are shown, and of which time. The zero value lets all pass.
type Filter struct {
	PIDs, NotPIDs, TIDs []uint32 // in ksnoop's PID namespace, as trace takes them
	Comms, NotComms     []string // globs for the names of tasks
	UIDs                []uint32
	Cgroup              string // path of this one or of one above; "": all
	In                  container.Selector
	CgroupOf            func(id uint64) container.Group // in the recording
	Range               Range
}

// passes reports whether a thread's calls are shown.
func (f *Filter) passes(pid, tid uint32, inner bpf.Inner, comm []byte, owner bpf.Owner) bool {
	if inner.Ours {
		pid, tid = inner.PID, inner.TID
	}
	comm, _, _ = bytes.Cut(comm, []byte{0})
	matches := func(pattern string) bool { return glob.Match(bpf.CutComm(pattern), comm) }
	switch {
	case len(f.PIDs) > 0 && !slices.Contains(f.PIDs, pid), slices.Contains(f.NotPIDs, pid):
		return false
	case len(f.TIDs) > 0 && !slices.Contains(f.TIDs, tid):
		return false
	case len(f.UIDs) > 0 && !slices.Contains(f.UIDs, owner.UID), !f.inCgroup(owner.Cgroup), !f.In.Empty() && !f.In.SelectsGroup(f.CgroupOf(owner.Cgroup)):
		return false
	case len(f.Comms) > 0 && !slices.ContainsFunc(f.Comms, matches):
		return false
	}
	return !slices.ContainsFunc(f.NotComms, matches)
}

// inCgroup reports whether a cgroup is the one that is asked for, or below it.
func (f *Filter) inCgroup(id uint64) bool {
	if f.Cgroup == "" {
		return true
	}
	rest, ok := strings.CutPrefix(f.CgroupOf(id).Path, strings.TrimSuffix(f.Cgroup, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
