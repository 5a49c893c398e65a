// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/decide"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/ptregs"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// mayDeduce reports whether Deduce can say anything of a place.
func (r *Runner) mayDeduce(f *Failure, p *Place) bool {
	return p.Inside != "" && !strings.Contains(p.Inside, ".") && !decide.PassedOn(unix.Errno(f.Errno)) && p.Whole && f.Params != nil && r.Kernel.Arch() == "amd64"
}

// Deduce returns what decided in the function that takes no probe, from its code, the arguments of
// the system call, the error, and what Way has seen of its calls; nil if these do not tell, or the place is none like that.
func (r *Runner) Deduce(f *Failure, p *Place) (*Taken, error) {
	if !r.mayDeduce(f, p) {
		return nil, nil
	}
	s, ok := r.Kernel.SymbolNamed(p.Inside, "")
	if !ok {
		return nil, nil
	}
	inside := kernel.Function{Name: s.Name, Addr: s.Addr, Type: f.prototype(s.Name)}
	way, err := attach.ReadWay(inside, r.Kernel)
	if err != nil || len(way.Graph().Blocks) > mostBlocks {
		return nil, err
	}
	made := &plan.Plan{Probes: []*plan.Probe{{Func: inside, Way: way}}}
	if r.Annotate != nil {
		made = r.Annotate(made)
	}
	probe := made.Probes[0]
	v, d, ok := decide.Deduce(probe, f.given(), p.called, unix.Errno(f.Errno))
	if !ok {
		return nil, nil
	}
	t := &Taken{Function: terminal.Name(s.Name), Note: " not seen; this is what its code makes of the arguments" + alsoResults(p.called) + ":"}
	for i := range f.Params {
		t.Args = append(t.Args, Argument{terminal.Name(f.Params[i].Name), string(f.appendArg(nil, i))})
	}
	t.Path = output.VerdictText(probe, &d, &v)
	return t, nil
}

// alsoResults says that results were used.
func alsoResults(called []code.Called) string {
	if len(called) == 0 {
		return ""
	}
	return ", and of what the functions returned that it has called"
}

// given returns the registers that the function which has the parameters of the system call is
// called with.
func (f *Failure) given() (given []code.Given) {
	registers := ptregs.Arguments("amd64")
	for i := range min(len(f.Params), len(f.Args), len(registers)) {
		given = append(given, code.Given{Word: registers[i], Value: f.Args[i], Size: decide.Declared(f.Params[i].Decl).Size})
	}
	return given
}

// prototype returns the type of that function.
func (f *Failure) prototype(name string) *btf.Func {
	proto := &btf.FuncProto{Return: &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}}
	for i := range f.Params {
		decl := f.Params[i].Decl
		c := decide.Declared(decl)
		n := &btf.Int{Name: decl, Size: uint32(c.Size)}
		if c.Signed {
			n.Encoding = btf.Signed
		}
		var t btf.Type = n
		if c.Pointer {
			t = &btf.Pointer{Target: &btf.Void{}}
		}
		proto.Params = append(proto.Params, btf.FuncParam{Name: f.Params[i].Name, Type: t})
	}
	return &btf.Func{Name: name, Type: proto}
}
