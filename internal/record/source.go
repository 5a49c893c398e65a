// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/process"
	"github.com/ksnoop/ksnoop/layout"
)

// A Source is the kernel being traced.
type Source struct {
	Root   fs.FS        // has its /proc and /sys
	View   *kernel.View // of the same kernel; the plan was made with it
	Arch   string       // as in GOARCH
	Writer string       // version of ksnoop
	// Sessions is set if the plan is for sessions.
	Sessions *Sessions
	Origin
	// Booted returns Origin.Boot as it is by now, for each part of a recording. Nil: it does not change.
	Booted func() time.Time
	// Cgroup returns what is known of a cgroup by now. More may be known later. It is nil if nothing is of any.
	Cgroup func(id uint64) container.Group
	// Users names what stacks of processes have; nil if there are none.
	Users *process.Symbols
	// Full records all types and symbols of the kernel, whether the records are about them
	// or not.
	Full bool
}

// BootID returns Origin.BootID of the kernel that root has the /proc of.
func BootID(root fs.FS) string {
	text, _ := fs.ReadFile(root, "proc/sys/kernel/random/boot_id") // a container may hide it; then hosts cannot be told apart
	return strings.TrimSpace(string(text))
}

// info describes a recording of s.
func (s *Source) info(p *plan.Plan) Info {
	return Info{Arch: s.Arch, Writer: s.Writer, Header: bpf.EventSize, Sessions: s.Sessions.sized(), Redact: p.Redact, Owner: p.Owner, Origin: s.Origin.bounded()}
}

// pinSymbols makes the kernel's symbols of this moment those of s.View. It returns them;
// nil if the kernel has none.
func (s *Source) pinSymbols() ([]byte, error) {
	t := make(fileTree)
	if err := t.add(s.Root, symbolFile); err != nil {
		return nil, err
	}
	if text := t[symbolFile]; text != nil {
		s.View.Pin(text)
	}
	return t[symbolFile], nil
}

// btfDir has the types of vmlinux and of the modules.
const btfDir = "sys/kernel/btf/"

// contents returns the files that are needed to resolve p elsewhere and to print its
// records, and the probes as they are stored with these files.
//
// The types are those that the plan is about, of vmlinux and of modules with traced
// functions. Another module may define a type that a SPEC names, so contents resolves p to
// see whether it works without the others.
func (s *Source) contents(p *plan.Plan) (fileTree, []probe, error) {
	traced := modulesOf(p)
	all, err := s.View.Modules()
	if err != nil {
		all = traced // without BTF there is nothing to leave out
	}
	tries := []func() (fileTree, []probe, error){
		func() (fileTree, []probe, error) { return s.cut(p, traced, 2) },
		func() (fileTree, []probe, error) { return s.cut(p, traced, 1) },
		func() (fileTree, []probe, error) { return s.cut(p, all, 1) },
		func() (fileTree, []probe, error) { return s.whole(p, traced) },
	}
	if s.Full {
		tries = tries[len(tries)-1:]
	}
	for _, try := range tries {
		if t, probes, err := try(); err == nil {
			if _, err = resolve(probes, kernel.Open(t), Info{Arch: s.Arch, Sessions: s.Sessions, Redact: p.Redact, Owner: p.Owner}); err == nil {
				return t, probes, nil
			}
		}
	}
	return s.whole(p, all)
}

// common returns the files that are recorded whatever is traced. From tracefs, it takes the
// formats in which macros were found when p was resolved.
func (s *Source) common() (fileTree, error) {
	t := make(fileTree)
	for _, name := range append([]string{"proc/sys/kernel/osrelease"}, s.View.MacroFiles()...) {
		if err := t.add(s.Root, name); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// whole returns all types of vmlinux and of some modules.
func (s *Source) whole(p *plan.Plan, modules []string) (fileTree, []probe, error) {
	t, err := s.common()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range append([]string{"vmlinux"}, modules...) {
		if err := t.add(s.Root, btfDir+name); err != nil {
			return nil, nil, err
		}
	}
	probes, err := describe(p, s.View, nil)
	return t, probes, err
}

// muchBTF is how many bytes of types are too many for structs that are two pointers away:
// compressed, it is a third of that. One pointer away are the parameters of functions, and
// what captured objects point to. So replay knows the members of all that was captured, and
// of what it points to, whether that was captured or not.
const muchBTF = 300_000

var errMuchBTF = errors.New("too many types")

// cut returns the types of vmlinux and of some modules that p is about, those whole that are
// so many pointers away.
func (s *Source) cut(p *plan.Plan, modules []string, pointers int) (fileTree, []probe, error) {
	t, err := s.common()
	if err != nil {
		return nil, nil, err
	}
	cut, err := s.View.CutTypes(modules, rootsOf(p), pointers)
	if err != nil {
		return nil, nil, err
	}
	size := 0
	for name, data := range cut.Files() {
		t[name] = data
		size += len(data)
	}
	if pointers > 1 && size > muchBTF {
		return nil, nil, errMuchBTF
	}
	probes, err := describe(p, s.View, cut)
	return t, probes, err
}

// rootsOf returns the types that a plan is about: of functions, and of all values that are
// read on the way to those that are recorded or compared.
func rootsOf(p *plan.Plan) (roots []btf.Type) {
	term := func(t expr.Term) {
		if t != nil {
			expr.Walk(t, func(t expr.Term) bool {
				roots = append(roots, t.Type())
				return true
			})
		}
	}
	for _, p := range p.Probes {
		if p.Func.Type != nil {
			roots = append(roots, p.Func.Type)
		}
		for i := range p.Params {
			roots = append(roots, p.Params[i].Type)
		}
		for _, half := range []*layout.Half{p.Entry, p.Return} {
			if half == nil {
				continue
			}
			for i := range half.Predicates {
				term(half.Predicates[i].Term)
			}
			for i := range half.Stores {
				term(half.Stores[i].Term)
			}
		}
		for i := range p.Items {
			for _, c := range p.Items[i].Captures {
				term(c.Value)
				term(c.Target)
			}
			if g := p.Items[i].Aggregation; g != nil {
				term(g.Value)
				for _, c := range g.Keys {
					term(c.Value)
					term(c.Target)
				}
			}
		}
	}
	return roots
}
