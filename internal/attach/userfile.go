// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"os"

	"github.com/cilium/ebpf/link"

	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/userfunc"
)

// A userFile is a program or library to put probes into.
type userFile struct {
	path     string
	identity userfunc.Identity
}

func fileOf(p *plan.Probe) userFile { return userFile{p.Hook.File, p.Hook.Identity} }

// placesOf returns where a link of uprobe.multi hooks a program, which the cookies tell which probe it runs for.
func placesOf(probes []*plan.Probe) *link.UprobeMultiOptions {
	o := &link.UprobeMultiOptions{}
	semaphores := false
	for _, p := range probes {
		o.Addresses = append(o.Addresses, p.Hook.Place)
		o.Cookies = append(o.Cookies, codegen.Cookie(&p.Probe))
		o.RefCtrOffsets = append(o.RefCtrOffsets, p.Hook.Semaphore)
		semaphores = semaphores || p.Hook.Semaphore != 0
	}
	if !semaphores {
		o.RefCtrOffsets = nil
	}
	return o
}

// openExecutable opens the file by way of its descriptor, so that the kernel puts probes into the
// very file whose functions are known. Where /proc is not that of ksnoop's PID namespace, it is the
// path that the kernel opens, right after the file behind it was seen to be the same.
func (u userFile) openExecutable() (*link.Executable, func(), error) {
	f, err := u.identity.Reopen(u.path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", u.path, err)
	}
	path := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if _, err := os.Stat(path); err != nil {
		path = u.path
	}
	x, err := link.OpenExecutable(path)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return x, func() { f.Close() }, nil
}
