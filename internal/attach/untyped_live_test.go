// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/livetest/user"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/userfunc"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// typedHelpers are helpers that a kernel without BTF of its own refuses: they
// take or return pointers to objects of its types.
var typedHelpers = regexp.MustCompile(`^bpf_(get_current_task_btf|task_storage_.*|this_cpu_ptr|per_cpu_ptr|rdonly_cast|.*_btf)$`)

// TestLiveUntyped: with types from a file, nothing of what the verifier has left
// of the programs rests on the kernel's own BTF. That cannot be taken away from
// a kernel that has it, so its code is looked at.
func TestLiveUntyped(t *testing.T) {
	guest.Require(t)
	file, err := os.Open("/sys/kernel/btf/vmlinux")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	view, err := kernel.OpenTyped(os.DirFS("/"), file)
	if err != nil {
		t.Fatal(err)
	}
	if err := view.CheckTypes(); err != nil {
		t.Error("the kernel's own types: ", err)
	}
	program := filepath.Join(t.TempDir(), "user")
	if err := os.WriteFile(program, user.Program(), 0o755); err != nil {
		t.Fatal(err)
	}
	var specs []*expr.Spec
	for _, text := range []string{"uprobe:" + program + ":user_add($arg1 == 12345, $arg2, (int)return)", "vfs_read(count == 12345, file->f_flags, $comm, return)", "vfs_write(*file, $duration > 10ms)", "rawtp:sys_enter(id == 12345)", "tp:sched:sched_process_exec(filename)"} {
		s, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		specs = append(specs, s)
	}
	p, _, err := plan.Resolve(view, specs, plan.Options{Arch: view.Arch(), UserFile: userfunc.Opener("", view.Arch())})
	if err != nil {
		t.Fatal(err)
	}
	if p, err = ChooseUntyped(p, true); err != nil {
		t.Fatal(err)
	}
	filter := bpf.Filter{Family: true, PIDs: []uint32{1}, TIDs: []uint32{1}, UIDs: []uint32{0}, Comms: []string{"a*b"}}
	tracer, err := Attach(p, Options{Settings: bpf.Settings{RingSize: 4096, Filter: filter}, Code: codegen.Options{Arch: view.Arch(), Filtered: true},
		Kernel: view, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Close()
	for _, f := range tracer.Failed() {
		t.Error(f.Probe.Name, f.Err)
	}
	var programs []*ebpf.Program
	for _, prog := range tracer.engine.(loadedEngine).Programs {
		programs = append(programs, prog)
	}
	for _, c := range tracer.probes {
		if prog, ok := c.(loadedProgram); ok {
			programs = append(programs, prog.Program)
		}
	}
	if len(programs) < len(specs)+3 { // with those for processes that fork, exit and are freed
		t.Errorf("only %d programs", len(programs))
	}
	calls := 0
	for _, prog := range programs {
		calls += untypedCalls(t, view, prog)
	}
	if calls < 10 {
		t.Errorf("only %d calls of helpers were looked at", calls)
	}
}

// untypedCalls looks at the helpers that a loaded program calls and returns how
// many there are.
func untypedCalls(t *testing.T, view *kernel.View, prog *ebpf.Program) (n int) {
	t.Helper()
	switch prog.Type() {
	case ebpf.Kprobe, ebpf.RawTracepoint, ebpf.TracePoint:
	default:
		t.Errorf("%v: its type is for kernels with BTF", prog)
	}
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	insns, err := info.Instructions()
	if err != nil {
		t.Fatal(err)
	}
	base, ok := view.SymbolNamed("__bpf_call_base", "")
	if !ok {
		t.Fatal("the kernel does not tell where helpers are")
	}
	for i := range insns {
		ins := &insns[i]
		if ins.IsKfuncCall() {
			t.Errorf("%v: %v is for kernels with BTF", prog, ins)
		}
		if ins.OpCode.JumpOp() != asm.Call || ins.IsFunctionCall() || ins.IsKfuncCall() {
			continue
		}
		// Linux gives away a helper's distance from a function, or its number where the compiler of the CPU writes the helper
		// itself (bpf_jit_inlines_helper_call, on arm64).
		const mostHelpers = 1000
		name := ""
		if s, ok := view.Symbol(base.Addr + uint64(ins.Constant)); ok && s.Offset == 0 {
			name = s.Name
		} else if ins.Constant > 0 && ins.Constant < mostHelpers {
			name = helperName(asm.BuiltinFunc(ins.Constant))
		} else {
			t.Errorf("%v: %v calls nothing that has a name", prog, ins)
			continue
		}
		n++
		if typedHelpers.MatchString(name) {
			t.Errorf("%v calls %s, which is for kernels with BTF", prog, name)
		}
	}
	return n
}

// TestLiveRequirements: a kernel that is tested has all that programs use of BPF.
// Finding something missing there would be the fault of how it is tried.
func TestLiveRequirements(t *testing.T) {
	guest.Require(t)
	for m, since := range mapsSince {
		if err := features.HaveMapType(m); err != nil {
			t.Errorf("no maps of type %v of Linux %v? %v", m, since, err)
		}
	}
	for fn, since := range helpersSince {
		if !hasHelper(fn) {
			t.Errorf("no %s of Linux %v?", helperName(fn), since)
		}
	}
	if !hasFetch() {
		t.Errorf("no atomic operations of Linux %v?", atomicsSince[runtime.GOARCH])
	}
	if err := Lacking(); err != nil {
		t.Error(err)
	}
	if hasHelper(300) {
		t.Error("the kernel has a helper that does not exist")
	}
}
