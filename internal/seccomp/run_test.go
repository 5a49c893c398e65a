// SPDX-License-Identifier: Apache-2.0

package seccomp

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(code uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | code, K: k, Jt: yes, Jf: no}
}

func ret(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET, K: k} }

func TestRun(t *testing.T) {
	const arch, numbered, eperm = 0xc000003e, 39, unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	d := &Data{Number: numbered, Arch: arch, IP: 0x1_0000_0002, Args: [6]uint64{7, 5<<32 | 6, 0, 0, 0, 9 << 32}}
	for name, tt := range map[string]struct {
		filter  []unix.SockFilter
		action  string
		at      int
		decided string
	}{
		"without a decision": {[]unix.SockFilter{ret(unix.SECCOMP_RET_ALLOW)}, "SECCOMP_RET_ALLOW", 0, ""},
		"the number":         {[]unix.SockFilter{load(0), jump(unix.BPF_JEQ, numbered, 0, 1), ret(eperm), ret(unix.SECCOMP_RET_ALLOW)}, "SECCOMP_RET_ERRNO|EPERM", 2, "nr (0x27) == 0x27"},
		"another number":     {[]unix.SockFilter{load(0), jump(unix.BPF_JEQ, 1, 0, 1), ret(unix.SECCOMP_RET_ALLOW), ret(unix.SECCOMP_RET_KILL_PROCESS)}, "SECCOMP_RET_KILL_PROCESS", 3, "nr (0x27) != 0x1"},
		"the architecture":   {[]unix.SockFilter{load(4), jump(unix.BPF_JGE, arch, 1, 0), ret(unix.SECCOMP_RET_ALLOW), ret(unix.SECCOMP_RET_TRAP | 3)}, "SECCOMP_RET_TRAP|3", 3, "arch (0xc000003e) >= 0xc000003e"},
		"half of an argument": {[]unix.SockFilter{load(28), jump(unix.BPF_JGT, 5, 0, 1), ret(unix.SECCOMP_RET_ALLOW), ret(unix.SECCOMP_RET_LOG)}, "SECCOMP_RET_LOG", 3,
			"args[1]>>32 (0x5) <= 0x5"},
		"bits of an argument": {[]unix.SockFilter{load(24), jump(unix.BPF_JSET, 8, 0, 1), ret(eperm), ret(unix.SECCOMP_RET_TRACE)}, "SECCOMP_RET_TRACE", 3, "args[1] (0x6) has no bits of 0x8"},
		"what is left of one": {[]unix.SockFilter{load(24), {Code: unix.BPF_ALU | unix.BPF_AND, K: 3}, jump(unix.BPF_JEQ, 2, 0, 1), ret(eperm), ret(unix.SECCOMP_RET_ALLOW)},
			"SECCOMP_RET_ERRNO|EPERM", 3, "a value of args[1] (0x2) == 0x2"},
		"from memory": {[]unix.SockFilter{load(60), {Code: unix.BPF_ST, K: 1}, load(8), {Code: unix.BPF_LD | unix.BPF_MEM, K: 1}, jump(unix.BPF_JEQ, 9, 0, 1), ret(eperm), ret(unix.SECCOMP_RET_ALLOW)},
			"SECCOMP_RET_ERRNO|EPERM", 5, "a value (0x9) == 0x9"},
		"the last decision": {[]unix.SockFilter{load(12), jump(unix.BPF_JEQ, 1, 0, 2), load(8), jump(unix.BPF_JEQ, 2, 0, 1), ret(unix.SECCOMP_RET_USER_NOTIF), ret(0)}, "SECCOMP_RET_USER_NOTIF", 4, "instruction_pointer (0x2) == 0x2"},
		"a shift by a register": {[]unix.SockFilter{{Code: unix.BPF_LDX | unix.BPF_IMM, K: 32}, {Code: unix.BPF_LD | unix.BPF_IMM, K: eperm}, {Code: unix.BPF_ALU | unix.BPF_LSH | unix.BPF_X}, {Code: unix.BPF_RET | unix.BPF_A}},
			"SECCOMP_RET_ERRNO|EPERM", 3, ""}, // BPF_ALU | BPF_LSH | BPF_X of kernel/bpf/core.c takes the lower five bits
		"what is computed": {[]unix.SockFilter{load(16), {Code: unix.BPF_RET | unix.BPF_A}}, "SECCOMP_RET_KILL_THREAD|7", 1, ""},
	} {
		v, err := Run(tt.filter, d)
		decided := ""
		if v.Decided != nil {
			decided = v.Decided.String()
		}
		if err != nil || ActionName(v.Action) != tt.action || v.At != tt.at || decided != tt.decided {
			t.Errorf("%s: %s at %d by %q, %v", name, ActionName(v.Action), v.At, decided, err)
		}
	}
	for name, filter := range map[string][]unix.SockFilter{
		"none": nil, "no verdict": {load(0)}, "beyond its end": {jump(unix.BPF_JA, 1<<31, 0, 0), ret(0)}, "an odd offset": {load(2), ret(0)}, "no such word": {load(64), ret(0)},
		"a byte": {{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS}, ret(0)}, "division by 0": {{Code: unix.BPF_ALU | unix.BPF_DIV}, ret(0)}, "no such memory": {{Code: unix.BPF_ST, K: 99}, ret(0)},
	} {
		if v, err := Run(filter, d); err == nil {
			t.Errorf("%s: %v", name, v)
		}
	}
}

