// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
)

// A pidSpace says what the kernel calls the processes that we know by the PIDs of our
// own PID namespace. In the initial one they are the same.
type pidSpace struct {
	namespace bpf.Namespace
	self      uint32            // this process, by the kernel's number
	known     map[uint32]uint32 // the kernel's PIDs by ours; not all if processes have begun since
	list      func() (bpf.Namespace, map[uint32]uint32, error)
}

// initialNamespace is the inode of the initial PID namespace (PROC_PID_INIT_INO).
const initialNamespace = 0xEFFFFFFC

// inInitialNamespace reports whether we are known to be in the initial namespace.
func inInitialNamespace() bool {
	var st unix.Stat_t
	return unix.Stat("/proc/self/ns/pid", &st) == nil && st.Ino == initialNamespace
}

// findPIDs finds out which PID namespace we are in, with the options that programs
// are loaded with.
func findPIDs(h host, o ebpf.CollectionOptions) (*pidSpace, error) {
	if h.pidsAreOurs() {
		return &pidSpace{self: uint32(os.Getpid())}, nil
	}
	s := &pidSpace{list: func() (bpf.Namespace, map[uint32]uint32, error) { return listPIDs(h, o) }}
	return s, s.read()
}

// listPIDs has the kernel list the threads in our namespace.
func listPIDs(h host, o ebpf.CollectionOptions) (ns bpf.Namespace, pids map[uint32]uint32, err error) {
	spec, err := bpf.PIDList()
	if err != nil {
		return ns, nil, err
	}
	loaded, err := h.loadEngine(spec, o)
	if err != nil {
		return ns, nil, explain(err)
	}
	defer loaded.Close()
	r, err := loaded.program(bpf.ProgListPIDs).iterate()
	if err != nil {
		return ns, nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return ns, nil, err
	}
	return bpf.ParsePIDs(text)
}

func (s *pidSpace) read() (err error) {
	if s.namespace, s.known, err = s.list(); err != nil {
		return fmt.Errorf("ksnoop is in a PID namespace of its own; asking the kernel for the processes in it: %w", err)
	}
	var listed bool
	if s.self, listed = s.known[uint32(os.Getpid())]; !listed {
		return fmt.Errorf("the kernel lists %d threads in ksnoop's PID namespace, and not ksnoop", len(s.known))
	}
	if s.namespace == (bpf.Namespace{}) {
		s.known = nil
	}
	return nil
}

// errNoSuch says that a PID stands for nothing here.
var errNoSuch = errors.New("there is no such process or thread in ksnoop's PID namespace")

// global returns the kernel's number of a process or thread.
func (s *pidSpace) global(pid uint32) (uint32, error) {
	if s.known == nil || pid == 0 { // 0 are the idle threads, which are in no other namespace
		return pid, nil
	}
	if _, ok := s.known[pid]; !ok {
		if err := s.read(); err != nil {
			return 0, err
		}
	}
	if global, ok := s.known[pid]; ok {
		return global, nil
	}
	return 0, fmt.Errorf("%d: %w", pid, errNoSuch)
}

// set tells the engine of the namespace, and makes the PIDs of its filter the kernel's.
func (s *pidSpace) set(to *bpf.Settings) (err error) {
	to.Namespace, to.Self = s.namespace, s.self
	if s.known == nil {
		return nil
	}
	for _, list := range []*[]uint32{&to.Filter.PIDs, &to.Filter.NotPIDs, &to.Filter.TIDs} {
		global := make([]uint32, len(*list))
		for i, pid := range *list {
			if global[i], err = s.global(pid); err != nil {
				return err
			}
		}
		*list = global
	}
	return nil
}
