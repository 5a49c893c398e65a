// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
)

// A requirement is something of the kernel's BPF that programs use.
type requirement struct {
	Name  string
	Since version
	has   func() bool
}

// mapsSince and helpersSince are when Linux got what is newer. A test looks after
// them: all that the engine and generated programs use is in here.
var (
	mapsSince = map[ebpf.MapType]version{
		ebpf.Hash: oldest, ebpf.Array: oldest, ebpf.PerCPUArray: oldest, ebpf.LRUHash: oldest,
		ebpf.RingBuf: {5, 8},
	}
	helpersSince = map[asm.BuiltinFunc]version{
		asm.FnMapLookupElem: oldest, asm.FnMapUpdateElem: oldest, asm.FnMapDeleteElem: oldest,
		asm.FnKtimeGetNs: oldest, asm.FnGetSmpProcessorId: oldest, asm.FnGetStack: oldest,
		asm.FnGetCurrentPidTgid: oldest, asm.FnGetCurrentUidGid: oldest, asm.FnGetCurrentComm: oldest, asm.FnGetCurrentTask: oldest,
		asm.FnProbeReadKernel: oldest, asm.FnProbeReadKernelStr: oldest, asm.FnProbeReadUser: oldest, asm.FnProbeReadUserStr: oldest,
		asm.FnGetCurrentAncestorCgroupId: {5, 7},
		asm.FnRingbufReserve:             {5, 8},
		asm.FnRingbufSubmit:              {5, 8},
		asm.FnRingbufOutput:              {5, 8},
		asm.FnGetTaskStack:               {5, 9},
		asm.FnThisCpuPtr:                 {5, 10},
		asm.FnGetCurrentTaskBtf:          {5, 11},
		asm.FnGetFuncIp:                  {5, 15},
		asm.FnTailCall:                   oldest,
		asm.FnGetAttachCookie:            {5, 15},
		asm.FnTaskPtRegs:                 {5, 15},
		asm.FnGetBranchSnapshot:          {5, 16},
		asm.FnGetCurrentCgroupId:         {4, 18},
		asm.FnLoop:                       {5, 17},
		asm.FnRingbufReserveDynptr:       {5, 19},
		asm.FnRingbufSubmitDynptr:        {5, 19},
		asm.FnRingbufDiscardDynptr:       {5, 19},
		asm.FnDynptrWrite:                {5, 19},
		asm.FnGetFuncArg:                 {5, 17},
		asm.FnGetFuncRet:                 {5, 17},
	}
)

// atomicsSince is when atomic operations that return the old value came, by architecture.
var atomicsSince = map[string]version{"amd64": {5, 12}, "arm64": {5, 18}}

// requirements lists, oldest first, what maps and programs use that some kernel
// since Linux 5.5 lacks. What is not known counts as newer than any kernel, so
// that the test of the tables fails.
func requirements(spec *ebpf.CollectionSpec, arch string) []requirement {
	found := map[string]requirement{}
	add := func(name string, since version, has func() bool) {
		if since != oldest {
			found[name] = requirement{name, since, has}
		}
	}
	for _, m := range spec.Maps {
		add("maps of type "+m.Type.String(), since(mapsSince, m.Type), func() bool { return notLacking(features.HaveMapType(m.Type)) })
	}
	for _, prog := range spec.Programs {
		for i := range prog.Instructions {
			ins := &prog.Instructions[i]
			switch op := ins.OpCode.AtomicOp(); {
			case ins.IsBuiltinCall():
				fn := asm.BuiltinFunc(ins.Constant)
				add(helperName(fn), since(helpersSince, fn), func() bool { return hasHelper(fn) })
			case op != asm.InvalidAtomic && op != asm.AddAtomic:
				add("atomic operations that return what was there", atomicsSince[arch], hasFetch)
			}
		}
	}
	all := make([]requirement, 0, len(found))
	for _, r := range found {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b requirement) int {
		return cmp.Or(cmp.Compare(a.Since.major, b.Since.major), cmp.Compare(a.Since.minor, b.Since.minor), strings.Compare(a.Name, b.Name))
	})
	return all
}

