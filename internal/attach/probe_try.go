// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/codegen"
)

// harmless is a function that nothing calls but tests of the kernel's own
// (net/bpf/test_run.c, since Linux 5.5). It has BTF and is open to all methods.
const harmless = "bpf_fentry_test1"

// When the types of programs came that a kernel before them calls invalid.
var fsessionSince, tracingMultiSince = version{7, 0}, version{7, 3}

func tryReadKernel(*btf.Cache) error {
	return features.HaveProgramHelper(ebpf.Kprobe, asm.FnProbeReadKernel)
}

func tryRingBuffer(*btf.Cache) error { return features.HaveMapType(ebpf.RingBuf) }

func tryFentry(types *btf.Cache) error { return tryTracing(types, ebpf.AttachTraceFEntry, 0) }

func tryFexit(types *btf.Cache) error { return tryTracing(types, ebpf.AttachTraceFExit, 0) }

func tryFentryCookie(types *btf.Cache) error {
	return tryTracing(types, ebpf.AttachTraceFEntry, 1, asm.FnGetAttachCookie.Call())
}

// tryFuncIP tries the helper in both kinds of programs that call it.
func tryFuncIP(types *btf.Cache) error {
	if err := tryLoad(types, tracingSpec(ebpf.AttachTraceFEntry, asm.FnGetFuncIp.Call())); err != nil {
		return err
	}
	return tryLoad(types, kprobeSpec(asm.FnGetFuncIp.Call()))
}

// tryBPF makes a map and a program of the simplest kinds.
func tryBPF(types *btf.Cache) error {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		return permission(err)
	}
	defer m.Close()
	return tryLoad(types, &ebpf.ProgramSpec{Type: ebpf.SocketFilter, Instructions: returning(), License: "GPL"})
}

// returning appends `return 0` to a program.
func returning(ins ...asm.Instruction) asm.Instructions {
	return append(ins, asm.Mov.Imm(asm.R0, 0), asm.Return())
}

func kprobeSpec(ins ...asm.Instruction) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{Type: ebpf.Kprobe, Instructions: returning(ins...), License: "GPL"}
}

func tracingSpec(as ebpf.AttachType, ins ...asm.Instruction) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: as, AttachTo: harmless,
		Instructions: returning(ins...), License: "GPL"}
}

func tryLoad(types *btf.Cache, spec *ebpf.ProgramSpec) error {
	return withProgram(types, spec, func(*ebpf.Program) (link.Link, error) { return nil, nil })
}

// withProgram loads a program, attaches it and takes both away again.
func withProgram(types *btf.Cache, spec *ebpf.ProgramSpec, attach func(*ebpf.Program) (link.Link, error)) error {
	prog, err := newProgram(spec, ebpf.CollectionOptions{Cache: types})
	if err != nil {
		return permission(err)
	}
	defer prog.Close()
	l, err := attach(prog)
	if err != nil || l == nil {
		return err
	}
	return l.Close()
}

func tryTracing(types *btf.Cache, as ebpf.AttachType, cookie uint64, ins ...asm.Instruction) error {
	return withProgram(types, tracingSpec(as, ins...), func(prog *ebpf.Program) (link.Link, error) {
		return link.AttachTracing(link.TracingOptions{Program: prog, AttachType: as, Cookie: cookie})
	})
}

type attachKprobe func(symbol string, prog *ebpf.Program, opts *link.KprobeOptions) (link.Link, error)

func tryKprobe(types *btf.Cache, attach attachKprobe, cookie uint64, ins ...asm.Instruction) error {
	return withProgram(types, kprobeSpec(ins...), func(prog *ebpf.Program) (link.Link, error) {
		l, err := attach(harmless, prog, &link.KprobeOptions{Cookie: cookie})
		return l, probing(err)
	})
}

// tryKprobeSession tries the function that tells the two ends of a call apart
// as well: programs are refused if it is not called as the kernel has it.
func tryKprobeSession(types *btf.Cache) error {
	spec, err := types.Kernel()
	if err != nil {
		return err
	}
	isReturn, err := codegen.FindKfuncs(spec).CallIsReturn()
	if err != nil {
		return fmt.Errorf("%w: %w", err, ebpf.ErrNotSupported)
	}
	if err := tryMulti(types, ebpf.AttachTraceKprobeSession, isReturn); err != nil {
		return err
	}
	return tryPairing(types, ebpf.AttachTraceKprobeSession, link.KprobeMultiOptions{Session: true})
}

