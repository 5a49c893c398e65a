// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"
	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// hostArch is the architecture of the kernel that is traced.
const hostArch = runtime.GOARCH

// kernelFlags say whose types and functions are meant.
type kernelFlags struct{ btf, base string }

func (f *kernelFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.btf, "btf", "", "read types from `FILE`: a vmlinux, raw BTF, or one of /sys/kernel/btf")
	flags.StringVar(&f.base, "base", "", "with --btf of a module: `FILE` with the types of its vmlinux")
}

// view opens the kernel that --btf names, or the running one.
func (f *kernelFlags) view() (*kernel.View, func() error, error) {
	if f.btf == "" {
		return kernel.Open(os.DirFS("/")), func() error { return nil }, nil
	}
	file, err := os.Open(f.btf)
	if err != nil {
		return nil, nil, err
	}
	var base io.ReaderAt
	module := ""
	if f.base != "" {
		b, err := os.Open(f.base)
		if err != nil {
			return nil, nil, errors.Join(err, file.Close())
		}
		base, module = b, strings.TrimSuffix(filepath.Base(f.btf), ".ko")
	}
	v, err := kernel.OpenBTF(file, base, module)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.btf, errors.Join(err, file.Close()))
	}
	return v, file.Close, nil
}

// typeIDs returns the BTF ids of vmlinux's types, if the kernel lets pointers be
// cast to them. It finds that out when it is first asked.
func typeIDs(ctx context.Context, view *kernel.View) func(btf.Type) (btf.TypeID, bool) {
	possible := sync.OnceValue(func() bool { return attach.Probe(ctx, attach.CapRdonlyCast).Has(attach.CapRdonlyCast) })
	return func(t btf.Type) (btf.TypeID, bool) {
		if !possible() {
			return 0, false
		}
		spec, err := view.BTF()
		if err != nil {
			return 0, false
		}
		id, err := spec.TypeID(t)
		return id, err == nil
	}
}
