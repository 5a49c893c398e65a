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
	"syscall"

	"github.com/ksnoop/ksnoop/internal/vm"
)

// exitUnknown says that guestrun, not the command, failed.
const exitUnknown = 125

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
