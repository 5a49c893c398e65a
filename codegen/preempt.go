// SPDX-License-Identifier: Apache-2.0

package codegen

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
)

// pseudoBTFID marks a load of a kernel variable's address, by its BTF id
// (BPF_PSEUDO_BTF_ID).
const pseudoBTFID = asm.Register(3)

// Bits of the preemption count (linux/preempt.h): that a software interrupt is being served, and where the numbers of
// hardware and of non-maskable interrupts are, of 4 bits each.
const (
	servingSoftirq = 0x100
	hardirqShift   = 16
	nmiShift       = 20
)

// preemptCount returns what reads the preemption count into R0, without the subprogram's end; nil if it is not known.
func (t *Options) preemptCount() asm.Instructions {
	for _, f := range t.Subprograms {
		if f.Name == bpf.FuncPreemptCount {
			return slices.Clone(f.Insns[:len(f.Insns)-1])
		}
	}
	return nil
}

// PreemptCount generates the function that tells the engine whether the CPU is serving an
// interrupt. types is the BTF of the kernel that the code runs on. The function returns the count
// as Linux had it from 2.6.30 to 7.2.
func PreemptCount(arch string, types *btf.Spec) (bpf.Subprogram, error) {
	var insns asm.Instructions
	var err error
	switch arch {
	case "amd64":
		insns, err = preemptCountOfCPU(types)
	case "arm64":
		insns, err = preemptCountOfTask(types)
	default:
		err = fmt.Errorf("not known for %s", arch)
	}
	if err != nil {
		return bpf.Subprogram{}, fmt.Errorf("finding the kernel's preemption count: %w", err)
	}
	if countsDisabling(types) {
		insns = append(insns[:len(insns)-1], asm.Mov.Reg(asm.R1, asm.R0), asm.And.Imm(asm.R0, 0xffff),
			asm.RSh.Imm(asm.R1, 8), asm.And.Imm(asm.R1, 0x7f0000), asm.Or.Reg(asm.R0, asm.R1), asm.Return())
	}
	return bpf.Subprogram{Name: bpf.FuncPreemptCount, Insns: insns}, nil
}

// countsDisabling reports whether the preemption count also counts how often interrupts have been disabled, as from
// Linux 7.3 on (HARDIRQ_DISABLE_BITS). Then it has the numbers of interrupts 8 bits further up: 4 bits for hardware
// interrupts, and for non-maskable ones 4 where PREEMPT_NEED_RESCHED is elsewhere, else 1 (HAS_SEPARATE_PREEMPT_RESCHED_BITS).
// The highest bit is PREEMPT_NEED_RESCHED or the number's, which does not get so high: it is left out.
func countsDisabling(types *btf.Spec) bool {
	var state *btf.Var
	return types.TypeByName("local_interrupt_disable_state", &state) == nil
}

// preemptCountOfCPU is for x86, where the count is a per-CPU variable: __preempt_count or,
// from Linux 6.2 to 6.14, a member of pcpu_hot.
func preemptCountOfCPU(types *btf.Spec) (asm.Instructions, error) {
	var v *btf.Var
	offset := uint32(0)
	if types.TypeByName("__preempt_count", &v) != nil {
		if types.TypeByName("pcpu_hot", &v) != nil {
			return nil, errors.New("there is neither __preempt_count nor pcpu_hot")
		}
		var ok bool
		if offset, ok = MemberOffset(v.Type, "preempt_count"); !ok {
			return nil, errors.New("pcpu_hot has no preempt_count")
		}
	}
	id, err := types.TypeID(v)
	if err != nil {
		return nil, err
	}
	return asm.Instructions{
		{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R1, Src: pseudoBTFID, Constant: int64(id)},
		asm.FnThisCpuPtr.Call(),
		asm.LoadMem(asm.R0, asm.R0, int16(offset), asm.Word),
		asm.Return(),
	}, nil
}

// preemptCountOfTask is for arm64, where each thread has its count in its thread_info.
func preemptCountOfTask(types *btf.Spec) (asm.Instructions, error) {
	var task, info *btf.Struct
	if err := errors.Join(types.TypeByName("task_struct", &task), types.TypeByName("thread_info", &info)); err != nil {
		return nil, err
	}
	base, ok1 := MemberOffset(task, "thread_info")
	offset, ok2 := MemberOffset(info, "preempt_count")
	if !ok1 || !ok2 {
		return nil, errors.New("a task has no thread_info with a preempt_count")
	}
	return asm.Instructions{
		asm.FnGetCurrentTaskBtf.Call(),
		asm.LoadMem(asm.R0, asm.R0, int16(base+offset), asm.Word),
		asm.Return(),
	}, nil
}

// MemberOffset returns the offset in bytes of a member of a struct or union. It looks into
// anonymous members too.
func MemberOffset(t btf.Type, name string) (uint32, bool) {
	var members []btf.Member
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	}
	for _, m := range members {
		if m.Name == name {
			return m.Offset.Bytes(), true
		}
		if m.Name == "" {
			if off, ok := MemberOffset(m.Type, name); ok {
				return m.Offset.Bytes() + off, true
			}
		}
	}
	return 0, false
}
