// SPDX-License-Identifier: Apache-2.0

package output

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// wayOfSend is the code of send:
//
//	+0x0	cmpl $4, 4(%rdi)	line 10
//	+0x4	jne +0xb
//	+0x6	xor %eax, %eax		line 12
//	+0x8	jmp +0x10
//	+0xa	nop
//	+0xb	mov $-22, %eax		line 11
//	+0x10	ret			line 13
func wayOfSend(t *testing.T) *plan.Way {
	t.Helper()
	w, err := plan.NewWay(code.Function{Arch: "amd64", Parts: []code.Part{{Addr: place("send", 0), Bytes: []byte{
		0x83, 0x7f, 0x04, 0x04, 0x75, 0x05, 0x31, 0xc0, 0xeb, 0x06, 0x90, 0xb8, 0xea, 0xff, 0xff, 0xff, 0xc3}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// linedKernel is testFunctions with the lines of send.
type linedKernel struct{ testKernel }

func (linedKernel) Lines(dst []debuginfo.Row, addr uint64) []debuginfo.Row {
	for _, r := range []struct{ off, line uint64 }{{0, 10}, {6, 12}, {11, 11}, {16, 13}} {
		dst = append(dst, debuginfo.Row{Addr: place("send", r.off), File: "net/send.c", Line: uint32(r.line)})
	}
	return dst
}

func TestPath(t *testing.T) {
	step := func(flags uint64) bpf.PathStep {
		return bpf.PathStep{Word: flags, Value: [2]uint64{0xffffffff00000003}}
	}
	for _, tt := range []struct {
		name   string
		kernel Resolver
		s      bpf.Section
		want   string
	}{
		{"refused", testFunctions, bpf.Section{Data: bpf.AppendSteps(nil, []bpf.PathStep{step(0)})}, `
        path:
            in send: passed +0x0 to +0x5, +0xb to +0x10; not passed +0x6 to +0x9
            +0x4  cmpl $0x4,0x4(%rdi)  0x4(%rdi) = 0x3  jne to +0xb

`},
		{"fine", linedKernel{testFunctions}, bpf.Section{Data: bpf.AppendSteps(nil, []bpf.PathStep{{Word: 1 << 6, Unreadable: [2]bool{true}}})}, `
        path:
            in send, net/send.c: passed 10, 12-13; not passed 11
            +0x4  cmpl $0x4,0x4(%rdi)  0x4(%rdi) = ?  jne not taken

`},
		{"not seen", testFunctions, bpf.Section{Data: bpf.AppendSteps(nil, nil)}, `
        path: /* some steps were not seen */
            in send: unknown +0x0 to +0x9, +0xb to +0x10

`},
		{"no room", testFunctions, bpf.Section{Errno: 61}, `
        path: not known, there was no room to keep it

`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.Kind = bpf.SectionPath
			probe := &plan.Probe{Func: kernel.Function{Name: "send", Addr: place("send", 0)}, Way: wayOfSend(t)}
			e := &event.Event{Probe: probe, Tail: bpf.AppendSection(nil, &tt.s)}
			tails := Tails{Kernel: tt.kernel}
			if d := cmp.Diff(tt.want, "\n"+string(tails.append(nil, e))); d != "" {
				t.Error(d)
			}
		})
	}
}
