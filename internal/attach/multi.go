// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// hookMulti hooks a program at many functions by one kprobe.multi link, whose
// cookies tell the program which probe it runs for. The kernel refuses the
// whole link for the sake of one function; such functions are found by
// halving.
func (t *Tracer) hookMulti(prog *ebpf.Program, probes []*plan.Probe, e end) (made []closer, failed []Failure) {
	o := link.KprobeMultiOptions{Session: e == atBoth}
	for _, p := range probes {
		if p.Func.Addr == 0 {
			failed = append(failed, Failure{p, errNoAddress})
			continue
		}
		o.Addresses = append(o.Addresses, uintptr(p.Func.Addr))
		o.Cookies = append(o.Cookies, codegen.Cookie(p))
	}
	probes = without(probes, failed)
	if len(probes) == 0 {
		return nil, failed
	}
	hook := link.KprobeMulti
	if e == atReturn {
		hook = link.KretprobeMulti
	}
	l, err := hook(prog, o)
	switch {
	case err == nil:
		return []closer{l}, failed
	case len(probes) == 1 || !oneFunctionsFault(err):
		for _, p := range probes {
			failed = append(failed, Failure{p, fmt.Errorf("%s of %s: %w", hookName(p.Method, e), p.Func.Name, err)})
		}
		return nil, failed
	}
	half := len(probes) / 2
	for _, part := range [][]*plan.Probe{probes[:half], probes[half:]} {
		links, bad := t.hookMulti(prog, part, e)
		made, failed = append(made, links...), append(failed, bad...)
	}
	return made, failed
}

// oneFunctionsFault reports whether a link may be refused because of one of its
// functions: it is not traceable, is gone, or somebody else has taken it.
func oneFunctionsFault(err error) bool {
	for _, e := range []error{unix.EINVAL, unix.ENOENT, unix.ESRCH, unix.EBUSY, unix.EILSEQ, os.ErrNotExist} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