func tryKretprobeMulti(types *btf.Cache) error {
	return tryPairing(types, ebpf.AttachTraceKprobeMulti, link.KprobeMultiOptions{})
}

// errUnpaired is why links of kprobe.multi and kprobe.session are not used for returns. fprobe has given their programs registers of
// return_to_handler (arch/x86/kernel/ftrace_64.S) since Linux 6.14. On amd64 this did not save the stack pointer at first, then another
// one; Linux 7.0 and the later ones of 6.18 and 6.19 save the caller's, as at entry.
var errUnpaired error = unpairedError{}

type unpairedError struct{}

func (unpairedError) Error() string {
	return "at return this kernel does not tell where the call's stack is, as Linux 6.14 to 6.17 on amd64, so that calls cannot be told apart"
}

func (unpairedError) Is(target error) bool { return target == ebpf.ErrNotSupported }

// testRun is a function that nothing calls but who tests a program. It takes no BTF to have it called.
const testRun = "bpf_prog_test_run_skb"

// tryPairing has the kernel call a function, and finds out whether its return can be known by what programs see at both ends. The kernel
// skips such programs on a CPU where a task was preempted in a system call on a map, so it takes more than one call, within
// half a second, to say no.
func tryPairing(types *btf.Cache, as ebpf.AttachType, options link.KprobeMultiOptions) error {
	calls, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: 64})
	if err != nil {
		return permission(err)
	}
	defer calls.Close()
	spec := &ebpf.ProgramSpec{Type: ebpf.Kprobe, AttachType: as, Instructions: codegen.TryPairing(runtime.GOARCH, calls.FD()), License: "GPL"}
	prog, err := newProgram(spec, ebpf.CollectionOptions{Cache: types})
	if err != nil {
		return permission(err)
	}
	defer prog.Close()
	caller, err := newProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, Instructions: returning(), License: "GPL"}, ebpf.CollectionOptions{Cache: types})
	if err != nil {
		return permission(err)
	}
	defer caller.Close()
	hooks := []func(*ebpf.Program, link.KprobeMultiOptions) (link.Link, error){link.KprobeMulti}
	if !options.Session {
		hooks = append(hooks, link.KretprobeMulti)
	}
	options.Symbols = []string{testRun}
	for _, hook := range hooks {
		l, err := hook(prog, options)
		if err != nil {
			return err
		}
		defer l.Close()
	}
	unlike := 0 // returns that were not like their entry
	for pause := time.Duration(0); pause < 500*time.Millisecond; pause = 4*pause + time.Millisecond {
		time.Sleep(pause)
		if _, err := caller.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
			return fmt.Errorf("having the kernel call %s: %w", testRun, err)
		}
		var tasks []uint64
		var task, outcome uint64
		for all := calls.Iterate(); all.Next(&task, &outcome); tasks = append(tasks, task) {
			switch {
			case outcome == codegen.Paired:
				return nil
			case outcome%2 != 0:
				unlike++
			}
		}
		for _, task := range tasks {
			_ = calls.Delete(task) // or it is gone
		}
		if unlike > 1 {
			return errUnpaired
		}
	}
	if unlike > 0 {
		return errUnpaired
	}
	return fmt.Errorf("the kernel has not run the programs at both ends when %s was called", testRun)
}

// harmlessID returns the BTF id of the function, and the kernel's types.
func harmlessID(types *btf.Cache) (btf.TypeID, *btf.Spec, error) {
	spec, err := types.Kernel()
	if err != nil {
		return 0, nil, err
	}
	var f *btf.Func
	if err := spec.TypeByName(harmless, &f); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", harmless, err)
	}
	id, err := spec.TypeID(f)
	return id, spec, err
}

// tryFsession tries a program that asks at which end of the call it runs, and
// for the session's cookie.
func tryFsession(types *btf.Cache) error {
	id, spec, err := harmlessID(types)
	if err != nil {
		return err
	}
	insns, err := codegen.FindKfuncs(spec).TrySession()
	if err != nil {
		return fmt.Errorf("%w: %w", err, ebpf.ErrNotSupported)
	}
	return tryTracingType(&tracingProgram{insns: insns, as: attachFsession, function: id}, types, fsessionSince,
		func(prog *ebpf.Program) (closer, error) { return linkTracing(prog, attachFsession) })
}

