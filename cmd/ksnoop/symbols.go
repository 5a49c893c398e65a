// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
	"github.com/ksnoop/ksnoop/internal/decide"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// symbolFlags say what is told about addresses, and from which file.
type symbolFlags struct {
	vmlinux string
	level   levelFlag
	source  string             // the folder with the kernel's sources
	info    *symbols.DebugInfo // nil until it is needed
}

func (f *symbolFlags) add(flags *pflag.FlagSet) {
	f.addFile(flags)
	f.level.Level = symbols.LevelInlines
	flags.StringVar(&f.source, "source", "", "`DIR` with the kernel's sources, to show the line that decided an error")
	flags.VarP(&f.level, "symbolize", "s", "what is told about addresses: none, line or inlines (also n and s); without a `LEVEL`: line")
}

// addFile adds the option for the file alone.
func (f *symbolFlags) addFile(flags *pflag.FlagSet) {
	flags.StringVarP(&f.vmlinux, "vmlinux", "k", "", "`FILE` with the debug info of the kernel, if not in one of the usual places")
}

// check refuses a folder of sources that is not there.
func (f *symbolFlags) check() error {
	if f.source == "" {
		return nil
	}
	switch info, err := os.Stat(f.source); {
	case err != nil:
		return fmt.Errorf("--source: %w", err)
	case !info.IsDir():
		return usagef("--source %s: it is no folder", f.source)
	}
	return nil
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

// debugInfo opens the debug info of the running kernel.
func (f *symbolFlags) debugInfo(view *kernel.View) (_ *symbols.DebugInfo, err error) {
	if f.info == nil {
		f.info, err = f.openInfo(view)
	}
	return f.info, err
}

// openInfo opens the debug info of the running kernel once more: one is for one
// goroutine only.
func (f *symbolFlags) openInfo(view *kernel.View) (*symbols.DebugInfo, error) {
	info, err := symbols.OpenDebugInfo("/", view, f.vmlinux)
	var absent *find.AbsentError
	if errors.As(err, &absent) {
		err = fmt.Errorf("%w, or name it by -k", err)
	}
	return info, err
}

// close closes the debug info if it was opened, and says on stderr what of it
// could not be read.
func (f *symbolFlags) close(stderr io.Writer) {
	if f.info == nil {
		return
	}
	if err := errors.Join(f.info.Err(), f.info.Missing(), f.info.Close()); err != nil {
		fmt.Fprintln(stderr, "ksnoop: source lines or inlined functions are missing:", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// annotate returns the plan with what debug info says of the ways that are wanted.
func (f *symbolFlags) annotate(p *plan.Plan, view *kernel.View, resolver output.Resolver) *plan.Plan {
	source, ok := resolver.(decide.Source)
	if !ok {
		return p
	}
	a := decide.Annotator{Source: source, Types: view.TypesByName}
	if f.source != "" {
		a.Tree = os.DirFS(f.source)
	}
	return a.Annotate(p)
}

// sources finds the functions of source files. Debug info is opened when the
// first file is asked for.
func (f *symbolFlags) sources(view *kernel.View) plan.Sources {
	return func(glob string) (func(kernel.Function) bool, error) {
		info, err := f.debugInfo(view)
		if err != nil {
			return nil, err
		}
		return info.Sources(glob), nil
	}
}

// open returns what names the addresses of a running kernel, until close. Where
// there is no debug info it names symbols only, and says on stderr what would
// give more.
func (f *symbolFlags) open(view *kernel.View, stderr io.Writer) (*symbols.Resolver, error) {
	if err := view.Hidden(); err != nil {
		fmt.Fprintf(stderr, "ksnoop: stacks are not shown, their addresses have no names: %v\n", err)
		return symbols.New(view, nil, symbols.LevelNone), nil
	}
	if f.level.Level == symbols.LevelNone {
		return symbols.New(view, nil, symbols.LevelNone), nil
	}
	info, err := f.debugInfo(view)
	if err == nil {
		return symbols.New(view, info, f.level.Level), nil
	}
	var refusal *find.Refusal
	if f.vmlinux != "" && !errors.As(err, &refusal) {
		return nil, fmt.Errorf("--vmlinux: %w", err)
	}
	fmt.Fprintf(stderr, "ksnoop: stacks without source lines: %v (-s none hides this)\n", err)
	return symbols.New(view, nil, symbols.LevelNone), nil
}
