// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// Limits on the paths of cgroups. More are not recorded, and a recording that has more is damaged.
const (
	maxCgroups    = 1 << 16
	maxCgroupPath = 4 << 10
	maxCgroupText = 16 << 20 // bytes of all paths
)

// A cgroupNamer finds the paths of the cgroups that records are of. One that it has found it does not ask for again.
type cgroupNamer struct {
	group    func(id uint64) container.Group
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
	return &cgroupNamer{group: s.Cgroup, sessions: p.Sessions, known: map[uint64]struct{}{}}
}

// scan looks at a record.
func (n *cgroupNamer) scan(raw []byte) {
	owner, ok := bpf.OwnerOf(raw, n.sessions)
	if !ok || owner.Cgroup == 0 || owner.Cgroup == n.last {
		return
	}
	if _, known := n.known[owner.Cgroup]; known || len(n.known) == maxCgroups {
		n.last = owner.Cgroup
		return
	}
	text := groupText(n.group(owner.Cgroup))
	if text == "" { // it may be known at a later record
		return
	}
	n.last = owner.Cgroup
	n.known[n.last] = struct{}{}
	if len(text) > maxCgroupPath || n.text+len(text) > maxCgroupText {
		return
	}
	n.text += len(text)
	n.block = binary.AppendUvarint(n.block, n.last)
	n.block = append(binary.AppendUvarint(n.block, uint64(len(text))), text...)
}

// groupText returns a cgroup as it is recorded: its path, and what its container, the pod and the namespace are called, if
// any of these has a name, each behind a zero byte, which no path has.
func groupText(g container.Group) string {
	if g.Path == "" || g.Names == (container.Names{}) {
		return g.Path
	}
	return strings.Join([]string{g.Path, g.Container, g.Pod, g.Namespace}, "\x00")
}

// groupOf is the inverse of groupText.
func groupOf(text string) (g container.Group) {
	parts := strings.Split(text, "\x00")
	for i, to := range [...]*string{&g.Path, &g.Container, &g.Pod, &g.Namespace} {
		if i < len(parts) {
			*to = strings.Clone(parts[i]) // which does not keep the rest in memory
		}
	}
	g.Names = g.Names.Clean()
	return g
}

// groupSize returns how many bytes a cgroup's path and names take.
func groupSize(g container.Group) int {
	return len(g.Path) + len(g.Container) + len(g.Pod) + len(g.Namespace)
}

// cgroups are those of a recording, by ID.
type cgroups struct {
	groups map[uint64]container.Group
	text   int // the sizes of all
}

// add adds the paths of a block.
func (c *cgroups) add(block []byte) error {
	if c.groups == nil {
		c.groups = map[uint64]container.Group{}
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
		old, known := c.groups[id] // each part of a run begins anew, and may know more: names come one by one
		g := groupOf(string(block[:size]))
		if g.Names = old.Names.Or(g.Names); !known || g.Names != old.Names {
			if c.text += groupSize(g) - groupSize(old); c.text > maxCgroupText || !known && len(c.groups) == maxCgroups {
				return damaged("it has the paths of too many cgroups")
			}
			c.groups[id] = g
		}
		block = block[size:]
	}
	return nil
}

// Cgroup returns what was recorded of a cgroup. It is known when the first record of the cgroup is
// read, if it was known when that was made.
func (r *Reader) Cgroup(id uint64) container.Group { return r.cgroups.groups[id] }
