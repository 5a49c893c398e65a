// SPDX-License-Identifier: Apache-2.0

package output

import (
	"strconv"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Names name what is in values. Its zero value names nothing.
type Names struct {
	// Symbol appends the name of what is at a kernel address, or nothing. It may be nil.
	Symbol func(dst []byte, addr uint64) []byte
	// Cgroup is that of a Run.
	Cgroup func(id uint64) container.Group
}

// group returns what is known of a cgroup.
func (n *Names) group(id uint64) (g container.Group) {
	if n.Cgroup != nil {
		g = n.Cgroup(id)
	}
	return g
}

// place tells containers, or pods, apart.
func (n *Names) place(view expr.View, id uint64) string {
	g := n.group(id)
	in := container.Of(g.Path)
	switch {
	case g.Path == "":
		return strconv.FormatUint(id, 10)
	case view == expr.ViewPod:
		return "pod " + in.Pod
	}
	return "container " + in.Container
}

// appendPlace appends the container or the pod of a cgroup: "-" if it is in none.
func (n *Names) appendPlace(dst []byte, view expr.View, id uint64) []byte {
	g := n.group(id)
	text := g.ContainerText()
	if view == expr.ViewPod {
		text = g.PodText()
	}
	switch {
	case g.Path == "":
		return strconv.AppendUint(append(dst, "cgroup "...), id, 10)
	case text == "":
		return append(dst, '-')
	}
	return terminal.AppendName(dst, text)
}
