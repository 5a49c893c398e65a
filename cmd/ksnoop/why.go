// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
	"github.com/ksnoop/ksnoop/internal/destination"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/process"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/suggest"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/trace"
	"github.com/ksnoop/ksnoop/internal/why"
)

func newWhyCommand(status *int) *cobra.Command {
	var f whyFlags
	c := &cobra.Command{
		Use:   "why [OPTION]... {-p PID | -- COMMAND [ARG]...}",
		Short: "Find the system call by which a command fails, and what refused it",
		Long: strings.TrimSpace(`
why runs a command and finds the system call that made it fail. That is the one whose
error the command has named on standard error. If it names none, it is the last one
that programs do not expect to fail.

Then it runs the command again, several times, to find the function of the kernel in
which that call was refused. It prints the call with its arguments, the function with
the stack and the way that it took, and the other calls that failed. --once keeps it
from running the command again.

With -p it waits for a call of a process that runs, or of what that starts, to fail, and
then for it to fail again: each failure tells more. The process is neither stopped nor
changed. Ctrl-C prints what is known by then.

The exit status is that of the command, and 1 if no such call has failed as --syscall,
--errno and --nth ask for. With -p it is 1 if no call was found.`),
		Example: "  ksnoop why -- mount -t tmpfs -o size=foo none /mnt\n  ksnoop why --syscall openat --errno EACCES -- ./server\n  ksnoop why -p 4711 --errno EACCES",
		RunE: func(c *cobra.Command, args []string) error {
			n := c.ArgsLenAtDash()
			process := c.Flags().Changed("pid")
			switch {
			case process && len(args) > 0:
				return usagef("-p is about a process that runs: it goes without a command")
			case process:
			case n > 0:
				return usagef("why takes no SPEC: %q; the command stands behind --", args[0])
			case n < 0 && len(args) > 0:
				return usagef("the command stands behind --") // behindDashes has its words
			case len(args) == 0:
				return usagef("no command to run: ksnoop why -- COMMAND")
			}
			if err := errors.Join(f.check(c.Flags()), f.symbols.check()); err != nil {
				return err
			}
			return f.run(c.Context(), args, c.OutOrStdout(), c.ErrOrStderr(), status)
		},
	}
	c.DisableFlagsInUseLine = true
	flags := c.Flags()
	flags.SortFlags = false
	flags.UintVarP(&f.pid, "pid", "p", 0, "look at the process `PID`, which runs, and what it starts; each further failure of the call tells more")
	flags.StringVar(&f.wish.Syscall, "syscall", "", "explain a call of this system call, by its `NAME`: openat, bpf")
	flags.StringVar(&f.errno, "errno", "", "explain a call that failed with this `ERROR`: EINVAL")
	flags.IntVar(&f.wish.Nth, "nth", 0, "explain the `N`th failing call, of those that --syscall and --errno select")
	flags.BoolVar(&f.once, "once", false, "run the command once: name the call, but not where in the kernel it was refused")
	flags.Var(&f.user, "user", "run COMMAND as this `USER[:GROUP]`, names or numbers, and not as whom ksnoop runs as")
	f.ustack.how = ustackPointers
	flags.Var(&f.ustack, "ustack", "`HOW` the stack of the process is taken that led to the call: fp, by frame pointers, or dwarf[,SIZE], by unwind information; SIZE bytes of the stack are copied: 16K")
	f.symbols.add(flags)
	f.addOutput(flags)
	return c
}

// whyFlags are the options of "ksnoop why".
type whyFlags struct {
	pid     uint
	wish    why.Wish
	errno   string
	once    bool
	user    userFlag
	ustack  ustackFlag
	symbols symbolFlags
	output  outputFlags // format, file and force
	record  string
}

