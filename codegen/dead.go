// SPDX-License-Identifier: Apache-2.0

package codegen

import "github.com/cilium/ebpf/asm"

// reachable drops instructions that cannot be reached. Constant conditions leave some
// behind, and the verifier refuses a program that has any.
func reachable(insns asm.Instructions) asm.Instructions {
	if len(insns) == 0 {
		return insns
	}
	at := map[string]int{}
	for i := range insns {
		if s := insns[i].Symbol(); s != "" {
			at[s] = i
		}
	}
	seen := make([]bool, len(insns))
	todo := []int{0}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for i < len(insns) && !seen[i] {
			seen[i] = true
			ins := &insns[i]
			if !ins.OpCode.Class().IsJump() {
				i++
				continue
			}
			op := ins.OpCode.JumpOp()
			if op == asm.Exit {
				break
			}
			if op == asm.Call {
				i++
				continue
			}
			if to, ok := at[ins.Reference()]; ok {
				todo = append(todo, to)
			}
			if op == asm.Ja {
				break
			}
			i++
		}
	}
	live := insns[:0]
	for i := range insns {
		if seen[i] {
			live = append(live, insns[i])
		}
	}
	return live
}
