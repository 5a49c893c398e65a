// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"slices"
	"sync"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// library returns the engine's functions by name.
var library = sync.OnceValues(func() (map[string]asm.Instructions, error) {
	spec, err := engineObject()
	if err != nil {
		return nil, err
	}
	funcs := map[string]asm.Instructions{}
	for _, program := range []string{engineProgLibrary, engineProgSessionLibrary} {
		for _, f := range split(spec.Programs[program].Instructions) {
			funcs[btf.FuncMetadata(&f[0]).Name] = f
		}
	}
	return funcs, nil
})

// Link joins generated functions, of which the first is the program, with the functions of the engine
// that they call, directly or not. A generated function replaces the engine's of the same name.
func Link(generated ...Subprogram) (asm.Instructions, error) {
	lib, err := library()
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	var out asm.Instructions
	var add func(name string, insns asm.Instructions) error
	own := map[string]asm.Instructions{}
	for _, f := range generated {
		own[f.Name] = f.Instructions()
	}
	add = func(name string, insns asm.Instructions) error {
		if have[name] {
			return nil
		}
		have[name] = true
		if insns == nil {
			return fmt.Errorf("linking: no function %s", name)
		}
		out = append(out, static(insns)...)
		for _, ref := range insns.FunctionReferences() {
			callee := own[ref]
			if callee == nil {
				callee = lib[ref]
			}
			if err := add(ref, callee); err != nil {
				return err
			}
		}
		return nil
	}
	return out, add(generated[0].Name, own[generated[0].Name])
}

// LinkEnds makes one program for both ends of a call: choose finds out at which end it runs, and
// calls entry[0] or ret[0]. Both halves are linked by themselves, since their functions may have the
// same names.
func LinkEnds(choose Subprogram, entry, ret []Subprogram) (asm.Instructions, error) {
	out := static(choose.Instructions())
	for i, half := range [][]Subprogram{entry, ret} {
		if len(half) == 0 {
			continue // choose does not call it
		}
		insns, err := Link(half...)
		if err != nil {
			return nil, err
		}
		out = append(out, renamed(insns, half[0].Name, [...]string{"@entry", "@return"}[i])...)
	}
	return out, nil
}

// LinkJoined is LinkEnds without the calls: entry[0] and ret[0] become parts of the program. head
// falls through to entry[0] and jumps to ret[0] by its name.
func LinkJoined(head Subprogram, entry, ret []Subprogram) (asm.Instructions, error) {
	program := slices.Clone(head.Insns)
	var rest asm.Instructions
	for i, half := range [][]Subprogram{entry, ret} {
		insns, err := Link(half...)
		if err != nil {
			return nil, err
		}
		insns = renamed(insns, half[0].Name, [...]string{"@entry", "@return"}[i])
		body := plain(split(insns)[0])
		if i > 0 {
			body[0] = body[0].WithSymbol(half[0].Name)
		}
		program = append(program, body...)
		rest = append(rest, insns[len(body):]...)
	}
	head.Insns = program
	return append(static(head.Instructions()), rest...), nil
}
