// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/ksnoop/ksnoop/bpf"
)

// A Numbering says which of a thread's numbers it has in /proc.
type Numbering uint8

const (
	NumberedOurs    Numbering = iota // those of the PID namespace that ksnoop is in
	NumberedInitial                  // those of the initial one, although ksnoop is not in it
	NumberedOther                    // those of a third
)

// errNumberedOther is what is wrong with NumberedOther.
var errNumberedOther = errors.New("/proc is of another PID namespace, neither ksnoop's nor the host's; to have ksnoop's: mount -t proc proc /proc")

// initialNamespace is what the link of the initial PID namespace says.
const initialNamespace = "pid:[4026531836]"

// NumberingOf finds out for which PID namespace /proc was mounted, which is that of
// whoever has mounted it. pid is ksnoop's own number. Where there is no /proc, there are no
// numbers to mistake.
func NumberingOf(root fs.FS, pid int) Numbering {
	self, err := fs.ReadLink(root, "proc/self")
	if err != nil {
		// In a namespace that ksnoop is not in, the link is there and leads nowhere.
		if _, err := fs.Lstat(root, "proc/self"); err == nil {
			return NumberedOther
		}
		return NumberedOurs
	}
	status, err := fs.ReadFile(root, "proc/self/status")
	if err != nil {
		if self != strconv.Itoa(pid) {
			return NumberedOther
		}
		return NumberedOurs
	}
	_, ids, _ := bytes.Cut(status, []byte("\nNSpid:"))
	ids, _, _ = bytes.Cut(ids, []byte("\n"))
	if len(bytes.Fields(ids)) <= 1 { // of /proc's namespace and those below
		return NumberedOurs
	}
	if link, err := fs.ReadLink(root, "proc/1/ns/pid"); err == nil && link == initialNamespace {
		return NumberedInitial
	}
	return NumberedOther
}

// IDs returns the numbers that a thread has in /proc.
func (n Numbering) IDs(e *bpf.Event) (pid, tid uint32, err error) {
	switch {
	case n == NumberedOther:
		return 0, 0, errNumberedOther
	case n == NumberedOurs && e.Inner.Ours && e.Inner.PID == 0:
		return 0, 0, fmt.Errorf("process %d of the host is not in ksnoop's PID namespace", e.PID)
	case n == NumberedOurs && e.Inner.Ours:
		return e.Inner.PID, e.Inner.TID, nil
	}
	return e.PID, e.TID, nil
}