// TestCompare: the order in which man 2 seccomp lists what goes before what.
func TestCompare(t *testing.T) {
	for i := range actions[1:] {
		if Compare(actions[i].value|1, actions[i+1].value) >= 0 {
			t.Errorf("%s does not go before %s", actions[i].name, actions[i+1].name)
		}
	}
	if Compare(unix.SECCOMP_RET_ERRNO|1, unix.SECCOMP_RET_ERRNO|2) != 0 || ActionName(0x12340000) != "0x12340000, which is none that the kernel knows" {
		t.Error("the data of an action, or one that is unknown")
	}
}

// FuzzRun compares verdicts with those of another interpreter, of packets: words are in network
// order there.
func FuzzRun(f *testing.F) {
	raw := func(filter ...unix.SockFilter) (out []byte) {
		for _, in := range filter {
			out = binary.LittleEndian.AppendUint16(out, in.Code)
			out = binary.LittleEndian.AppendUint32(append(out, in.Jt, in.Jf), in.K)
		}
		return out
	}
	f.Add(raw(load(0), jump(unix.BPF_JEQ, 1, 0, 1), ret(5), ret(6)), uint64(1), uint64(2))
	f.Add(raw(load(16), unix.SockFilter{Code: unix.BPF_MISC | unix.BPF_TAX}, load(24), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_ADD | unix.BPF_X}, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_A}), uint64(1), uint64(2))
	f.Add(raw(load(20), unix.SockFilter{Code: unix.BPF_STX, K: 3}, unix.SockFilter{Code: unix.BPF_LDX | unix.BPF_MEM, K: 3}, jump(unix.BPF_JSET|unix.BPF_X, 0, 1, 0), ret(1), unix.SockFilter{Code: unix.BPF_MISC | unix.BPF_TXA}, ret(2)), uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, text []byte, a, b uint64) {
		filter := Decode(text)
		d := &Data{Number: uint32(a), Arch: 3, IP: b, Args: [6]uint64{a, b, a ^ b, ^a, 5, 6}}
		var program []bpf.Instruction
		for _, in := range filter {
			if in.Code&0x07 == unix.BPF_LDX && in.Code&0xe0 != unix.BPF_MEM && in.Code&0xe0 != unix.BPF_IMM {
				t.Skip("of packets alone")
			}
			if in.Code&0x07 == unix.BPF_ALU && in.Code&unix.BPF_X != 0 && (in.Code&0xf0 == unix.BPF_LSH || in.Code&0xf0 == unix.BPF_RSH) {
				t.Skip("Go shifts all out where the kernel takes five bits")
			}
			i := bpf.RawInstruction{Op: in.Code, Jt: in.Jt, Jf: in.Jf, K: in.K}.Disassemble()
			switch i := i.(type) {
			case bpf.RawInstruction, bpf.LoadIndirect, bpf.LoadMemShift:
				t.Skip("of packets alone, or unknown")
			case bpf.LoadAbsolute:
				if i.Size != 4 || i.Off%4 != 0 || i.Off >= 64 {
					t.Skip("the kernel refuses it")
				}
			case bpf.LoadExtension:
				t.Skip("the kernel refuses it")
			}
			program = append(program, i)
		}
		vm, err := bpf.NewVM(program)
		if err != nil {
			t.Skip(err)
		}
		var packet []byte
		for _, w := range d.words() {
			packet = binary.BigEndian.AppendUint32(packet, w)
		}
		want, err := vm.Run(packet)
		if err != nil {
			t.Skip(err)
		}
		got, err := Run(filter, d)
		if err == nil && uint32(want) != got.Action {
			t.Errorf("%#x, want %#x: %v", got.Action, want, program)
		}
	})
}
