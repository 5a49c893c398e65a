// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// hookInstruction attaches a kprobe inside a function. Only the kernel, which
// decodes the instructions, knows where they begin. A function that has
// namesakes is told by its address.
func hookInstruction(p *plan.Probe, prog program) (l closer, err error) {
	if p.Func.Addr != 0 {
		l, err = prog.kprobeAt(p.Func.Addr+p.Hook.Offset, atEntry)
	} else {
		l, err = prog.kprobe(p.Func.Name, &link.KprobeOptions{Offset: p.Hook.Offset})
	}
	switch {
	case p.Hook.Inlined && errors.Is(err, unix.EINVAL):
		return nil, errors.New("the kernel lets nobody probe the function that it was inlined into")
	case p.Hook.Inlined && errors.Is(err, unix.EILSEQ):
		return nil, errors.New("the kernel patches its first instruction at run time")
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EILSEQ) || errors.Is(err, unix.EINVAL):
		// The link package says of all of them that the symbol does not exist.
		return nil, fmt.Errorf("no instruction begins there, or it is one that the kernel patches at run time or lets nobody trace: look at a disassembly of %s", p.Func.Name)
	}
	return l, err
}

// errMisemulated is why some instructions of amd64 are left alone.
var errMisemulated = errors.New("it is a call with a prefix, and the kernel would go on inside of the instruction behind it, and crash: probe the one before it")

// errPointer is why some words of arm64 are left alone.
var errPointer = errors.New("no instruction begins there: it is a pointer that the kernel keeps for the next function, and a probe would change it")

// checkCode refuses an instruction that the kernel would get wrong, and what is none. What cannot be read is not
// refused: only /proc/kcore has the code.
func (t *Tracer) checkCode(p *plan.Probe) error {
	view := t.options.Kernel
	if view == nil {
		return nil
	}
	start := p.Func.Addr
	if start == 0 {
		s, ok := view.SymbolNamed(p.Func.Name, p.Func.Module)
		if !ok {
			return nil
		}
		start = s.Addr
	}
	m, err := openKcore()
	if err != nil {
		return nil
	}
	defer m.Close()
	return misplaced(view.Arch(), m, start+p.Hook.Offset)
}

// misplaced says why there must be no probe at an address, if that is so.
func misplaced(arch string, m memory, addr uint64) error {
	text, word := make([]byte, code.Longest), make([]byte, 8)
	switch {
	case arch == "arm64" && m.read(word, addr&^7) == nil && code.KeepsPointer(arch, word):
		return errPointer
	case arch == "amd64" && m.read(text, addr) == nil && code.Misemulated(text):
		return errMisemulated
	}
	return nil
}
