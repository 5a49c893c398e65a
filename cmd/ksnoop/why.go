// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/suggest"
	"github.com/ksnoop/ksnoop/internal/why"
)

func newWhyCommand(status *int) *cobra.Command {
	var f whyFlags
	c := &cobra.Command{
		Use:   "why [OPTION]... -- COMMAND [ARG]...",
		Short: "Find the system call by which a command fails, and what refused it",
		Long: strings.TrimSpace(`
why runs a command and finds the system call that made it fail. That is the one whose
error the command has named on standard error. If it names none, it is the last one
that programs do not expect to fail.

Then it runs the command again, several times, to find the function of the kernel in
which that call was refused. It prints the call with its arguments, the function with
the stack and the way that it took, and the other calls that failed. --once keeps it
from running the command again.

The exit status is that of the command.`),
		Example: "  ksnoop why -- mount -t tmpfs -o size=foo none /mnt\n  ksnoop why --syscall openat --errno EACCES -- ./server",
		RunE: func(c *cobra.Command, args []string) error {
			n := c.ArgsLenAtDash()
			switch {
			case n > 0:
				return usagef("why takes no SPEC: %q; the command stands behind --", args[0])
			case n < 0 && len(args) > 0:
				return usagef("the command stands behind --: ksnoop why -- %s", strings.Join(args, " "))
			case len(args) == 0:
				return usagef("no command to run: ksnoop why -- COMMAND")
			}
			if err := checkEmpty(c.Flags()); err != nil {
				return err
			}
			if f.wish.Nth < 0 || f.wish.Nth == 0 && c.Flags().Changed("nth") {
				return usagef("--nth counts from 1")
			}
			return f.run(c.Context(), args, c.OutOrStdout(), c.ErrOrStderr(), status)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.wish.Syscall, "syscall", "", "explain a call of this system call, by its `NAME`: openat, bpf")
	flags.StringVar(&f.errno, "errno", "", "explain a call that failed with this `ERROR`: EINVAL")
	flags.IntVar(&f.wish.Nth, "nth", 0, "explain the `N`th failing call, of those that --syscall and --errno select")
	flags.BoolVar(&f.once, "once", false, "run the command once: name the call, but not where in the kernel it was refused")
	flags.Var(&f.user, "user", "run COMMAND as this `USER[:GROUP]`, names or numbers, and not as whom ksnoop runs as")
	f.symbols.add(flags)
	return c
}

// whyFlags are the options of "ksnoop why".
type whyFlags struct {
	wish    why.Wish
	errno   string
	once    bool
	user    userFlag
	symbols symbolFlags
}

func (f *whyFlags) run(ctx context.Context, command []string, stdout, stderr io.Writer, status *int) error {
	if f.errno != "" {
		n, err := parseErrno(f.errno)
		if err != nil || n == 0 {
			return usagef("--errno %s: it is no error: write EINVAL, or a number from 1 to 4095", f.errno)
		}
		f.wish.Errno = uint64(n)
	}
	view, err := (&kernelFlags{}).running()
	if err != nil {
		return err
	}
	if _, err := view.BTF(); err != nil {
		return err
	}
	if err := obstacle(view); err != nil {
		return err
	}
	if err := f.checkSyscall(view); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, stopSignals...)
	defer stop()
	signal.Stop(ignored)
	r := &why.Runner{Kernel: view, Command: command, User: f.user.User, Log: slog.New(sentences{stderr, slog.LevelWarn})}
	seen, err := r.Watch(ctx)
	if err != nil {
		return err
	}
	*status = seen.Status
	err = f.explain(ctx, r, seen, stdout, stderr)
	for what, n := range r.Missing {
		fmt.Fprintf(stderr, "ksnoop: %d %s\n", n, what)
	}
	return err
}

// checkSyscall refuses the name of a system call that this kernel has not.
func (f *whyFlags) checkSyscall(view *kernel.View) error {
	name := f.wish.Syscall
	if name == "" || view.HasSyscall(name, hostArch) {
		return nil
	}
	hint := suggest.Hint(name, slices.Values(view.SyscallNames(hostArch)))
	return usagef("--syscall %s: this kernel has no such system call; %s", name, cmp.Or(hint, "ksnoop info 'syscall:*' lists them"))
}

// explain prints which call matters and where it was refused. If no call can be named, it says why.
func (f *whyFlags) explain(ctx context.Context, r *why.Runner, seen *why.Seen, stdout, stderr io.Writer) error {
	chosen, reason, err := why.Choose(seen.Calls, seen.Messages, seen.Status, f.wish)
	switch {
	case err == nil:
		return f.explainCall(ctx, r, seen, chosen, reason, stdout, stderr)
	case errors.Is(err, why.ErrSucceeded):
		fmt.Fprintln(stderr, "ksnoop: the command succeeded; --syscall, --errno or --nth say which of the calls that failed is meant")
		return seen.WriteOthers(stdout, -1)
	case errors.Is(err, why.ErrNone) && seen.Status == 0:
		fmt.Fprintln(stderr, "ksnoop: the command succeeded, and none of its system calls has failed")
		return nil
	case errors.Is(err, why.ErrNone):
		fmt.Fprintf(stderr, "ksnoop: the command failed with exit status %d, and none of its system calls has failed: it is the command that has refused\n", seen.Status)
		return nil
	}
	return errors.Join(err, seen.WriteOthers(stdout, -1))
}

// explainCall prints all that can be found out about one call.
func (f *whyFlags) explainCall(ctx context.Context, r *why.Runner, seen *why.Seen, chosen int, reason string, stdout, stderr io.Writer) error {
	if err := seen.WriteChosen(stdout, chosen, reason); err != nil {
		return err
	}
	if !f.once {
		if err := f.explainPlace(ctx, r, seen, chosen, stdout, stderr); err != nil {
			return err
		}
	}
	return seen.WriteOthers(stdout, chosen)
}

// explainPlace runs the command again, to find out where in the kernel the call was refused.
func (f *whyFlags) explainPlace(ctx context.Context, r *why.Runner, seen *why.Seen, chosen int, stdout, stderr io.Writer) error {
	defer f.symbols.close(stderr)
	resolver, err := f.symbols.open(r.Kernel, stderr)
	if err != nil {
		return err
	}
	found := slow(stderr, "running the command again, to see where in the kernel the call is refused...")
	place, err := r.Find(ctx, seen, chosen, resolver)
	found()
	if errors.Is(err, why.ErrGone) {
		fmt.Fprintln(stderr, "ksnoop: the call did not fail when the command was run again, so it is not known where it was refused")
		return nil
	}
	if err != nil {
		return err
	}
	if err := place.Write(stdout); err != nil {
		return err
	}
	found = slow(stderr, "running the command again, to see which way that function takes...")
	way, err := r.Way(ctx, seen, chosen, place, &output.Tails{Kernel: resolver})
	found()
	if err != nil {
		return fmt.Errorf("which way %s took: %w", place.Innermost().Function, err)
	}
	_, err = stdout.Write(way)
	return err
}
