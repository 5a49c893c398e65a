// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// TestLiveImplicit: what a kfunc gets from the verifier is a parameter like others. A program calls
// bpf_stream_print_stack(stream_id), whose other parameter is the program.
func TestLiveImplicit(t *testing.T) {
	guest.Require(t)
	const name, whole = "bpf_stream_print_stack", "bpf_stream_print_stack_impl"
	types, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	var f *btf.Func
	if err := types.TypeByName(whole, &f); err != nil {
		t.Skipf("%s: %v: a kernel before Linux 7.0", whole, err)
	}
	if err := types.TypeByName(name, &f); err != nil {
		t.Fatal(err)
	}
	id, err := types.TypeID(f)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "calls_kfunc", Type: ebpf.Syscall, Flags: 1 << 4 /* BPF_F_SLEEPABLE */, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, 1), // BPF_STDOUT
		{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: int64(id)},
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		t.Fatal(err)
	}
	own, _ := info.ID()
	r := startTrace(t, fmt.Sprintf("%s(stream_id, aux->name, aux->id == %d, return)", name, own))
	for range 3 {
		if _, err := prog.Run(&ebpf.RunOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	out, status := r.wait(t)
	if n := strings.Count(out, `"calls_kfunc"`); n != 3 || status != 0 || strings.Count(out, "stream_id = (int)1,") != 3 {
		t.Errorf("status %d, %d calls with the program's name, want 3:\n%s", status, n, out)
	}
	_, errs, status := ksnoop(t, "trace", "--attach=fentry", name, "--", "true")
	if status == 0 || !strings.Contains(errs, "kprobes need none") {
		t.Errorf("fentry, status %d: %s", status, errs)
	}
}
