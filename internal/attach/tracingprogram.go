// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// An object has functions: a module's BTF, or a BPF program.
type object interface {
	FD() int
	Close() error
}

// Attach types of tracing programs that the ebpf package does not know (it ends
// with those of Linux 6.10), as linux/bpf.h has them.
const (
	attachFsession      = ebpf.AttachType(58) // Linux 7.0
	attachFentryMulti   = ebpf.AttachType(59) // Linux 7.3, as those that follow
	attachFexitMulti    = ebpf.AttachType(60)
	attachFsessionMulti = ebpf.AttachType(61)
)

// A tracingProgram is a program of one of these types before it is loaded.
type tracingProgram struct {
	name  string
	insns asm.Instructions
	as    ebpf.AttachType
	// function is the BTF id of the function that it is for; 0 for programs
	// of many functions, which are told when they are attached.
	function btf.TypeID
	of       object // whose functions; nil for vmlinux
}

// progLoadAttr is what BPF_PROG_LOAD takes, as far as it is used here.
type progLoadAttr struct {
	progType           uint32
	insnCount          uint32
	insns              uint64
	license            uint64
	logLevel           uint32
	logSize            uint32
	logBuf             uint64
	kernVersion        uint32
	flags              uint32
	name               [16]byte
	ifindex            uint32
	expectedAttachType uint32
	btfFD              uint32
	funcInfoRecSize    uint32
	funcInfo           uint64
	funcInfoCount      uint32
	lineInfoRecSize    uint32
	lineInfo           uint64
	lineInfoCount      uint32
	attachBTFID        uint32
	attachObjectFD     uint32 // a BTF object or a program
	coreReloCount      uint32
	fdArray            uint64
}

// load does by itself what the ebpf package does for the types that it knows.
// Maps are associated already, and kfuncs are called by their ids.
func (p *tracingProgram) load(types *btf.Cache) (*ebpf.Program, error) {
	insns := slices.Clone(p.insns)
	var b btf.Builder
	if err := relocate(insns, &b, types); err != nil {
		return nil, err
	}
	funcs, lines, err := btf.MarshalExtInfos(insns, &b)
	if err != nil {
		return nil, fmt.Errorf("describing functions: %w", err)
	}
	handle, err := btf.NewHandle(&b)
	if err != nil {
		return nil, fmt.Errorf("loading BTF: %w", err)
	}
	defer handle.Close()
	var code bytes.Buffer
	if err := insns.Marshal(&code, binary.LittleEndian); err != nil {
		return nil, err
	}
	license := []byte("Dual BSD/GPL\x00")
	raw := code.Bytes()
	var pin runtime.Pinner
	defer pin.Unpin()
	at := func(s []byte) uint64 {
		if len(s) == 0 {
			return 0
		}
		pin.Pin(&s[0])
		return uint64(uintptr(unsafe.Pointer(&s[0])))
	}
	attr := progLoadAttr{
		progType: uint32(ebpf.Tracing), expectedAttachType: uint32(p.as),
		insns: at(raw), insnCount: uint32(len(raw) / asm.InstructionSize), license: at(license),
		btfFD: uint32(handle.FD()), attachBTFID: uint32(p.function),
		funcInfo: at(funcs), funcInfoRecSize: btf.FuncInfoSize, funcInfoCount: uint32(len(funcs)) / btf.FuncInfoSize,
		lineInfo: at(lines), lineInfoRecSize: btf.LineInfoSize, lineInfoCount: uint32(len(lines)) / btf.LineInfoSize,
	}
	copy(attr.name[:len(attr.name)-1], programNameOf(p.name))
	if p.of != nil {
		attr.attachObjectFD = uint32(p.of.FD())
	}
	fd, err := sysBPF(unix.BPF_PROG_LOAD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if err != nil {
		log := make([]byte, 1<<20)
		attr.logLevel, attr.logSize, attr.logBuf = 1, uint32(len(log)), at(log)
		var again error
		if fd, again = sysBPF(unix.BPF_PROG_LOAD, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); again != nil {
			return nil, verifierErrorOf(err, log)
		}
	}
	return ebpf.NewProgramFromFD(fd)
}

// programNameOf keeps what the kernel allows in a program's name.
func programNameOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return -1
	}, name)
}

