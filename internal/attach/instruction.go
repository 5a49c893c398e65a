// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/plan"
)

// hookInstruction attaches a kprobe inside a function. Only the kernel, which
// decodes the instructions, knows where they begin.
func hookInstruction(p *plan.Probe, prog *ebpf.Program) (link.Link, error) {
	l, err := link.Kprobe(p.Func.Name, prog, &link.KprobeOptions{Offset: p.Target.Offset})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EILSEQ) || errors.Is(err, unix.EINVAL) {
		// The link package says of all of them that the symbol does not exist.
		return nil, fmt.Errorf("no instruction begins there, or it is one that the kernel patches at run time: look at a disassembly of %s", p.Func.Name)
	}
	return l, err
}