// addOutput adds the options about where the page goes.
func (f *whyFlags) addOutput(flags *pflag.FlagSet) {
	flags.Var(pageFormatFlag{&f.output.format}, "format", "print the page in this `FORMAT`: text, json")
	flags.StringVarP(&f.output.file, "output", "o", "", "print the page to a new `FILE`")
	flags.StringVar(&f.record, "record", "", "also record all runs to a new `FILE`, of which ksnoop replay prints the page again")
	flags.BoolVar(&f.output.force, "force", false, "with -o and --record: replace FILE if it exists")
}

// A pageFormatFlag is the format of a page as an option.
type pageFormatFlag struct{ *formatFlag }

// Set implements pflag.Value.
func (f pageFormatFlag) Set(s string) error {
	if s != "text" && s != "json" {
		return usagef("there are text and json")
	}
	return f.formatFlag.Set(s)
}

// check refuses options that make no sense.
func (f *whyFlags) check(flags *pflag.FlagSet) error {
	if err := checkEmpty(flags); err != nil {
		return err
	}
	switch {
	case f.pid == 0 && flags.Changed("pid"):
		return usagef("-p 0: processes count from 1")
	case f.pid > math.MaxInt32:
		return usagef("-p %d: there is no process with such a number", f.pid)
	case f.pid == uint(os.Getpid()):
		return usagef("-p %d: that is ksnoop itself", f.pid)
	case f.pid != 0 && f.user.User != nil:
		return usagef("--user goes with a command, and not with -p")
	case f.wish.Nth < 0 || f.wish.Nth == 0 && flags.Changed("nth"):
		return usagef("--nth counts from 1")
	case f.output.file == "-":
		return usagef("-o -: leave it out to print to the standard output, or write ./- for a file of that name")
	case f.output.force && f.output.file == "" && f.record == "":
		return usagef("--force goes with -o or --record")
	case f.record == "-" || f.record != "" && (&recordFlags{file: f.record}).toStdout():
		return usagef("--record %s: the command writes there, too; name a file", f.record)
	case f.record != "" && f.output.file != "" && sameFile(f.record, f.output.file):
		return usagef("--record and -o name the same file, %s", f.record)
	}
	if f.errno == "" {
		return nil
	}
	n, err := parseErrno(f.errno)
	if err != nil || n == 0 {
		return usagef("--errno %s: it is no error%s: write EINVAL, or a number from 1 to 4095", f.errno, meantError(strings.ToUpper(f.errno)))
	}
	f.wish.Errno = uint64(n)
	return nil
}

func (f *whyFlags) run(ctx context.Context, command []string, stdout, stderr io.Writer, status *int) error {
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
	ctx, stop := stoppable(ctx, doubled)
	defer stop()
	r := &why.Runner{Kernel: view, Command: command, Wish: f.wish, User: f.user.User, Log: slog.New(sentences{stderr, slog.LevelWarn}),
		Slow: func(what string) func() { return slow(stderr, what) }}
	if f.pid != 0 {
		ended, forget, err := trace.Processes{PIDs: []uint{f.pid}, Follow: true}.Watch()
		if err != nil {
			return err
		}
		defer forget()
		r.Process = &why.Process{PID: uint32(f.pid), Wish: f.wish, Ended: ended}
	}
	called := f.openUsers(r, stderr)
	defer called.close()
	if r.Recording, err = f.openRecording(view, called); err != nil {
		return err
	}
	out, err := f.output.open(stdout)
	if err != nil {
		return errors.Join(err, r.Recording.Close())
	}
	err = f.watch(ctx, r, &output.Tails{User: called.of}, out, stderr, status)
	return stopped(ctx, out.end(errors.Join(err, r.Recording.Close())))
}

