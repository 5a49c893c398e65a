// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

// hostArch is the architecture of the kernel that is traced.
const hostArch = runtime.GOARCH

// kernelFlags say whose types and functions are meant.
type kernelFlags struct{ btf, base string }

func (f *kernelFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.btf, "btf", "", "read types from `FILE`: a vmlinux, raw BTF, or one of /sys/kernel/btf; to trace, they must be those of the running kernel")
	flags.StringVar(&f.base, "base", "", "with --btf of a module: `FILE` with the types of its vmlinux")
}

// check refuses --base where there is nothing that it is the base of.
func (f *kernelFlags) check() error {
	if f.base != "" && f.btf == "" {
		return usagef("--base goes with --btf, of a module")
	}
	return nil
}

// view opens the kernel that --btf names, or the running one.
func (f *kernelFlags) view() (*kernel.View, func() error, error) {
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	if f.btf == "" {
		return kernel.OpenRunning(), func() error { return nil }, nil
	}
	file, err := openTypes(f.btf)
	if err != nil {
		return nil, nil, fmt.Errorf("--btf: %w", err)
	}
	var base io.ReaderAt
	module := ""
	if f.base != "" {
		b, err := openTypes(f.base)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("--base: %w", err), file.Close())
		}
		base, module = b, strings.TrimSuffix(filepath.Base(f.btf), ".ko")
	}
	v, err := kernel.OpenBTF(file, base, module)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.btf, errors.Join(err, file.Close()))
	}
	return v, file.Close, nil
}

// openTypes opens a file with types. They are not read from its beginning to its
// end, and so it must be a regular one.
func openTypes(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe without a writer would wait for one
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: types are read from a regular file only, not from a directory, a pipe or a device", name)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// running opens the kernel that runs, with types from the file that --btf names
// if it names one. They must be those of this kernel.
func (f *kernelFlags) running() (*kernel.View, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.btf == "" {
		v := kernel.OpenRunning()
		v.SearchSymbols(attach.SearchSymbols(v))
		return v, nil
	}
	if f.base != "" {
		return nil, usagef("--base goes with --explain and info: to trace takes the types of vmlinux alone")
	}
	file, err := openTypes(f.btf)
	if err != nil {
		return nil, fmt.Errorf("--btf: %w", err)
	}
	defer file.Close()
	v, err := kernel.OpenTyped(os.DirFS("/"), file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.btf, err)
	}
	if err := v.CheckTypes(); err != nil {
		return nil, fmt.Errorf("--btf %s: %w\n"+
			"values would be read from wrong places; what is needed is the .BTF of the vmlinux that this kernel was booted from", f.btf, err)
	}
	return v, nil
}
