// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"slices"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/protomsg"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// mostResources is how many resources are known at a time. After as many, all are forgotten.
const mostResources = 4096

// A place is what tells resources of a run apart. Its zero value is the machine.
type place struct {
	pid    uint32
	cgroup uint64
	group  container.Group // more of it may be known later, and is another resource
}

// resources give resources their numbers, the upper half of which is that of the run. No number is
// given twice.
type resources struct {
	numbers map[place]uint64
	last    uint64
}

// forget begins the resources anew.
func (p *Printer) forget(dst []byte) []byte {
	p.known.numbers = map[place]uint64{}
	if p.known.last == 0 {
		p.known.last = uint64(p.run.Number) << 32
	}
	f := Frame{Kind: Forget, Resource: p.known.last}
	return f.append(dst)
}

// resource returns the number of a process's resource, or of the machine's. It appends the
// resource if that is new.
func (p *Printer) resource(dst []byte, pid uint32, o bpf.Owner) ([]byte, uint64) {
	at := place{pid: pid}
	if p.run.Plan.Owner&layout.OwnerCgroup != 0 && o.Cgroup != 0 {
		at.cgroup = o.Cgroup
		if p.run.Cgroup != nil {
			at.group = p.run.Cgroup(at.cgroup)
		}
	}
	if id, ok := p.known.numbers[at]; ok {
		return dst, id
	}
	if len(p.known.numbers) >= mostResources {
		dst = p.forget(dst)
	}
	p.known.last++
	p.known.numbers[at] = p.known.last
	p.describe(at)
	return p.append(dst, Resource, p.known.last, 0), p.known.last
}

// describe makes the message of a resource, by OpenTelemetry's semantic conventions.
func (p *Printer) describe(at place) {
	a := p.begin(resourceAttributes)
	add := func(name, text string) {
		if text != "" && !slices.ContainsFunc(p.options.Attributes, func(o Attribute) bool { return o.Name == name }) {
			a.foreign(name, text)
		}
	}
	for _, o := range p.options.Attributes {
		a.foreign(o.Name, o.Value)
	}
	add("service.name", "ksnoop")
	add("service.version", p.run.Writer)
	add("host.name", p.run.Host)
	add("host.arch", p.run.Arch)
	add("os.type", "linux")
	add("ksnoop.boot_id", p.run.BootID)
	if at.pid != 0 {
		a.uint("process.pid", uint64(at.pid))
	}
	if g := at.group; g.Path != "" {
		add("process.linux.cgroup", g.Path)
		in := container.Of(g.Path)
		add("container.id", in.Container)
		add("container.runtime", in.Runtime)
		add("k8s.pod.uid", in.Pod)
		add("k8s.pod.name", g.Pod)
		add("k8s.namespace.name", g.Namespace)
		if in.Pod == "" {
			add("container.name", g.Container)
		} else {
			add("k8s.container.name", g.Container)
		}
	}
}

// AppendScope appends the InstrumentationScope message of what a version of ksnoop has traced.
func AppendScope(dst []byte, version string) []byte {
	dst = protomsg.AppendString(dst, scopeName, "github.com/ksnoop/ksnoop")
	if version == "" {
		return dst
	}
	return protomsg.AppendString(dst, scopeVersion, terminal.Name(version))
}
