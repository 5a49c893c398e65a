// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/layout"
)

// StashFor returns a stash that has frames for the calls of all probes.
func StashFor(probes []*layout.Probe) bpf.Stash {
	var data, most uint32
	perCall := map[string]uint32{} // by function
	any := false
	for _, p := range probes {
		if p.Role == layout.RoleCall && p.Stashed && p.Return.Record != nil {
			any = true
			data = max(data, p.Return.Record.Size)
			perCall[p.Name]++
			most = max(most, perCall[p.Name])
		}
	}
	if !any {
		return bpf.Stash{}
	}
	return bpf.NewStash(data, most)
}

// inPlace reports whether a program finds the home of a call's frame by itself,
// rather than by the engine's functions: where it has to be quick.
func (a *assembler) inPlace() bool { return a.probe.Method == layout.MethodFentry && !a.target.Shared }

// The register that holds a frame.
const frameReg = captureData

func (a *assembler) home() {
	a.emit(a.target.Stash.AppendHome(nil, frameReg, a.ctx, uint32(a.probe.ID))...)
}

// isOurs goes on if the frame is that of this call and probe, and jumps to label if not.
func (a *assembler) isOurs(label string) {
	a.emit(asm.LoadMem(asm.R0, frameReg, int16(bpf.FrameName), asm.DWord), asm.JNE.Reg(asm.R0, a.ctx, label))
	a.isOurProbe(label)
}

func (a *assembler) isOurProbe(label string) {
	a.emit(asm.LoadMem(asm.R0, frameReg, int16(bpf.FrameProbe), asm.Word), asm.JNE.Imm(asm.R0, int32(a.probe.ID), label))
}

// unlessFar jumps to label if no frame is far away: there is none to look for.
func (a *assembler) unlessFar(label string) {
	a.emit(bpf.AppendFar(nil, asm.R0)...)
	a.emit(asm.JEq.Imm(asm.R0, 0, label))
}

// callNamed calls a function of the engine that takes what names a call.
func (a *assembler) callNamed(name string) {
	a.emit(asm.Mov.Reg(asm.R1, a.ctx), asm.Mov.Imm(asm.R2, int32(a.probe.ID)), call(name))
}

// openInPlace takes a frame for the return program to find; it is in frameReg.
func (a *assembler) openInPlace() {
	a.say("take a frame for the call")
	far, taken := a.label("far"), a.label("taken")
	a.home()
	a.emit(bpf.AppendClaim(nil, frameReg, a.ctx)...)
	a.emit(asm.JEq.Imm(asm.R0, 0, taken), asm.JNE.Reg(asm.R0, a.ctx, far))
	a.isOurProbe(far)
	a.emit(asm.Ja.Label(taken))
	a.place(far)
	if a.guarded() && a.again != "" { // it calls helpers
		a.againUsed = true
		a.emit(asm.Ja.Label(a.again))
	} else {
		a.callNamed(bpf.FuncOpenFar)
		a.emit(asm.JEq.Imm(asm.R0, 0, a.drop), asm.Mov.Reg(frameReg, asm.R0))
	}
	a.place(taken)
	a.emit(asm.StoreImm(frameReg, int16(bpf.FrameProbe), int64(a.probe.ID), asm.Word))
	if !a.probe.Joined {
		a.emit(storeZero(frameReg, int16(bpf.FrameFaults)))
	}
	if a.probe.Timed {
		a.helper(asm.FnKtimeGetNs)
		a.emit(asm.StoreMem(frameReg, int16(bpf.FrameEntry), asm.R0, asm.DWord))
	}
}

// storeZero stores 8 bytes; asm.StoreImm takes no more than 4.
func storeZero(dst asm.Register, offset int16) asm.Instruction {
	return asm.Instruction{OpCode: asm.StoreImmOp(asm.DWord), Dst: dst, Offset: offset}
}

// forget ends an entry program: for a call that is not wanted it gives back the
// frame of an earlier one of the same name that has returned unseen. The return
// program would take it for this call's.
func (a *assembler) forget() {
	a.letGo()
	a.say("done")
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	a.leave()
	a.say("not wanted; is there an old frame in its place?")
	other, done := a.label("other"), a.label("done")
	a.home()
	a.isOurs(other)
	a.emit(bpf.AppendFree(nil, frameReg, a.storesInOrder())...)
	a.emit(asm.Ja.Label(done))
	a.place(other)
	a.unlessFar(done)
	a.callNamed(bpf.FuncForget)
	a.place(done)
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
}

// storesInOrder reports whether the machine makes stores visible in their order.
func (a *assembler) storesInOrder() bool { return a.target.Arch == "amd64" }

// find goes on with the frame of the call in frameReg, and jumps to a.drop if
// there is none. Where the frame is not at home, it is looked for in far, which
// is to be placed behind the program, unless the switch is off if that has not been
// asked before.
func (a *assembler) find(ask bool) (far func()) {
	a.say("find what entry has stashed")
	a.frame = frameReg
	if !a.inPlace() {
		a.probeID()
		a.stackKey(asm.R1)
		a.emit(call(bpf.FuncFind), asm.JEq.Imm(asm.R0, 0, a.drop), asm.Mov.Reg(a.frame, asm.R0))
		return func() {}
	}
	away, found, miss := a.label("away"), a.label("found"), a.drop
	a.home()
	a.isOurs(away)
	a.place(found)
	return func() {
		a.say("the frame is not at home")
		a.place(away)
		if ask {
			a.emit(bpf.AppendRunning(nil, asm.R0)...)
			a.emit(asm.JEq.Imm(asm.R0, int32(bpf.Off), miss))
		}
		a.unlessFar(miss)
		a.callNamed(bpf.FuncFindFar)
		a.emit(asm.JEq.Imm(asm.R0, 0, miss), asm.Mov.Reg(frameReg, asm.R0), asm.Ja.Label(found))
	}
}

// free gives back the frame that find has found.
func (a *assembler) free() {
	a.say("free the frame")
	done := a.label("freed")
	if a.inPlace() {
		far := a.label("free_far")
		a.emit(asm.LoadMem(asm.R0, a.frame, int16(bpf.FrameFar), asm.Word), asm.JNE.Imm(asm.R0, 0, far))
		a.emit(bpf.AppendFree(nil, a.frame, a.storesInOrder())...)
		a.emit(asm.Ja.Label(done))
		a.place(far)
	}
	a.emit(asm.Mov.Reg(asm.R1, a.frame), call(bpf.FuncFree))
	a.place(done)
}
