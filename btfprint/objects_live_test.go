// SPDX-License-Identifier: Apache-2.0

package btfprint

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// memory reads the kernel's memory by a BPF program.
type memory struct {
	*snprintf
	peek *ebpf.Program
	spec *btf.Spec
}

// newMemory loads a program whose arguments are an address and a size. It
// copies the bytes to the map that snprintf prints from; for address 0 the
// address of the current task is written there.
func newMemory(t *testing.T) *memory {
	t.Helper()
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{snprintf: load(t), spec: spec}
	ins := asm.Instructions{
		asm.LoadMem(asm.R7, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R8, asm.R1, 8, asm.DWord),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, m.data.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.JEq.Imm(asm.R7, 0, "task"),
		asm.JGT.Imm(asm.R8, maxKernelValue, "out"),
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.Mov.Reg(asm.R2, asm.R8),
		asm.Mov.Reg(asm.R3, asm.R7),
		asm.FnProbeReadKernel.Call(),
		asm.Return(),
		asm.FnGetCurrentTask.Call().WithSymbol("task"),
		asm.StoreMem(asm.R9, 0, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("out"),
		asm.Return(),
	}
	m.peek, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: ins, License: "GPL"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.peek.Close() })
	return m
}

// read returns bytes of the kernel. They stay in the map for the kernel to print.
func (m *memory) read(t *testing.T, addr uint64, size int) []byte {
	t.Helper()
	args := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, addr), uint64(size))
	ret, err := m.peek.Run(&ebpf.RunOptions{Context: args})
	if err != nil || ret != 0 {
		t.Fatalf("read %d bytes at %#x: %d, %v", size, addr, int32(ret), err)
	}
	raw := make([]byte, maxKernelValue)
	if err := m.data.Lookup(uint32(0), raw); err != nil {
		t.Fatal(err)
	}
	return raw[:size]
}

// pointer reads the pointer at addr.
func (m *memory) pointer(t *testing.T, addr uint64) uint64 {
	t.Helper()
	p := binary.LittleEndian.Uint64(m.read(t, addr, 8))
	if p == 0 {
		t.Fatalf("the pointer at %#x is NULL", addr)
	}
	return p
}

// member is the offset of a member, given as `struct.member`.
func (m *memory) member(t *testing.T, path string) uint64 {
	t.Helper()
	name, member, _ := strings.Cut(path, ".")
	var s *btf.Struct
	if err := m.spec.TypeByName(name, &s); err != nil {
		t.Fatal(err)
	}
	off, ok := memberOffset(s.Members, member)
	if !ok {
		t.Fatalf("no member %s", path)
	}
	return uint64(off)
}

func memberOffset(members []btf.Member, name string) (uint32, bool) {
	for _, mem := range members {
		if mem.Name == name {
			return mem.Offset.Bytes(), true
		}
		var inner []btf.Member
		switch t := mem.Type.(type) {
		case *btf.Struct:
			inner = t.Members
		case *btf.Union:
			inner = t.Members
		}
		if mem.Name != "" {
			continue
		}
		if off, ok := memberOffset(inner, name); ok {
			return mem.Offset.Bytes() + off, true
		}
	}
	return 0, false
}

// objects finds this task, an open socket's file and inode, the socket, and a
// packet that waits in it. It returns their addresses and the file's descriptor.
func (m *memory) objects(t *testing.T) (map[string]uint64, int) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(pair[0]); syscall.Close(pair[1]) })
	if _, err := syscall.Write(pair[0], []byte("a packet of 22 bytes.\n")); err != nil {
		t.Fatal(err)
	}
	task := binary.LittleEndian.Uint64(m.read(t, 0, 8))
	files := m.pointer(t, task+m.member(t, "task_struct.files"))
	table := m.pointer(t, files+m.member(t, "files_struct.fdt"))
	fds := m.pointer(t, table+m.member(t, "fdtable.fd"))
	file := m.pointer(t, fds+uint64(pair[1])*8)
	socket := m.pointer(t, file+m.member(t, "file.private_data"))
	sock := m.pointer(t, socket+m.member(t, "socket.sk"))
	return map[string]uint64{
		"task_struct": task,
		"file":        file,
		"inode":       m.pointer(t, file+m.member(t, "file.f_inode")),
		"sock":        sock,
		"sk_buff":     m.pointer(t, sock+m.member(t, "sock.sk_receive_queue")),
	}, pair[1]
}

// typeName returns the name of a member's type, which kernels differ in.
func (m *memory) typeName(t *testing.T, of, member string) string {
	t.Helper()
	var s *btf.Struct
	if err := m.spec.TypeByName(of, &s); err != nil {
		t.Fatal(err)
	}
	for _, x := range s.Members {
		if x.Name == member {
			return x.Type.TypeName()
		}
	}
	t.Fatalf("struct %s has no %s", of, member)
	return ""
}

// TestLiveObjects prints objects of the running kernel: the text is that of
// bpf_snprintf_btf for the same bytes, its faults aside, and tells what this
// process knows of them.
func TestLiveObjects(t *testing.T) {
	guest.Require(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m := newMemory(t)
	faults := m.faults(t, m.spec)
	var stat syscall.Stat_t
	objects, fd := m.objects(t)
	if err := syscall.Fstat(fd, &stat); err != nil {
		t.Fatal(err)
	}
	facts := map[string][]string{
		"task_struct": {fmt.Sprintf("\n\t.pid = (pid_t)%d,\n", syscall.Gettid()), fmt.Sprintf("\n\t.tgid = (pid_t)%d,\n", os.Getpid())},
		"file":        {"\n\t.f_flags = (unsigned int)2,\n", ".f_op = (struct file_operations *)0xffffffff"},
		"inode":       {fmt.Sprintf("\n\t.i_ino = (%s)%d,\n", m.typeName(t, "inode", "i_ino"), stat.Ino), "\n\t.i_mode = (umode_t)S_IFSOCK|0777,\n"},
		"sock":        {".skc_family = (short unsigned int)1,\n"},
		"sk_buff":     {"\n\t.len = (unsigned int)22,\n"},
	}
	for name, addr := range objects {
		var s *btf.Struct
		if err := m.spec.TypeByName(name, &s); err != nil {
			t.Fatal(err)
		}
		id, err := m.spec.TypeID(s)
		if err != nil {
			t.Fatal(err)
		}
		p := mustCompile(t, s)
		raw := m.read(t, addr, p.Size())
		for _, zeroes := range []bool{false, true} {
			flags := uint64(rawPointers)
			if zeroes {
				flags |= showZeroes
			}
			theirs, ok := m.print(t, id, raw, flags)
			if !ok {
				t.Fatalf("%s: too long for the kernel's buffer", name)
			}
			like := kernelModel{faults: faults, zeroes: zeroes}
			if got := like.run(s, raw); got != theirs {
				t.Errorf("%s: the model is not the kernel: %s", name, firstDifference(got, theirs))
			}
			if err := compareKernelModel(s, raw, zeroes); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			t.Logf("%s: %d bytes, %d lines of text (zeroes: %v)", name, len(raw), strings.Count(theirs, "\n"), zeroes)
		}
		text := string(p.AppendValue(nil, raw, &ValueOptions{Readings: true}))
		for _, fact := range facts[name] {
			if !strings.Contains(text, fact) {
				t.Errorf("%s: no %q in\n%s", name, fact, text)
			}
		}
	}
}
