// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
)

// enterPath marks a call whose way may be wanted.
func (a *assembler) enterPath() {
	a.keepContext()
	a.say("mark the call in the way of those that it is made in")
	a.stackKey(asm.R1)
	a.emit(call(bpf.FuncEnterPath))
}

// openPath has the way of a call that is wanted kept.
func (a *assembler) openPath() {
	a.say("keep the way of the call")
	a.stackKey(asm.R1)
	a.emit(asm.Mov.Imm(asm.R2, int32(a.probe.ID)), call(bpf.FuncOpenPath))
}

// leavePath forgets the way of a call.
func (a *assembler) leavePath() {
	a.say("forget the way of the call")
	a.stackKey(asm.R1)
	a.emit(call(bpf.FuncLeavePath))
}
