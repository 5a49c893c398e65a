// SPDX-License-Identifier: Apache-2.0

package livetest_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// sentSize is how much is captured and sent: a struct sk_buff.
const sentSize = 232

// bareSend attaches the least that captures and sends so much at each
// vfs_read: reserve, probe_read_kernel, submit.
func bareSend(b *testing.B) (detach func()) {
	b.Helper()
	events, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 16 << 20})
	if err != nil {
		b.Fatal(err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: "vfs_read",
		License: "GPL", Instructions: asm.Instructions{
			asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord),
			asm.LoadMapPtr(asm.R1, events.FD()),
			asm.Mov.Imm(asm.R2, sentSize),
			asm.Mov.Imm(asm.R3, 0),
			asm.FnRingbufReserve.Call(),
			asm.JEq.Imm(asm.R0, 0, "out"),
			asm.Mov.Reg(asm.R7, asm.R0),
			asm.Mov.Reg(asm.R1, asm.R0),
			asm.Mov.Imm(asm.R2, sentSize),
			asm.Mov.Reg(asm.R3, asm.R6),
			asm.FnProbeReadKernel.Call(),
			asm.Mov.Reg(asm.R1, asm.R7),
			asm.Mov.Imm(asm.R2, 0),
			asm.FnRingbufSubmit.Call(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
			asm.Return(),
		}})
	if err != nil {
		b.Fatal(err)
	}
	l, err := link.AttachTracing(link.TracingOptions{Program: prog})
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		for _, c := range []interface{ Close() error }{l, prog, events} {
			if err := c.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkLiveSend counts the instructions that capturing a struct and
// sending it cost, beside those of the least that does so. ksnoop is stopped
// meanwhile: its reading would be counted too.
func BenchmarkLiveSend(b *testing.B) {
	guest.Require(b)
	if !guest.CountsInstructions() {
		b.Skip("needs a guest whose clock counts instructions: run `make bench`")
	}
	bare := measure(b)
	detach := bareSend(b)
	least := measure(b) - bare
	detach()
	for _, c := range []struct {
		name string
		args []string
	}{
		{"fentry", []string{"vfs_read(*(struct sk_buff *)file)"}},
	} {
		trace := startTrace(b, append([]string{"--ringbuf", "16M"}, c.args...)...)
		if err := trace.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			b.Fatal(err)
		}
		ours := measure(b) - bare
		for _, sig := range []os.Signal{syscall.SIGCONT, os.Interrupt} {
			if err := trace.cmd.Process.Signal(sig); err != nil {
				b.Fatal(err)
			}
		}
		trace.wait(b)
		b.Run(c.name, func(b *testing.B) {
			b.ReportMetric(ours, "insns/call")
			b.ReportMetric(least, "bare-insns/call")
			b.ReportMetric(ours/least, "times-bare")
			b.ReportMetric(0, "ns/op")
			if ours > 2*least {
				b.Errorf("%.0f instructions, the least is %.0f: more than twice", ours, least)
			}
		})
	}
}
