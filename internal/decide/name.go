// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/ptregs"
	"github.com/ksnoop/ksnoop/layout"
)

// A naming is what something is called.
type naming struct {
	plan.Name
	result bool // a function has returned it
	bits   bool // it is some bits of a number
}

func (n *naming) known() bool { return n.Text != "" }

// A namer names what one function compares: by what was noted of its instructions, else by where
// the code has values from.
type namer struct {
	way       *plan.Way
	params    []layout.Param
	registers []int // that have parameters
}

func newNamer(p *plan.Probe) *namer {
	n := &namer{way: p.Way, registers: ptregs.Arguments(p.Way.Code.Arch)}
	if p.Func.Type == nil || strings.Contains(p.Func.Name, ".") {
		return n // a copy that the compiler made may have other parameters
	}
	if proto, ok := p.Func.Type.Type.(*btf.FuncProto); ok {
		n.params = layout.ParamsOf(proto.Params, proto.Return, n.way.Code.Arch)
	}
	return n
}

// operand names an operand of a site, by its index, which has a value that came from v.
func (n *namer) operand(note *plan.Note, i, size int, v *code.Value) naming {
	by := n.value(v, size)
	if note == nil || i >= len(note.Names) || note.Names[i].Text == "" {
		return by
	}
	noted := naming{Name: note.Names[i]}
	if by.result {
		noted.Text, noted.result = by.Text, true // which says more than a variable's name
	}
	return noted
}

// value names a value by where it comes from: a parameter, what one points to, or what a function
// has returned. These are the types that a recording has in any case.
func (n *namer) value(v *code.Value, size int) naming {
	if v == nil {
		return naming{}
	}
	switch v.Kind {
	case code.Argument:
		name, _ := n.argument(v.Word)
		return name
	case code.Result, code.Opaque:
		return n.result(v, size)
	case code.Sum:
		return sum(n.value(v.Base, size), v.N)
	case code.Masked: // what fills its type has not become less
		if by := n.value(v.Base, size); by.Class.Size > 0 && by.Class.Size < 8 && uint64(v.N) == 1<<(8*by.Class.Size)-1 {
			return by
		}
		return masked(n.value(v.Base, size), uint64(v.N), size)
	case code.Memory:
		if v.Base == nil || v.Base.Kind != code.Argument {
			return naming{}
		}
		if i := n.saved(v); i >= 0 {
			f := &n.way.Syscall[i]
			return naming{Name: plan.Name{Text: f.Name, Class: Declared(f.Decl)}}
		}
		if base, typ := n.argument(v.Base.Word); base.known() {
			return naming{Name: member(base.Text, "->", pointedTo(typ), v.N, v.Size, "")}
		}
	}
	return naming{}
}

// saved returns the parameter of a system call that memory is: one of the registers of user space,
// which the function that serves it gets; -1 if it is none.
func (n *namer) saved(v *code.Value) int {
	if len(n.registers) == 0 || v.Base.Word != n.registers[0] || v.N%8 != 0 {
		return -1
	}
	word := int(v.N / 8)
	if n.way.Code.Arch == "arm64" && word == len(ptregs.Names("arm64")) {
		word = 0 // orig_x0, from which Linux 7.3 takes the first one
	}
	i := slices.Index(ptregs.SyscallArguments(n.way.Code.Arch), word)
	if i >= len(n.way.Syscall) {
		return -1
	}
	return i
}

// declared are types of system calls that are no unsigned int, as include/linux/syscalls.h has them. It is
// never changed.
var declared = map[string]code.Class{
	"unsigned long": {Size: 8}, "size_t": {Size: 8}, "u64": {Size: 8}, "__u64": {Size: 8}, "aio_context_t": {Size: 8},
	"long": {Size: 8, Signed: true}, "loff_t": {Size: 8, Signed: true}, "off_t": {Size: 8, Signed: true},
	"int": {Size: 4, Signed: true}, "__s32": {Size: 4, Signed: true}, "pid_t": {Size: 4, Signed: true}, "clockid_t": {Size: 4, Signed: true}, "timer_t": {Size: 4, Signed: true},
	"mqd_t": {Size: 4, Signed: true}, "key_t": {Size: 4, Signed: true}, "key_serial_t": {Size: 4, Signed: true}, "rwf_t": {Size: 4, Signed: true},
	"umode_t":           {Size: 2},
	"cap_user_header_t": {Size: 8, Pointer: true}, "cap_user_data_t": {Size: 8, Pointer: true}, "__sighandler_t": {Size: 8, Pointer: true},
}

