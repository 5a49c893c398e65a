// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// hookMulti hooks a program at many functions by one kprobe.multi link, whose
// cookies tell the program which probe it runs for.
func (t *Tracer) hookMulti(prog program, probes []*plan.Probe, e end) (made []closer, failed []Failure) {
	return halving(probes, e, func(probes []*plan.Probe) (closer, error) {
		if t.hurried() {
			return nil, ErrInterrupted
		}
		o := link.KprobeMultiOptions{Session: e == atBoth}
		for _, p := range probes {
			o.Addresses = append(o.Addresses, uintptr(p.Func.Addr))
			o.Cookies = append(o.Cookies, codegen.Cookie(&p.Probe))
		}
		l, err := prog.kprobeMulti(e, o)
		return await(e, l, err)
	})
}

// hookUser hooks a program at many functions of user space, by one link for each file.
func (t *Tracer) hookUser(prog program, probes []*plan.Probe, e end) (made []closer, failed []Failure) {
	var files []userFile
	of := map[userFile][]*plan.Probe{}
	for _, p := range probes {
		file := fileOf(p)
		if of[file] == nil {
			files = append(files, file)
		}
		of[file] = append(of[file], p)
	}
	for _, file := range files {
		links, refused := halving(of[file], e, func(probes []*plan.Probe) (closer, error) {
			if t.hurried() {
				return nil, ErrInterrupted
			}
			return prog.uprobeMulti(file, placesOf(probes), e)
		})
		made, failed = append(made, links...), append(failed, refused...)
	}
	return made, failed
}

// halving hooks functions by one link. The kernel refuses the whole link for the
// sake of one function; such functions are found by halving.
func halving(probes []*plan.Probe, e end, hook func([]*plan.Probe) (closer, error)) (made []closer, failed []Failure) {
	if len(probes) == 0 {
		return nil, nil
	}
	l, err := hook(probes)
	switch {
	case err == nil:
		return []closer{l}, nil
	case len(probes) == 1 || !oneFunctionsFault(err):
		for _, p := range probes {
			failed = append(failed, Failure{p, fmt.Errorf("%s of %s: %w", hookName(p.Method, e), p.Func.Name, err)})
		}
		return nil, failed
	}
	half := len(probes) / 2
	for _, part := range [][]*plan.Probe{probes[:half], probes[half:]} {
		links, bad := halving(part, e, hook)
		made, failed = append(made, links...), append(failed, bad...)
	}
	return made, failed
}

// enotsupp is the kernel's ENOTSUPP, which user space was never to see.
const enotsupp = syscall.Errno(524)

// oneFunctionsFault reports whether a link may be refused because of one of its
// functions: it is not traceable, is gone, or somebody else has taken it.
func oneFunctionsFault(err error) bool {
	for _, e := range []error{unix.EINVAL, unix.ENOENT, unix.ESRCH, unix.EBUSY, unix.EILSEQ, unix.EOPNOTSUPP, enotsupp, unix.E2BIG, os.ErrNotExist} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
