// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"context"
	"fmt"
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

// mayDeduce reports whether wayInside can say anything of a place.
func (r *Runner) mayDeduce(f *Failure, p *Place) bool {
	return p.Inside != "" && !strings.Contains(p.Inside, ".") && !decide.PassedOn(unix.Errno(f.Errno)) && p.Whole && f.Params != nil
}

// wayInside returns what decided in the function that takes no probe, from its code, the arguments of
// the system call and the error. If these do not tell, it runs the command once more, to see what that
// function has called. It returns nil if nothing tells, or the place is none like that.
func (r *Runner) wayInside(ctx context.Context, seen *Seen, chosen int, p *Place) (*Taken, error) {
	f := cmp.Or(p.later, &seen.Calls[chosen])
	probe, err := r.inside(f, p)
	if probe == nil {
		return nil, err
	}
	if t := deduce(probe, f, nil); t != nil || r.Process != nil {
		return t, nil // the next call of a process that fails so may have other arguments
	}
	called, err := r.results(ctx, seen, chosen, p)
	if p.looked = len(called) > 0; err != nil || !p.looked {
		return nil, err
	}
	return deduce(probe, f, called), nil
}

// inside returns the function that takes no probe, with its code; nil if nothing can be said of it.
func (r *Runner) inside(f *Failure, p *Place) (*plan.Probe, error) {
	if !r.mayDeduce(f, p) {
		return nil, nil
	}
	s, ok := r.Kernel.SymbolNamed(p.Inside, "")
	if !ok {
		return nil, nil
	}
	inside := kernel.Function{Name: s.Name, Addr: s.Addr, Type: f.prototype(s.Name)}
	way, err := attach.ReadWay(inside, r.Kernel)
	if err != nil {
		return nil, fmt.Errorf("what %s does: %w", p.Inside, err)
	}
	if len(way.Graph().Blocks) > mostBlocks {
		return nil, nil
	}
	made := &plan.Plan{Probes: []*plan.Probe{{Func: inside, Way: way}}}
	if r.Annotate != nil {
		made = r.Annotate(made)
	}
	return made.Probes[0], nil
}

// deduce returns what decided in a function that nobody has seen, by what it has called, as far as that
// is known; nil if that does not tell.
func deduce(probe *plan.Probe, f *Failure, called []code.Called) *Taken {
	v, d, ok := decide.Deduce(probe, f.given(probe.Way.Code.Arch), called, unix.Errno(f.Errno))
	if !ok {
		return nil
	}
	t := &Taken{Function: terminal.Name(probe.Func.Name), Note: " not seen; this is what its code makes of the arguments" + alsoResults(called) + ":"}
	for i := range f.Params {
		t.Args = append(t.Args, Argument{terminal.Name(f.Params[i].Name), string(f.appendArg(nil, i))})
	}
	t.Path = output.VerdictText(probe, &d, &v)
	return t
}

// Untold says why it is not known what decided in the function that takes no probe; "" if there is none
// like that.
func (p *Place) Untold() string {
	tells := "the arguments of the call do not tell"
	switch {
	case p.Inside == "":
		return ""
	case p.looked:
		tells = "neither the arguments of the call nor what it has called tell"
	}
	return fmt.Sprintf("which condition refused the call is not known: the kernel lets nobody put a probe on %s, and %s", p.Inside, tells)
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
func (f *Failure) given(arch string) (given []code.Given) {
	registers := ptregs.Arguments(arch)
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
