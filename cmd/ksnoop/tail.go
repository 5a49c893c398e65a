// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/process"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// tailFlags say what is shown of a call besides its values.
type tailFlags struct {
	stack, caller bool
	userStack     ustackFlag
	branches      branchFlags
	users         *users // nil before open, and if none are named
}

func (f *tailFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.stack, "stack", false, "with each call: the functions that led to it")
	flags.Var(&f.userStack, "ustack", "with each call or session: the stack of the process. `HOW` is fp, by frame pointers, or dwarf[,SIZE], by unwind information (default fp; SIZE bytes of the stack are copied: 16K). With sessions, text and JSON show it")
	flags.Lookup("ustack").NoOptDefVal = ustackPointers
	flags.BoolVar(&f.caller, "caller", false, "with each call: the function that made it; cheaper than --stack")
	f.branches.add(flags)
}

func (f *tailFlags) stacks() bool { return f.stack || f.userStack.wanted() || f.caller }

// set says what is wanted.
func (f *tailFlags) set(t *bpf.Tail) {
	*t = trace.Stacks(f.stack, f.caller, f.userStack.wanted(), f.userStack.copied())
	f.branches.set(t)
}

// unwinder returns what makes the stacks of processes; nil if the kernel does. It is there when
// open has returned.
func (f *tailFlags) unwinder() *process.Unwinder {
	if f.userStack.copied() == 0 || f.users == nil {
		return nil
	}
	return process.NewUnwinder(f.users.symbols, hostArch)
}

func (f *tailFlags) close() {
	f.users.close()
	f.branches.close()
}

// open returns what prints tails; nil if there will be none. names is what to
// tell about addresses, and is to be closed afterwards. keys says that keys of tables are stacks,
// paths that the ways of calls are wanted.
func (f *tailFlags) open(view *kernel.View, names *symbolFlags, keys, paths bool, stderr io.Writer) (*output.Tails, error) {
	if !f.stacks() && f.branches.recorder == nil && !keys && !paths {
		return nil, nil
	}
	user := f.openUsers(names, keys, stderr)
	if !f.stack && !f.caller && !paths && f.branches.recorder == nil { // nothing that debug info could say more of
		r := symbols.New(view, nil, symbols.LevelNone)
		return f.branches.show(&output.Tails{Kernel: r, User: user}), nil
	}
	r, err := names.open(view, stderr) // whoever has the names closes them
	if err != nil {
		return nil, err
	}
	return f.branches.show(&output.Tails{Kernel: r, User: user}), nil
}

// openUsers returns what names addresses of processes; nil if there will be none.
func (f *tailFlags) openUsers(names *symbolFlags, keys bool, stderr io.Writer) func(*bpf.Event, string) output.Process {
	if !f.userStack.wanted() && !keys {
		return nil
	}
	f.users = openUsers(f.userStack.copied() > 0, stderr)
	if level := names.level.Level; level != symbols.LevelNone && f.userStack.wanted() {
		f.users.symbols.ShowLines(process.Lines{Root: "/", Caches: find.CacheFolders(os.Getenv), Inlined: level == symbols.LevelInlines})
	}
	return f.users.of
}

// recordedTails prints the tails of a recording, by the symbols in it. user returns the names of a process.
func recordedTails(view *kernel.View, user func(*bpf.Event, string) output.Process) *output.Tails {
	return &output.Tails{Kernel: symbols.New(view, nil, symbols.LevelNone), User: user}
}