// Declared returns what is certain of a type that a system call declares.
func Declared(decl string) code.Class {
	if strings.HasSuffix(decl, "*") {
		return code.Class{Size: 8, Pointer: true}
	}
	if c, ok := declared[strings.TrimPrefix(decl, "const ")]; ok {
		return c
	}
	return code.Class{Size: 4}
}

func (n *namer) argument(word int) (naming, btf.Type) {
	for i := range n.params {
		p := &n.params[i]
		if p.Absent || p.Loc.Reg < 0 || p.Loc.Ref || p.Loc.Slots != 1 || p.Name == "" || p.Loc.Reg >= len(n.registers) {
			continue
		}
		if n.registers[p.Loc.Reg] == word {
			return naming{Name: plan.Name{Text: p.Name, Class: plan.ClassOf(p.Type)}}, p.Type
		}
	}
	return naming{}, nil
}

// result names what a function has returned, if that is known to be it. Of a part of it nothing is said.
func (n *namer) result(v *code.Value, size int) naming {
	f := n.way.Callees.At(v.Target)
	if v.Target == 0 || f == nil || f.Name == "" || size < 4 && (f.Result.Size == 0 || f.Result.Size > size) {
		return naming{}
	}
	return naming{Name: plan.Name{Text: f.Name + "()", Class: f.Result}, result: true}
}

// masked names the bits of a number that a mask leaves. size is how many bytes are looked at.
func masked(of naming, mask uint64, size int) naming {
	if !of.known() || of.Mask != 0 || of.At != 0 || of.Class.Pointer || size <= 0 || size > 8 {
		return naming{}
	}
	return naming{Name: plan.Name{Text: "(" + of.Text + " & " + maskText(mask, size) + ")", Class: code.Class{Size: size}, Others: of.Others}, bits: true}
}

// maskText writes a mask as the source would: what most bits are set of, as what it leaves out.
func maskText(mask uint64, size int) string {
	all := uint64(1)<<(8*size-1)<<1 - 1
	mask &= all
	if left := mask ^ all; bits.OnesCount64(mask) > 4*size && left != 0 {
		return "~0x" + strconv.FormatUint(left, 16)
	}
	return "0x" + strconv.FormatUint(mask, 16)
}

// sum names a number and what is added to it. Of a pointer, that is not what the source has.
func sum(of naming, add int64) naming {
	if !of.known() || of.Class.Size == 0 || of.Class.Pointer {
		return naming{}
	}
	sign := "+"
	if add < 0 {
		sign = "-"
	}
	return naming{Name: plan.Name{Text: fmt.Sprintf("(%s %s %d)", of.Text, sign, max(add, -add)), Class: of.Class, Others: of.Others}}
}

// member names what a type has at an offset. line is the source's text, if that is at hand, which
// may tell which member of a union is meant.
func member(of, separator string, t btf.Type, off int64, size int, line string) (name plan.Name) {
	if t == nil || off < 0 || off > 1<<31 {
		return name
	}
	found := membersAt(t, separator, uint32(off), size)
	if exact := exactly(found, size); len(exact) > 0 {
		found = exact
	}
	if len(found) == 0 {
		return name
	}
	if one := written(found, line); len(found) > 1 && one != nil {
		found = []place{*one}
	}
	m := &found[0]
	name = plan.Name{Text: of + m.path, Class: plan.ClassOf(m.typ), Mask: m.bits, At: m.at}
	for _, other := range found[1:] {
		name.Others = append(name.Others, of+other.path)
	}
	return name
}

// written returns the one member whose name a line of the source has, nil if there is not one.
func written(found []place, line string) (one *place) {
	for i := range found {
		last := found[i].path[strings.LastIndexAny(found[i].path, ".>")+1:]
		last, _, _ = strings.Cut(last, "[")
		if !mentions(line, last) {
			continue
		}
		if one != nil {
			return nil
		}
		one = &found[i]
	}
	return one
}

// mentions reports whether a line of the source has a word.
func mentions(line, word string) bool {
	ok, _ := regexp.MatchString(`\b`+regexp.QuoteMeta(word)+`\b`, line)
	return ok
}