func verifierErrorOf(err error, log []byte) error {
	text, _, _ := bytes.Cut(log, []byte{0})
	if len(text) == 0 {
		return fmt.Errorf("loading a program: %w", err)
	}
	return &ebpf.VerifierError{Cause: fmt.Errorf("load program: %w", err), Log: strings.Split(strings.TrimSpace(string(text)), "\n")}
}

// relocate adjusts accesses to the kernel's structs to the running kernel.
func relocate(insns asm.Instructions, b *btf.Builder, types *btf.Cache) error {
	var relos []*btf.CORERelocation
	var at []int
	for i := range insns {
		if r := btf.CORERelocationMetadata(&insns[i]); r != nil {
			relos, at = append(relos, r), append(at, i)
		}
	}
	if len(relos) == 0 {
		return nil
	}
	kernel, err := types.Kernel()
	if err != nil {
		return fmt.Errorf("reading the kernel's types: %w", err)
	}
	fixups, err := btf.CORERelocate(relos, []*btf.Spec{kernel}, binary.LittleEndian, b.Add)
	if err != nil {
		return fmt.Errorf("relocating: %w", err)
	}
	for i := range fixups {
		if err := fixups[i].Apply(&insns[at[i]]); err != nil {
			return fmt.Errorf("relocating %s: %w", relos[i], err)
		}
	}
	return nil
}

// linkCreateAttr is what BPF_LINK_CREATE takes for tracing programs.
type linkCreateAttr struct {
	progFD, targetFD  uint32
	attachType, flags uint32
	ids, cookies      uint64 // of tracing_multi; a link of one function has its cookie at ids, and no more
	count             uint32
	pad               uint32
}

// A tracingLink attaches a program for as long as its descriptor is open.
type tracingLink struct{ fd int }

func (l *tracingLink) Close() error { return os.NewSyscallError("close", unix.Close(l.fd)) }

// linkTracing attaches a program to the function that it was loaded for.
func linkTracing(prog *ebpf.Program, as ebpf.AttachType) (closer, error) {
	attr := linkCreateAttr{progFD: uint32(prog.FD()), attachType: uint32(as)}
	return createLink(prog, &attr)
}

// linkTracingMulti attaches a program to many functions of one BTF object.
func linkTracingMulti(prog *ebpf.Program, as ebpf.AttachType, ids []btf.TypeID, cookies []uint64) (closer, error) {
	if len(ids) == 0 || len(ids) != len(cookies) {
		return nil, errors.New("no functions to attach to")
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&ids[0])
	pin.Pin(&cookies[0])
	return createLink(prog, &linkCreateAttr{progFD: uint32(prog.FD()), attachType: uint32(as),
		ids: uint64(uintptr(unsafe.Pointer(&ids[0]))), cookies: uint64(uintptr(unsafe.Pointer(&cookies[0]))), count: uint32(len(ids))})
}

func createLink(prog *ebpf.Program, attr *linkCreateAttr) (closer, error) {
	fd, err := sysBPF(unix.BPF_LINK_CREATE, unsafe.Pointer(attr), unsafe.Sizeof(*attr))
	runtime.KeepAlive(prog)
	if err != nil {
		return nil, os.NewSyscallError("bpf(BPF_LINK_CREATE)", err)
	}
	return &tracingLink{fd}, nil
}

// sysBPF is the system call. The verifier asks to be called again when a signal
// comes, as Go's own do.
func sysBPF(cmd int, attr unsafe.Pointer, size uintptr) (int, error) {
	for range 32 {
		fd, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(cmd), uintptr(attr), size)
		switch {
		case errno == unix.EAGAIN && cmd == unix.BPF_PROG_LOAD:
			continue
		case errno != 0:
			return 0, errno
		}
		return int(fd), nil
	}
	return 0, unix.EAGAIN
}