func tryTracingMulti(types *btf.Cache) error {
	id, _, err := harmlessID(types)
	if err != nil {
		return err
	}
	return tryTracingType(&tracingProgram{insns: codegen.NoProgram(), as: attachFentryMulti}, types, tracingMultiSince,
		func(prog *ebpf.Program) (closer, error) {
			return linkTracingMulti(prog, attachFentryMulti, []btf.TypeID{id}, []uint64{1})
		})
}

// tryTracingType loads a program of a type and attaches it. A kernel that does not
// know the type has one answer only, that something is invalid; an architecture
// without the trampolines that it takes says that it does not support it.
func tryTracingType(p *tracingProgram, types *btf.Cache, since version, attach func(*ebpf.Program) (closer, error)) error {
	prog, err := p.load(types)
	if err != nil {
		return tooOld(err, since)
	}
	defer prog.Close()
	l, err := attach(prog)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("the kernel does not attach such programs on this architecture (%w): %w", err, ebpf.ErrNotSupported)
	}
	if err != nil {
		return err
	}
	return l.Close()
}

// Examined reports whether the verifier has looked at instructions before it
// refused a program.
func Examined(err error) bool {
	var ve *ebpf.VerifierError
	return errors.As(err, &ve) && slices.ContainsFunc(ve.Log, func(line string) bool {
		return strings.HasPrefix(line, "processed ") && !strings.HasPrefix(line, "processed 0 ")
	})
}

// tooOld says since when the kernel has programs of a type that it has refused to
// load, if it does not know the type. Its own words are left out: to have been given
// something invalid is all that it can say.
func tooOld(err error, since version) error {
	if !errors.Is(err, unix.EINVAL) || Examined(err) {
		return explain(err)
	}
	return noSuchPrograms{since}
}

// noSuchPrograms says since when kernels have programs of a type that this one does not know.
type noSuchPrograms struct{ since version }

func (e noSuchPrograms) Error() string {
	return "the kernel has no such programs, which came with Linux " + e.since.String()
}

func (noSuchPrograms) Unwrap() error { return ebpf.ErrNotSupported }

func tryMulti(types *btf.Cache, as ebpf.AttachType, ins ...asm.Instruction) error {
	spec := kprobeSpec(ins...)
	spec.AttachType = as
	return withProgram(types, spec, func(prog *ebpf.Program) (link.Link, error) {
		return link.KprobeMulti(prog, link.KprobeMultiOptions{
			Symbols: []string{harmless}, Session: as == ebpf.AttachTraceKprobeSession})
	})
}

// tryRdonlyCast casts an argument of the function to task_struct and reads
// from it.
func tryRdonlyCast(types *btf.Cache) error {
	spec, err := types.Kernel()
	if err != nil {
		return err
	}
	id := func(name string, t btf.Type) (btf.TypeID, error) {
		if err := spec.TypeByName(name, &t); err != nil {
			return 0, fmt.Errorf("%s: %w", name, ebpf.ErrNotSupported)
		}
		return spec.TypeID(t)
	}
	kfunc, err := id("bpf_rdonly_cast", &btf.Func{})
	if err != nil {
		return err
	}
	target, err := id("task_struct", &btf.Struct{})
	if err != nil {
		return err
	}
	return tryLoad(types, tracingSpec(ebpf.AttachTraceFEntry,
		asm.LoadMem(asm.R1, asm.R1, 0, asm.DWord),
		asm.Mov.Imm(asm.R2, int32(target)),
		asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: int64(kfunc)},
		asm.LoadMem(asm.R1, asm.R0, 0, asm.Word),
	))
}

// tryBranchSnapshot loads a program that takes a snapshot, and opens the event
// that makes the processor record branches: without the one the other is of no
// use.
func tryBranchSnapshot(types *btf.Cache) error {
	const entry = 24 // sizeof(struct perf_branch_entry)
	err := tryLoad(types, kprobeSpec(
		asm.Mov.Reg(asm.R1, asm.R10),
		asm.Add.Imm(asm.R1, -entry),
		asm.Mov.Imm(asm.R2, entry),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnGetBranchSnapshot.Call(),
	))
	if err != nil {
		return err
	}
	b, err := OpenBranches(AllBranches)
	switch {
	case errors.Is(err, errNoSnapshot):
		return fmt.Errorf("%w: %w", err, ebpf.ErrNotSupported)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("no hardware that records branches (perf_event_open: %w): %w", errors.Unwrap(err), ebpf.ErrNotSupported)
	case err != nil:
		return err
	}
	return b.Close()
}
