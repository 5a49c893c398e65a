// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/ptregs"
	"github.com/ksnoop/ksnoop/layout"
)

// Names are what is known of a kernel. *symbols.Resolver implements it.
type Names interface {
	// Function returns the function that begins at an address.
	Function(addr uint64) (name string, ok bool)
	// Returns returns the type of what a function returns; nil if it is not known.
	Returns(function string) btf.Type
	// Types returns the types with a spelling, as kernel.View does.
	Types(spelling, module string) []btf.Type
	// Variables returns the variables at an address; none without debug info.
	Variables(addr uint64) []debuginfo.Variable
	// Line returns the source's text at an address; "" if it is not at hand.
	Line(addr uint64) string
}

// namers are what the decisions of one function are named with.
type namers struct {
	names     Names
	arch      string
	module    string
	params    []layout.Param
	registers []int
}

func namersOf(p *plan.Probe, names Names) *namers {
	n := &namers{names: names, arch: p.Way.Code.Arch, module: p.Func.Module}
	n.registers = ptregs.Arguments(n.arch)
	if p.Func.Type == nil || strings.Contains(p.Func.Name, ".") {
		return n // a copy that the compiler made may have other parameters
	}
	if proto, ok := p.Func.Type.Type.(*btf.FuncProto); ok {
		n.params = layout.ParamsOf(proto.Params, proto.Return, n.arch)
	}
	return n
}

// others says what is special about functions, by their names.
func others(names Names) code.Others {
	return code.Others{
		Returns: func(addr uint64) bool {
			name, ok := names.Function(addr)
			return ok && strings.HasSuffix(name, "return_thunk")
		},
		Ends: func(addr uint64) bool {
			name, ok := names.Function(addr)
			return ok && slices.Contains(noReturn[:], name)
		},
	}
}

// noReturn are functions that never come back: tools/objtool/noreturns.h has those of Linux 6.12.
var noReturn = [...]string{"__stack_chk_fail", "panic", "nmi_panic", "do_exit", "do_group_exit", "make_task_dead", "rewind_stack_and_make_dead", "__fortify_panic",
	"fortify_panic", "usercopy_abort", "kthread_exit", "kthread_complete_and_exit", "__module_put_and_kthread_exit", "vhost_task_exit"}

// A naming is what something is called.
type naming struct {
	text   string
	typ    btf.Type // nil: not known
	signed bool     // if typ is not known
	mask   uint64   // of a bit field: its bits
	at     uint32   // how many bytes of it are before what was read
	result bool     // a function has returned it
	// others are what else may be meant, members of a union.
	others []string
}

func (n *naming) known() bool { return n.text != "" }

// A namer names what one decision compared.
type namer struct {
	*namers
	addr      uint64 // of the comparison
	variables []debuginfo.Variable
	line      string // of the source; "" if there is none
}

// operand names an operand by the variables that are there, else by where the code has it from.
func (n *namer) operand(o *code.Operand, v *code.Value) naming {
	for i := range n.variables {
		if name := n.byVariable(&n.variables[i], o); name.known() {
			if called := n.value(v, o.Size); called.result {
				name.text, name.result = called.text, true // which says more than a variable's name
			}
			return name
		}
	}
	return n.value(v, o.Size)
}

// byVariable names an operand that a variable, or what it points to, is.
func (n *namer) byVariable(v *debuginfo.Variable, o *code.Operand) naming {
	ops := v.Place.Ops
	// A macro's own variables are not in the source's words.
	if strings.HasPrefix(v.Name, "__") || len(ops) == 0 || ops[0].Code != debuginfo.OpRegister || o.Index != code.None || o.Shift != 0 {
		return naming{}
	}
	word, ok := ptregs.DWARF(n.arch, ops[0].N)
	if !ok || word != o.Base {
		return naming{}
	}
	disp := int64(0)
	switch {
	case len(ops) == 3 && ops[1].Code == debuginfo.OpConst && ops[2].Code == debuginfo.OpAdd:
		disp = int64(ops[1].N)
	case len(ops) != 1:
		return naming{}
	}
	switch {
	case !o.Memory && !v.Place.Memory && disp == 0 && int(v.Type.Size) <= 8 && o.Size <= max(int(v.Type.Size), 4):
		return naming{text: v.Name, typ: n.typeNamed(v.Type.Name), signed: v.Type.Signed}
	case o.Memory && !v.Place.Memory:
		return n.member(v.Name, pointedTo(n.typeNamed(v.Type.Name)), o.Disp-disp, o.Size)
	case o.Memory && v.Place.Memory && o.Disp == disp && o.Size == int(v.Type.Size):
		return naming{text: v.Name, typ: n.typeNamed(v.Type.Name), signed: v.Type.Signed}
	}
	return naming{}
}