func since[K comparable](table map[K]version, key K) version {
	if v, ok := table[key]; ok {
		return v
	}
	return unknownSince
}

// helperName is a helper's name as the kernel has it: bpf_get_func_ip.
func helperName(fn asm.BuiltinFunc) string {
	var b strings.Builder
	b.WriteString("bpf")
	for _, c := range strings.TrimPrefix(fn.String(), "Fn") {
		if 'A' <= c && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// hasHelper reports whether the kernel knows a helper, if only for programs of
// other types.
func hasHelper(fn asm.BuiltinFunc) bool {
	err := tryLoad(nil, kprobeSpec(fn.Call()))
	return err == nil || !strings.Contains(err.Error(), "invalid func unknown#")
}

// hasFetch reports whether the kernel has atomic operations other than adding.
func hasFetch() bool {
	err := tryLoad(nil, &ebpf.ProgramSpec{Type: ebpf.SocketFilter, License: "GPL", Instructions: returning(
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreMem(asm.R10, -8, asm.R1, asm.DWord),
		asm.Xchg.Mem(asm.R10, asm.R1, asm.DWord, -8),
	)})
	return notLacking(err)
}

// notLacking reports whether the trial of a feature does not tell that the kernel lacks it.
func notLacking(err error) bool {
	return err == nil || Scarce(err) || errors.Is(err, unix.EINTR)
}

// A lackingError says what of BPF a kernel lacks that programs use.
type lackingError struct {
	Lacks []requirement // oldest first
	Err   error         // what the kernel said; nil if nothing was tried
}

func (e *lackingError) Unwrap() error { return e.Err }

// Error names each feature and the kernel that has all of them.
func (e *lackingError) Error() string {
	var names []string
	for _, r := range e.Lacks {
		names = append(names, fmt.Sprintf("%s (Linux %v)", r.Name, r.Since))
	}
	return fmt.Sprintf("this kernel lacks what is needed of BPF: %s; Linux %v has all of that",
		strings.Join(names, ", "), e.Lacks[len(e.Lacks)-1].Since)
}

// lacking returns why the kernel refuses maps and programs, if it is for what it
// lacks, else err itself. It tries out each feature: version numbers tell little
// of kernels with features of newer ones.
func lacking(spec *ebpf.CollectionSpec, err error) error {
	return lackingOf(requirements(spec, runtime.GOARCH), err)
}

func lackingOf(needs []requirement, err error) error {
	var lacks []requirement
	for _, r := range needs {
		if !r.has() {
			lacks = append(lacks, r)
		}
	}
	if len(lacks) == 0 {
		return err
	}
	return &lackingError{lacks, err}
}

// base is what every request needs: the engine's own maps and programs and the
// functions that generated programs begin and end with.
func base() (*ebpf.CollectionSpec, error) {
	return part(bpf.Settings{Stash: bpf.NewStash(64, 1), InFlight: 1000, Filter: bpf.Filter{Family: true}},
		bpf.FuncFilter, bpf.FuncAdmit, bpf.FuncSend, bpf.FuncOpen, bpf.FuncFind, bpf.FuncFinish)
}

// part is the engine as settings have it, and functions of it that generated
// programs call.
func part(s bpf.Settings, functions ...string) (*ebpf.CollectionSpec, error) {
	s.RingSize = 4096
	spec, err := bpf.Engine(s)
	if err != nil {
		return nil, err
	}
	var insns asm.Instructions
	for _, name := range functions {
		insns = append(insns, asm.Call.Label(name))
	}
	insns, err = bpf.Link(bpf.Subprogram{Name: "part", Insns: append(insns, asm.Return())})
	spec.Programs["part"] = &ebpf.ProgramSpec{Instructions: insns}
	return spec, err
}

// Lacking returns a *lackingError if the kernel lacks what every request needs.
func Lacking() error {
	spec, err := base()
	if err != nil {
		return err
	}
	return lacking(spec, nil)
}
