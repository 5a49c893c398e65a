// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"github.com/cilium/ebpf/asm"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/layout"
)

// StashFor returns a stash with room for the calls of all probes: the size of the largest
// frame, and the number of frames that one call may need. Functions of the process often call themselves:
// there, it is as many as the kernel sees returns of.
func StashFor(probes []*layout.Probe) bpf.Stash {
	var data, most uint32
	perCall := map[string]uint32{} // by function name
	any := false
	for _, p := range probes {
		if p.Role == layout.RoleCall && p.Stashed && p.Return.Record != nil {
			any = true
			data = max(data, p.Return.Record.Size)
			perCall[p.Name]++
			most = max(most, perCall[p.Name])
			if p.Method == layout.MethodUprobe {
				most = max(most, bpf.MaxUserDepth)
			}
		}
	}
	if !any {
		return bpf.Stash{}
	}
	return bpf.NewStash(data, most)
}

// inPlace reports whether the program finds the frame of a call itself instead of calling
// the engine. This is faster, and only done where it matters.
func (a *assembler) inPlace() bool { return a.probe.Method == layout.MethodFentry && !a.target.Shared }

// inProcess reports whether the function is the process's.
func (a *assembler) inProcess() bool { return a.probe.Method == layout.MethodUprobe }

// frameReg holds the frame.
const frameReg = captureData

func (a *assembler) home() {
	a.emit(a.target.Stash.AppendHome(nil, frameReg, a.ctx, uint32(a.probe.ID))...)
}

// isOurs continues if the frame belongs to this call and probe, and jumps to label if not.
func (a *assembler) isOurs(label string) {
	a.emit(asm.LoadMem(asm.R0, frameReg, int16(bpf.FrameName), asm.DWord), asm.JNE.Reg(asm.R0, a.ctx, label))
	a.isOurProbe(label)
}

func (a *assembler) isOurProbe(label string) {
	a.emit(asm.LoadMem(asm.R0, frameReg, int16(bpf.FrameProbe), asm.Word), asm.JNE.Imm(asm.R0, int32(a.probe.ID), label))
}

// unlessFar jumps to label if all frames are in their home places, so that a search would
// find nothing.
func (a *assembler) unlessFar(label string) {
	a.emit(bpf.AppendFar(nil, asm.R0)...)
	a.emit(asm.JEq.Imm(asm.R0, 0, label))
}

// callNamed calls an engine function that takes the name of a call: its key and its probe.
func (a *assembler) callNamed(name string) {
	a.emit(asm.Mov.Reg(asm.R1, a.ctx), asm.Mov.Imm(asm.R2, int32(a.probe.ID)), call(name))
}

// openInPlace takes a frame that the return program can find, and leaves it in frameReg.
func (a *assembler) openInPlace() {
	a.say("take a frame for the call")
	far, taken := a.label("far"), a.label("taken")
	a.home()
	a.emit(bpf.AppendClaim(nil, frameReg, a.ctx)...)
	a.emit(asm.JEq.Imm(asm.R0, 0, taken), asm.JNE.Reg(asm.R0, a.ctx, far))
	a.isOurProbe(far)
	a.emit(asm.Ja.Label(taken))
	a.place(far)
	if a.again != "" { // it calls helpers
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

// storeZero stores 8 bytes of zeroes. asm.StoreImm stores at most 4.
func storeZero(dst asm.Register, offset int16) asm.Instruction {
	return asm.Instruction{OpCode: asm.StoreImmOp(asm.DWord), Dst: dst, Offset: offset}
}

// forget ends an entry program. If the call is not wanted, it frees a frame with the same
// key that an earlier call left behind because its return was missed. The return program
// would take it for this call's.
func (a *assembler) forget() {
	a.notWanted()
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

// forgetUser is forget for a function of the process. It needs the guard: the engine may read the process's stack.
func (a *assembler) forgetUser() {
	a.notWanted()
	a.exits = exits{drop: a.label("forgotten"), fault: a.fault}
	a.hold()
	a.probeID()
	a.userName(asm.R3, asm.R4)
	a.emit(call(bpf.FuncForgetUser))
	a.leave()
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
}

func (a *assembler) notWanted() {
	a.letGo()
	a.say("done")
	a.emit(asm.Mov.Imm(asm.R0, 0), asm.Return())
	a.leave()
	a.say("not wanted; is there an old frame in its place?")
}

// storesInOrder reports whether other CPUs see stores in program order.
func (a *assembler) storesInOrder() bool { return a.target.Arch == "amd64" }

// find loads the call's frame into frameReg, or jumps to a.drop if there is none. The
// returned function far emits the search for a frame that is not in its home place; its
// code goes behind the program. ask says that the switch has not been tested yet, so the
// search must test it.
func (a *assembler) find(ask bool) (far func()) {
	a.say("find what entry has stashed")
	a.frame = frameReg
	if !a.inPlace() {
		a.probeID()
		a.stackKey(asm.R1)
		find := bpf.FuncFind
		if a.inProcess() {
			find = bpf.FuncFindUser
		}
		a.emit(call(find), asm.JEq.Imm(asm.R0, 0, a.drop), asm.Mov.Reg(a.frame, asm.R0))
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

// free gives back the frame that find found.
func (a *assembler) free() {
	a.say("free the frame")
	done := a.label("freed")
	if a.inPlace() {
		far := a.label("free_far")
		a.emit(asm.LoadMem(asm.R0, a.frame, int16(bpf.FrameFar), asm.Half), asm.JNE.Imm(asm.R0, 0, far))
		a.emit(bpf.AppendFree(nil, a.frame, a.storesInOrder())...)
		a.emit(asm.Ja.Label(done))
		a.place(far)
	}
	a.emit(asm.Mov.Reg(asm.R1, a.frame), call(bpf.FuncFree))
	a.place(done)
}
