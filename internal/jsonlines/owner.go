// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/layout"
)

// mostCgroups is how many cgroups are known at a time. After as many, all are forgotten: one
// that comes again is written again.
const mostCgroups = 4096

// newCgroup appends the line of an owner's cgroup, if its path is known, and if not all that is known is written yet.
func (p *Printer) newCgroup(dst []byte, o bpf.Owner) []byte {
	if p.run.Cgroup == nil || p.run.Plan.Owner&layout.OwnerCgroup == 0 || o.Cgroup == 0 {
		return dst
	}
	g := p.run.Cgroup(o.Cgroup)
	if g.Path == "" || g == p.cgroups[o.Cgroup] {
		return dst
	}
	if p.cgroups == nil || len(p.cgroups) == mostCgroups {
		p.cgroups = map[uint64]container.Group{}
	}
	p.cgroups[o.Cgroup] = g
	dst = appendUint(p.openLine(dst, "cgroup"), "id", o.Cgroup)
	dst = appendText(dst, "path", g.Path)
	in := container.Of(g.Path)
	for _, of := range [...]struct{ key, text string }{{"container", in.Container}, {"pod", in.Pod}, {"runtime", in.Runtime},
		{"container_name", g.Container}, {"pod_name", g.Pod}, {"namespace", g.Namespace}} {
		if of.text != "" {
			dst = appendText(dst, of.key, of.text)
		}
	}
	return append(dst, "}\n"...)
}

// appendOwner appends whose call it was, as far as that was recorded.
func (p *Printer) appendOwner(dst []byte, o bpf.Owner) []byte {
	if p.run.Plan.Owner&layout.OwnerUID != 0 {
		dst = appendUint(dst, "uid", uint64(o.UID))
	}
	if p.run.Plan.Owner&layout.OwnerCgroup != 0 {
		dst = appendCount(dst, "cgroup", o.Cgroup)
	}
	return dst
}