// typeNamed finds a type by how debug info spells it; nil if it is not known.
func (n *namer) typeNamed(spelling string) btf.Type {
	name := strings.TrimPrefix(spelling, "const ")
	base, stars := strings.CutSuffix(name, " *")
	if !stars {
		base = name
	}
	found := n.names.Types(base, n.module)
	if len(found) != 1 {
		return nil
	}
	if stars {
		return &btf.Pointer{Target: found[0]}
	}
	return found[0]
}

// member names what a type has at an offset.
func (n *namer) member(pointer string, t btf.Type, off int64, size int) naming {
	if t == nil || off < 0 || off > 1<<31 {
		return naming{}
	}
	found := membersAt(t, uint32(off), size)
	if exact := exactly(found, size); len(exact) > 0 {
		found = exact
	}
	switch {
	case len(found) == 0:
		return naming{}
	case len(found) > 1:
		if one := n.written(found); one != nil {
			found = []member{*one}
		}
	}
	m := &found[0]
	name := naming{text: pointer + m.path, typ: m.typ, mask: m.bits, at: m.at}
	for _, other := range found[1:] {
		name.others = append(name.others, pointer+other.path)
	}
	return name
}

// written returns the one member whose name the source has in the line, nil if there is not one.
func (n *namer) written(found []member) (one *member) {
	if n.line == "" {
		return nil
	}
	for i := range found {
		last := found[i].path[strings.LastIndexAny(found[i].path, ".>")+1:]
		last, _, _ = strings.Cut(last, "[")
		if ok, _ := regexp.MatchString(`\b`+regexp.QuoteMeta(last)+`\b`, n.line); !ok {
			continue
		}
		if one != nil {
			return nil
		}
		one = &found[i]
	}
	return one
}

// value names a value by where it comes from.
func (n *namer) value(v *code.Value, size int) naming {
	if v == nil {
		return naming{}
	}
	switch v.Kind {
	case code.Argument:
		return n.argument(v.Word)
	case code.Result:
		return n.result(v, size)
	case code.Sum:
		return n.sum(n.value(v.Base, size), v.N)
	case code.Memory:
		base := n.value(v.Base, 8)
		if !base.known() || len(base.others) > 0 || base.typ == nil {
			return naming{}
		}
		return n.member(base.text, pointedTo(base.typ), v.N, v.Size)
	}
	return naming{}
}

func (n *namer) argument(word int) naming {
	for i := range n.params {
		p := &n.params[i]
		if p.Absent || p.Loc.Reg < 0 || p.Loc.Ref || p.Loc.Slots != 1 || p.Name == "" || p.Loc.Reg >= len(n.registers) {
			continue
		}
		if n.registers[p.Loc.Reg] == word {
			return naming{text: p.Name, typ: p.Type}
		}
	}
	return naming{}
}

// result names what a function has returned. Of a part of it nothing is said.
func (n *namer) result(v *code.Value, size int) naming {
	name, ok := n.names.Function(v.Target)
	if v.Target == 0 || !ok || strings.HasPrefix(name, "__x86_indirect_thunk") {
		return naming{}
	}
	typ := n.names.Returns(name)
	if has, err := btf.Sizeof(orVoid(typ)); size < 4 && (typ == nil || err != nil || has > size) {
		return naming{}
	}
	return naming{text: name + "()", typ: typ, result: true}
}

// sum names a number and what is added to it. Of a pointer, that is not what the source has.
func (n *namer) sum(of naming, add int64) naming {
	if _, number := btf.UnderlyingType(orVoid(of.typ)).(*btf.Int); !number || !of.known() || len(of.others) > 0 {
		return naming{}
	}
	sign := "+"
	if add < 0 {
		sign = "-"
	}
	return naming{text: fmt.Sprintf("(%s %s %d)", of.text, sign, max(add, -add)), typ: of.typ}
}
