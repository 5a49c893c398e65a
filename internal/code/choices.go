// SPDX-License-Identifier: Apache-2.0

package code

import "golang.org/x/arch/x86/x86asm"

// Choices yields the instructions that make a value by the flags, without a jump.
func (f *Function) Choices(g *Graph) func(yield func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for i := range g.Instructions {
			if addr := g.Instructions[i].Addr; f.chooses(addr) && !yield(addr) {
				return
			}
		}
	}
}

func (f *Function) chooses(addr uint64) bool {
	if f.Arch == "arm64" {
		return f.operationAt(addr).do == doChoose
	}
	x, ok := f.decodedAMD64(addr)
	return ok && isChoice(x.Op)
}

// Computes reports whether an instruction changes what the flags behind it are about, other than
// one that only compares. What cannot be decoded may.
func (f *Function) Computes(addr uint64) bool {
	if f.Arch == "arm64" {
		o := f.operationAt(addr)
		return o.do == doAnything || o.d != noWord
	}
	x, ok := f.decodedAMD64(addr)
	return !ok || x.Op != x86asm.CMP && x.Op != x86asm.TEST && x.Op != x86asm.BT
}

func (f *Function) decodedAMD64(addr uint64) (x x86asm.Inst, ok bool) {
	if f.Arch != "amd64" {
		return x, false
	}
	x, err := decodeX86(f.codeAt(addr))
	return x, err == nil
}
