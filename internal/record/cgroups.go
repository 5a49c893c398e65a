// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// Limits on the paths of cgroups. More are not recorded, and a recording that has more is damaged.
const (
	maxCgroups    = 1 << 16
	maxCgroupPath = 4 << 10
	maxCgroupText = 16 << 20 // bytes of all paths
)

// A cgroupNamer finds the paths of the cgroups that records are of, each once.
type cgroupNamer struct {
	path     func(id uint64) string
	sessions bool
	last     uint64
	known    map[uint64]struct{}
	text     int    // bytes of all paths so far
	block    []byte // of paths that are not recorded yet
}

// newCgroupNamer returns nil if there is nothing to find.
func newCgroupNamer(s *Source, p *plan.Plan) *cgroupNamer {
	if s.Cgroup == nil || p.Owner&layout.OwnerCgroup == 0 {
		return nil
	}
	return &cgroupNamer{path: s.Cgroup, sessions: p.Sessions, known: map[uint64]struct{}{}}
}

// scan looks at a record.
func (n *cgroupNamer) scan(raw []byte) {
	owner, ok := bpf.OwnerOf(raw, n.sessions)
	if !ok || owner.Cgroup == 0 || owner.Cgroup == n.last {
		return
	}
	n.last = owner.Cgroup
	if _, known := n.known[n.last]; known || len(n.known) == maxCgroups {
		return
	}
	n.known[n.last] = struct{}{}
	path := n.path(n.last)
	if path == "" || len(path) > maxCgroupPath || n.text+len(path) > maxCgroupText {
		return
	}
	n.text += len(path)
	n.block = binary.AppendUvarint(n.block, n.last)
	n.block = append(binary.AppendUvarint(n.block, uint64(len(path))), path...)
}

// cgroups are the paths of cgroups in a recording, by ID.
type cgroups struct {
	paths map[uint64]string
	text  int
}

// add adds the paths of a block.
func (c *cgroups) add(block []byte) error {
	if c.paths == nil {
		c.paths = map[uint64]string{}
	}
	for len(block) > 0 {
		id, n := binary.Uvarint(block)
		if n <= 0 {
			return damaged("the path of a cgroup is cut off")
		}
		size, m := binary.Uvarint(block[n:])
		block = block[n+max(m, 0):]
		if m <= 0 || size > maxCgroupPath || size > uint64(len(block)) {
			return damaged("the path of a cgroup is cut off, or it has more than %d bytes", maxCgroupPath)
		}
		if _, known := c.paths[id]; !known { // each part of a run begins anew
			if c.text += int(size); c.text > maxCgroupText || len(c.paths) == maxCgroups {
				return damaged("it has the paths of too many cgroups")
			}
			c.paths[id] = string(block[:size])
		}
		block = block[size:]
	}
	return nil
}

// Cgroup returns the path of a cgroup, "" if it was not recorded. It is known when the first
// record of the cgroup is read.
func (r *Reader) Cgroup(id uint64) string { return r.cgroups.paths[id] }
