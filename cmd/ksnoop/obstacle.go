// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// obstacle returns why tracing is impossible here, or nil.
func obstacle(view *kernel.View) error {
	if err := trace.Obstacle(view); err != nil {
		return fmt.Errorf("%w\nksnoop doctor shows all that this kernel offers", err)
	}
	return nil
}

// unusable puts what stands in the way of all tracing before an error that is
// only a consequence of it: without BTF no name can be resolved.
func unusable(view *kernel.View, err error) error {
	if statusOf(err) == exitUsage {
		return err
	}
	if o := obstacle(view); o != nil {
		return o
	}
	return err
}

// lackingCapability names the one that allows what was not permitted: the files of
// tracefs are root's, of which only the list of kprobes is written to, and perf events can
// be kept from all but CAP_SYS_ADMIN. TestLackingCapability holds it to docs/safety.md.
func lackingCapability(err error) string {
	var file *fs.PathError
	switch {
	case !errors.As(err, &file):
		return "CAP_SYS_ADMIN"
	case filepath.Base(file.Path) == "kprobe_events":
		return "CAP_DAC_OVERRIDE"
	}
	return "CAP_DAC_READ_SEARCH"
}

// permissionAdvice says what helps against an error of permission. The verifier returns that
// one, too, for a program that it has read and refuses.
func permissionAdvice(err error) string {
	if attach.Examined(err) {
		return "the kernel's verifier refuses a program of ksnoop, which is a fault of ksnoop: please report it, with what ksnoop --debug and ksnoop doctor print"
	}
	return fmt.Sprintf("run as root or with %s; or the kernel is locked down, or another security module forbids it: ksnoop doctor shows what works here", lackingCapability(err))
}

// unattachable puts before an error of attaching that nothing at all can be
// attached here, if that is so. Once ctx is done, nothing is known of that.
func unattachable(ctx context.Context, err error) error {
	if attach.Scarce(err) {
		return err // what is tried now may fail for the same reason
	}
	tried := attach.Probe(ctx, attach.CapFentry, attach.CapKprobe, attach.CapReadKernel)
	if ctx.Err() != nil {
		return err
	}
	if !tried.Has(attach.CapReadKernel) {
		return fmt.Errorf("cannot trace: BPF programs may not read kernel memory here: boot without lockdown=confidentiality\n"+
			"ksnoop doctor shows what works and what does not\n%w", err)
	}
	if tried.Has(attach.CapFentry) || tried.Has(attach.CapKprobe) {
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("%w\n%s", err, permissionAdvice(err))
		}
		return err
	}
	return fmt.Errorf("cannot trace: this kernel lets neither fentry programs nor kprobes be attached\n"+
		"ksnoop doctor shows what it offers and why not; a kernel with CONFIG_KPROBES that is not locked down is needed\n%w", err)
}
