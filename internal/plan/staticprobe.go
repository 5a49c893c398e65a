// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/ptregs"
	"github.com/ksnoop/ksnoop/internal/userfunc"
	"github.com/ksnoop/ksnoop/layout"
)

// staticProbes returns the USDT probes that a SPEC selects, one for each place.
func staticProbes(spec *expr.Spec, o Options) (found []candidate, err error) {
	sel := spec.Selector
	fault := func(code expr.Code, hint, format string, args ...any) error {
		return &expr.ErrorList{Text: spec.Text, Errors: []*expr.Error{{Code: code, Span: sel.Span, Msg: fmt.Sprintf(format, args...), Hint: hint}}}
	}
	if o.UserFile == nil {
		return nil, fault(expr.CodeUnknownFunc, "", "the file %s is only looked for where it is traced", sel.File)
	}
	file, err := o.UserFile(sel.File)
	var marks []userfunc.Mark
	if err == nil {
		marks, err = file.Marks()
	}
	if err != nil {
		return nil, fault(expr.CodeUnknownFunc, "", "%s: %v", sel.File, err)
	}
	var names []string
	denied := 0
	for i := range marks {
		m := &marks[i]
		names = append(names, m.Provider+":"+m.Name)
		if !glob.Match(sel.System, m.Provider) || !glob.Match(sel.Name, m.Name) {
			continue
		}
		h := Hook{Kind: expr.StaticProbe, File: file.Path, Identity: file.Identity, System: m.Provider, Name: m.Name, Place: m.Place, Semaphore: m.Semaphore, Args: m.Args}
		if slices.ContainsFunc(o.Deny, h.matchesUser) {
			denied++
			continue
		}
		found = append(found, candidate{f: kernel.Function{Name: m.Name}, Hook: h})
	}
	switch {
	case len(found) == 0 && denied > 0:
		return nil, fault(expr.CodeUnknownFunc, "", "%s", allDenied(denied, "probe{s}"))
	case len(found) == 0:
		return nil, fault(expr.CodeUnknownFunc, nearestHint(sel.System+":"+sel.Name, names), "%s has no USDT probe %q", file.Path, sel.System+":"+sel.Name)
	case len(found) > maxUser && !o.Listed:
		return nil, fault(expr.CodeLimit, "write a longer name; ksnoop info lists them", "%d places of %s match, and no more than %d can be traced", len(found), sel.File, maxUser)
	}
	return found, nil
}

// declareStatic declares the arguments of a USDT probe. They have types and no names.
func (p *Probe) declareStatic(scope *expr.Scope, arch string) {
	scope.Point, scope.User, p.Point = true, true, true
	for i := range p.Hook.Args {
		p.addStored(staticArg(&p.Hook.Args[i], arch))
	}
}

// numberNames are the names of C's integers, by size in bytes. It is never changed.
var numberNames = map[uint64][2]string{1: {"unsigned char", "signed char"}, 2: {"unsigned short", "short"}, 4: {"unsigned int", "int"}, 8: {"unsigned long", "long"}}

// floatNames are the names of C's floating-point numbers, by size in bytes. It is never changed.
var floatNames = map[int]string{4: "float", 8: "double", 16: "long double"}

// staticArg returns an argument as a parameter that is computed from registers and user memory. A
// recording may say anything of it.
func staticArg(a *userfunc.Arg, arch string) expr.Param {
	if name := floatNames[a.Size]; a.Float && name != "" {
		return expr.Param{Type: &btf.Float{Name: name, Size: uint32(a.Size)}, Absent: true, Why: "is a floating-point number, which ksnoop does not read"}
	}
	signed := a.Size < 0
	size := uint64(max(a.Size, -a.Size))
	number := &btf.Int{Size: uint32(size)}
	if signed {
		number.Encoding = btf.Signed
	}
	number.Name = numberNames[size][flagOf(signed)]
	absent := expr.Param{Type: layout.Word(), Absent: true, Why: "is no integer, or where no program can read it"}
	if a.Unknown || a.Float || number.Name == "" {
		return absent
	}
	sum := expr.Term(&expr.Const{T: layout.Word(), V: uint64(a.Disp)})
	for _, part := range []struct {
		register string
		scale    int64
	}{{a.Base, 1}, {a.Index, a.Scale}} {
		if part.register == "" {
			continue
		}
		word := ptregs.Words(arch, part.register)[0]
		if word < 0 {
			return absent
		}
		x := expr.Term(&expr.Load{T: layout.Word(), Addr: record, Off: int64(8 * word), Width: 8})
		if part.scale != 1 {
			x = &expr.BinaryTerm{T: layout.Word(), Op: expr.OpMul, X: x, Y: &expr.Const{T: layout.Word(), V: uint64(part.scale)}}
		}
		if zero, ok := sum.(*expr.Const); ok && zero.V == 0 {
			sum = x
			continue
		}
		sum = &expr.BinaryTerm{T: layout.Word(), Op: expr.OpAdd, X: x, Y: sum}
	}
	if a.Memory {
		return expr.Param{Type: number, Value: &expr.Load{T: number, Addr: sum, Width: uint32(size), Space: expr.User}}
	}
	if a.Shift != 0 {
		sum = &expr.BinaryTerm{T: layout.Word(), Op: expr.OpShr, X: sum, Y: &expr.Const{T: layout.Word(), V: uint64(a.Shift)}}
	}
	return expr.Param{Type: number, Value: &expr.Convert{T: number, X: sum}}
}

func flagOf(b bool) int {
	if b {
		return 1
	}
	return 0
}
