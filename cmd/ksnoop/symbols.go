// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// symbolFlags say what is told about addresses, and from which file.
type symbolFlags struct {
	vmlinux string
	level   levelFlag
}

func (f *symbolFlags) add(flags *pflag.FlagSet) {
	f.level.Level = symbols.LevelInlines
	flags.StringVarP(&f.vmlinux, "vmlinux", "k", "", "`FILE` with the debug info of the kernel, if not in one of the usual places")
	flags.VarP(&f.level, "symbolize", "s", "what is told about addresses: none, line or inlines (also n and s)")
}

// A levelFlag is a symbols.Level as an option.
type levelFlag struct{ symbols.Level }

var _ pflag.Value = (*levelFlag)(nil)

// Set implements pflag.Value.
func (l *levelFlag) Set(s string) (err error) {
	l.Level, err = symbols.ParseLevel(s)
	return err
}

// Type implements pflag.Value.
func (l *levelFlag) Type() string { return "LEVEL" }

// open returns what names the addresses of a running kernel. Where there is no
// debug info it names symbols only, and says on stderr what would give more.
func (f *symbolFlags) open(view *kernel.View, stderr io.Writer) (*symbols.Resolver, func() error, error) {
	none := func() error { return nil }
	if f.level.Level == symbols.LevelNone {
		return symbols.New(view, nil, symbols.LevelNone), none, nil
	}
	info, err := symbols.OpenDebugInfo("/", view, f.vmlinux)
	if err == nil {
		return symbols.New(view, info, f.level.Level), info.Close, nil
	}
	var refusal *debuginfo.Refusal
	if f.vmlinux != "" && !errors.As(err, &refusal) {
		return nil, nil, fmt.Errorf("--vmlinux: %w", err)
	}
	fmt.Fprintf(stderr, "ksnoop: symbols only, no source lines or inlined functions: %v (-s none: without this hint)\n", err)
	return symbols.New(view, nil, symbols.LevelNone), none, nil
}
