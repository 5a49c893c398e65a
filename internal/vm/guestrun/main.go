// SPDX-License-Identifier: Apache-2.0

// Guestrun boots a Debian kernel in QEMU and runs one command in it.
//
//	guestrun [flags] [--] COMMAND [ARGS…]
//
// Kernels are named by series: 6.1, 6.12, 6.18, 7.3, newest, each with -generic or
// -rt for another image than the cloud's, and with -arm64 behind it.
//
// The guest has busybox's commands, and ksnoop and workload as they are in the
// source tree. A COMMAND that is a file of the host is copied into the guest.
// Given as `go test -exec`, it also takes along the package's testdata, the
// module's testdata and the environment that tests look at:
//
//	CGO_ENABLED=0 go test -exec 'go run github.com/ksnoop/ksnoop/internal/vm/guestrun' ./PKG
//
// It exits with the command's status, or 125 when that is not known.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/ksnoop/ksnoop/internal/vm"
)

// exitUnknown says that guestrun, not the command, failed.
const exitUnknown = 125

type options struct {
	kernel  string
	fetch   bool
	timeout time.Duration
	bare    bool
	console bool
	stdin   bool
	guest   vm.Guest
	command vm.Command
	files   list
	env     list
	modules list
	params  list

	debugInfo bool
}

// A list is a flag that can be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

func main() {
	o, args, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(exitUnknown) // flag has said why
	}
	code, err := run(context.Background(), o, args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "guestrun: %v\n", err)
		code = exitUnknown
	}
	os.Exit(code)
}

func parse(args []string) (*options, []string, error) {
	o := &options{}
	f := flag.NewFlagSet("guestrun", flag.ContinueOnError)
	f.StringVar(&o.kernel, "kernel", vm.KernelNames()[0], "`name` of the kernel, as in 6.12, newest, newest-rt, newest-arm64, or of a package linux-image-…")
	f.BoolVar(&o.fetch, "fetch", false, "fetch the kernels of $KSNOOP_KERNELS, or the packages named as arguments, and do no more")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "end the guest after this `time`")
	f.BoolVar(&o.bare, "bare", false, "leave out ksnoop and workload")
	f.BoolVar(&o.debugInfo, "debuginfo", false, "put the kernel's debug info into the guest; it is fetched if need be")
	f.BoolVar(&o.console, "console", false, "show the kernel's messages on standard error")
	f.BoolVar(&o.stdin, "i", false, "pass standard input on")
	f.BoolVar(&o.command.TTY, "tty", false, "run the command on a terminal")
	f.BoolVar(&o.guest.ICount, "icount", false, "make the guest's clock count instructions")
	f.IntVar(&o.guest.Memory, "memory", 0, "`MiB` of memory (default 2048)")
	f.IntVar(&o.guest.CPUs, "cpus", 0, "`number` of CPUs (default 2)")
	f.Var(&o.files, "file", "copy `HOST:GUEST` into the guest, a file or a folder; may be repeated")
	f.Var(&o.env, "env", "set `NAME=VALUE` for the command; may be repeated")
	f.Var(&o.modules, "module", "insert the kernel `module`; may be repeated")
	f.Var(&o.params, "append", "add a kernel `parameter`; may be repeated")
	f.StringVar(&o.command.Dir, "dir", "", "run the command in this `folder` of the guest")
	err := f.Parse(args)
	return o, f.Args(), err
}

func run(ctx context.Context, o *options, args []string) (int, error) {
	// From here on signals are the command's; before it runs they end the wait.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	if o.fetch {
		signal.Reset()
		return 0, fetch(ctx, args)
	}
	if len(args) == 0 {
		return 0, errors.New("no command given, see guestrun -help")
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := prepare(ctx, o, args); err != nil {
		return 0, err
	}
	m, err := start(ctx, o, signals)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	o.command.Signals = signals
	status, err := m.Run(ctx, o.command)
	if err != nil {
		return 0, err
	}
	return status.ExitCode(), nil
}

// start boots the guest, unless a signal comes first.
func start(ctx context.Context, o *options, signals <-chan os.Signal) (*vm.Machine, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	booted := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-signals:
			cancel(fmt.Errorf("%v", s))
		case <-booted:
		}
	}()
	m, err := o.guest.Start(ctx)
	close(booted)
	<-done
	return m, err
}

func fetch(ctx context.Context, names []string) error {
	cache, err := vm.DefaultCache()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		for _, name := range vm.KernelNames() {
			k, err := cache.Kernel(ctx, name)
			if errors.Is(err, vm.ErrNoSeries) {
				fmt.Println("absent", err)
				continue
			}
			if err != nil {
				return err
			}
			fmt.Println(name, k.Vmlinuz)
		}
	}
	for _, name := range names {
		p, err := cache.Fetch(ctx, name)
		if err != nil {
			return err
		}
		fmt.Println(p.Name, p.Dir)
	}
	return nil
}