// openUsers has the first run take the stacks of processes, and returns what names them.
func (f *whyFlags) openUsers(r *why.Runner, stderr io.Writer) *users {
	u := openUsers(f.ustack.copied() > 0, stderr)
	if level := f.symbols.level.Level; level != symbols.LevelNone {
		u.symbols.ShowLines(process.Lines{Root: "/", Caches: find.CacheFolders(os.Getenv), Inlined: level == symbols.LevelInlines})
	}
	r.Users = u.symbols
	r.UserStacks = trace.Stacks(false, false, true, f.ustack.copied())
	if f.ustack.copied() > 0 {
		r.Unwinder = process.NewUnwinder(u.symbols, hostArch)
	}
	return u
}

// openRecording makes the file for a recording; without --record it returns nil.
func (f *whyFlags) openRecording(view *kernel.View, called *users) (*record.Series, error) {
	if f.record == "" {
		return nil, nil
	}
	origin := record.Origin{BootID: record.BootID(view.Root())}
	var err error
	if origin.Host, err = os.Hostname(); err != nil {
		return nil, err
	}
	origin.Boot, _ = readBoot()
	file, err := destination.Create(f.record, f.output.force)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("--record: %w; --force replaces it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	return record.NewSeries(file, record.Source{Root: view.Root(), View: view, Arch: hostArch, Writer: version(), Origin: origin, Users: called.symbols}), nil
}

// watch runs the command, and finds out why it fails.
func (f *whyFlags) watch(ctx context.Context, r *why.Runner, called *output.Tails, out *printout, stderr io.Writer, status *int) error {
	if r.Process != nil {
		return f.watchProcess(ctx, r, called, out, stderr)
	}
	seen, err := r.Watch(ctx)
	if err != nil && (seen == nil || !errors.Is(err, why.ErrInterrupted)) {
		return unwatched(ctx, err)
	}
	out.keep()
	*status = seen.Status
	e := explanation{whyFlags: f, runner: r, seen: seen, page: why.NewPage(r.Command, seen), called: called, out: out, stderr: stderr, early: err}
	if err != nil {
		e.page.Status = nil // it has not ended
	}
	return e.explain(ctx)
}

// unwatched puts before an error of attaching that nothing at all can be attached here, if that is so.
func unwatched(ctx context.Context, err error) error {
	if attaching := (why.AttachError{}); errors.As(err, &attaching) && statusOf(err) != exitUsage {
		return unattachable(ctx, err)
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

// An explanation finds out why a command has failed that has run once, and prints it.
type explanation struct {
	*whyFlags
	runner *why.Runner
	seen   *why.Seen
	page   *why.Page
	called *output.Tails // names stacks of processes
	early  error         // what has ended the first run before the command ended, or before a process did what it waited for
	out    io.Writer
	stderr io.Writer
	broken bool // out takes nothing any more, which has been said
}

// show prints a part of the page, if that is text, which comes as it becomes known.
func (e *explanation) show(part func(dst []byte) []byte) error {
	if !e.output.format.text() || e.broken {
		return nil
	}
	_, err := e.out.Write(part(nil))
	e.broken = err != nil
	return err
}

// explain prints which call matters and where it was refused. If no call can be named, it says why.
// What is known when it is interrupted is printed, too.
func (e *explanation) explain(ctx context.Context) error {
	err := e.explainCall(ctx)
	e.page.Lost = append(e.page.Lost, e.runner.Missing()...)
	err = errors.Join(err, e.finish(), e.page.WriteNotes(e.stderr))
	if err != nil {
		e.page.AddNote(err.Error())
	}
	line, err2 := e.page.JSON()
	return errors.Join(err, err2, e.runner.Recording.End(line))
}

// finish prints what of the page is not printed yet.
func (e *explanation) finish() error {
	if e.output.format.text() {
		return e.show(e.page.AppendOthers)
	}
	line, err := e.page.JSON()
	if err == nil {
		_, err = e.out.Write(line)
	}
	return err
}

// explainCall prints all that can be found out about the call that matters.
func (e *explanation) explainCall(ctx context.Context) error {
	seen := e.seen
	chosen, reason, err := e.choose()
	if err != nil {
		e.page.Choose(seen, -1, "")
	}
	switch {
	case err != nil && e.runner.Process != nil:
		return err
	case err == nil:
	case errors.Is(err, why.ErrKilled):
		e.page.Cause = seen.Killed.Cause()
		return e.show(e.page.AppendPlace)
	case errors.Is(err, why.ErrInterrupted):
		return err
	case errors.Is(err, why.ErrSucceeded):
		e.page.AddNote("the command succeeded; --syscall, --errno or --nth say which of the calls that failed is meant")
		return nil
	case errors.Is(err, why.ErrNone) && seen.Status == 0:
		e.page.AddNote("the command succeeded, and " + e.none())
		return nil
	case errors.Is(err, why.ErrNone):
		e.page.AddNote(fmt.Sprintf("the command failed with exit status %d, and %s: the command has decided so, a signal has ended it, or an answer that came as a message (netlink)", seen.Status, e.none()))
		return nil
	default:
		return err
	}
	e.page.Choose(seen, chosen, reason)
	e.page.Call.UserStack = seen.Calls[chosen].UserStack(e.called)
	if err := e.show(e.page.AppendCall); err != nil {
		return err
	}
	if err := e.runner.ReadFilters(ctx, seen, chosen); err != nil {
		return err
	}
	unsearched := seen.Calls[chosen].Unsearched()
	switch e.page.Cause = seen.Cause(chosen, e.runner.Kernel.Arch()); {
	case e.page.Cause != nil || e.once:
	case unsearched != "":
		e.page.AddNote(unsearched)
	default:
		err = e.explainPlace(ctx, chosen)
	}
	return errors.Join(err, e.show(e.page.AppendPlace))
}

// none says that no call has failed, as far as that is known.
func (e *explanation) none() string {
	if e.seen.Incomplete {
		return "none of its system calls that were seen has failed"
	}
	return "none of its system calls has failed"
}

// explainPlace runs the command again, to find out where in the kernel the call was refused.
func (e *explanation) explainPlace(ctx context.Context, chosen int) error {
	defer e.symbols.close(e.stderr)
	resolver, err := e.symbols.open(e.runner.Kernel, e.stderr)
	if err != nil {
		return err
	}
	found := slow(e.stderr, e.again()+", to see where in the kernel the call is refused...")
	place, err := e.runner.Find(ctx, e.seen, chosen, resolver)
	found()
	if place != nil {
		e.page.SetPlace(place)
	}
	switch gone := e.gone(err, chosen); {
	case gone != "" && place == nil:
		e.page.AddNote(gone + ", so it is not known where it was refused")
		return nil
	case gone != "":
		e.page.AddNote(gone + ", so it was looked at no further")
		return nil
	}
	if err != nil {
		return err
	}
	found = slow(e.stderr, e.again()+", to see which way that function takes...")
	e.runner.Annotate = func(p *plan.Plan) *plan.Plan { return e.symbols.annotate(p, e.runner.Kernel, resolver) }
	taken, fault, err := e.runner.Way(ctx, e.seen, chosen, place, &output.Tails{Kernel: resolver})
	found()
	e.page.SetPlace(place) // of which more is known now
	if gone := e.gone(err, chosen); gone != "" {
		e.page.AddNote(gone + ", so it is not known which way the function took")
		return nil
	}
	switch function := place.Innermost().Function; {
	case errors.Is(err, why.ErrInterrupted):
		return interruptedError(fmt.Sprintf("interrupted before it was known which way %s took", function))
	case err != nil:
		return fmt.Errorf("which way %s took: %w", function, err)
	}
	if e.page.Taken = taken; fault != nil {
		e.page.Cause = fault
	}
	if note := place.Untold(); note != "" && taken == nil && ctx.Err() == nil {
		e.page.AddNote(note)
	}
	if note := place.Suspected(); note != "" {
		e.page.AddNote(note)
	}
	return nil
}
