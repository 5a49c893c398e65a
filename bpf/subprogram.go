// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// A Subprogram is generated code: instructions that take up to five arguments in R1 to R5 and leave
// the result in R0.
type Subprogram struct {
	Name  string
	Args  int
	Insns asm.Instructions
}

// Instructions returns the instructions with a symbol and BTF: if one function of a program has BTF,
// the kernel wants it of all.
func (f Subprogram) Instructions() asm.Instructions {
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	proto := &btf.FuncProto{Return: long}
	for i := range f.Args {
		proto.Params = append(proto.Params, btf.FuncParam{Name: string(rune('a' + i)), Type: long})
	}
	insns := make(asm.Instructions, len(f.Insns))
	copy(insns, f.Insns)
	insns[0] = btf.WithFuncMetadata(insns[0].WithSymbol(f.Name), &btf.Func{Name: f.Name, Type: proto, Linkage: btf.StaticFunc})
	if insns[0].Source() == nil {
		insns[0] = insns[0].WithSource(asm.Comment(f.Name))
	}
	return insns
}

// split cuts a stream of instructions at the first instruction of each function.
func split(insns asm.Instructions) []asm.Instructions {
	var funcs []asm.Instructions
	for i := range insns {
		if btf.FuncMetadata(&insns[i]) != nil {
			funcs = append(funcs, nil)
		}
		last := len(funcs) - 1
		funcs[last] = append(funcs[last], insns[i])
	}
	return funcs
}

// alone has functions that the verifier checks once for each program, not at each call. They take
// nothing but numbers and return a number, which is what the kernel allows of global functions. To explore
// ks_mark and ks_send_session at each call was most of the work of loading a program of sessions.
var alone = map[string]bool{"ks_mark": true, "ks_inner_ids": true, "ks_explains": true,
	"ks_send_session": true, "ks_take_again": true, "ks_put_again": true,
	"ks_claim_far": true, "ks_claim_far_user": true, "ks_seek_far": true, "ks_waiting": true}

// static returns a copy of a function's instructions whose BTF says that the function is static. The
// verifier checks a static function at each call, with the types and values of the arguments. It
// checks a global function by itself, and knows neither; those named in alone stay global.
func static(insns asm.Instructions) asm.Instructions {
	out := make(asm.Instructions, len(insns))
	copy(out, insns)
	if fn := btf.FuncMetadata(&out[0]); fn != nil && fn.Linkage != btf.StaticFunc && !alone[fn.Name] {
		c := *fn
		c.Linkage = btf.StaticFunc
		out[0] = btf.WithFuncMetadata(out[0], &c)
	}
	return out
}

// plain returns a copy of a function's instructions without what makes them a function, so that
// another function can contain them.
func plain(insns asm.Instructions) asm.Instructions {
	out := make(asm.Instructions, len(insns))
	for i, ins := range insns {
		out[i] = asm.Instruction{OpCode: ins.OpCode, Dst: ins.Dst, Src: ins.Src, Offset: ins.Offset, Constant: ins.Constant}.
			WithSource(ins.Source()).WithReference(ins.Reference())
		if i > 0 && ins.Symbol() != "" {
			out[i] = out[i].WithSymbol(ins.Symbol())
		}
	}
	return out
}

// renamed returns a copy of linked functions with a suffix added to all names except keep.
func renamed(insns asm.Instructions, keep, suffix string) asm.Instructions {
	functions := map[string]bool{}
	for i := range insns {
		if fn := btf.FuncMetadata(&insns[i]); fn != nil {
			functions[insns[i].Symbol()] = insns[i].Symbol() != keep
		}
	}
	out := make(asm.Instructions, len(insns))
	for i, ins := range insns {
		if functions[ins.Symbol()] {
			ins = ins.WithSymbol(ins.Symbol() + suffix)
		}
		if functions[ins.Reference()] {
			ins = ins.WithReference(ins.Reference() + suffix)
		}
		out[i] = ins
	}
	return out
}
