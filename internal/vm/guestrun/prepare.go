// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ksnoop/ksnoop/internal/vm"
)

// prepare turns the options and arguments into a guest and its command.
func prepare(ctx context.Context, o *options, args []string) error {
	kernel, err := vm.FindKernel(ctx, o.kernel)
	if err != nil {
		return err
	}
	o.guest.Kernel = kernel
	o.guest.Modules = o.modules
	o.guest.Append = o.params
	if o.console {
		o.guest.Console = os.Stderr
	}
	for _, f := range o.files {
		host, guest, ok := strings.Cut(f, ":")
		if !ok {
			return fmt.Errorf("-file %q is not HOST:GUEST", f)
		}
		o.guest.Files = append(o.guest.Files, vm.File{Host: host, Guest: guest})
	}
	if o.debugInfo {
		if err := o.guest.AddDebugInfo(ctx); err != nil {
			return err
		}
	}
	if !o.bare {
		files, err := vm.Programs(ctx, kernel.Arch)
		if err != nil {
			fmt.Fprintf(os.Stderr, "guestrun: without this program: %v\n", err)
		}
		o.guest.Files = append(o.guest.Files, files...)
		if files, err = vm.TestModules(ctx, kernel); err != nil {
			fmt.Fprintf(os.Stderr, "guestrun: without a module: %v\n", err)
		}
		o.guest.Files = append(o.guest.Files, files...)
	}
	o.command.Args = args
	o.command.Env = append(vm.TestEnv(os.Environ()), o.env...)
	o.command.Stdout, o.command.Stderr = os.Stdout, os.Stderr
	if o.stdin {
		o.command.Stdin = os.Stdin
	}
	return copyProgram(o)
}

// copyProgram takes the command's program along when it is a file of the host.
func copyProgram(o *options) error {
	program := o.command.Args[0]
	if !strings.Contains(program, "/") || isGuestFile(o, program) {
		return nil
	}
	if _, err := os.Stat(program); err != nil {
		return nil // it may be in the guest; if not, the guest says so
	}
	if strings.HasSuffix(program, ".test") {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		t, err := vm.NewTest(program, dir)
		if err != nil {
			return err
		}
		o.guest.Files = append(o.guest.Files, t.Files...)
		o.command.Dir = t.Dir
		o.command.Args = append([]string{t.Program}, vm.TestArgs(o.command.Args[1:])...)
		return nil
	}
	f, err := vm.Program(program)
	if err != nil {
		return err
	}
	o.guest.Files = append(o.guest.Files, f)
	o.command.Args = append([]string{f.Guest}, o.command.Args[1:]...)
	return nil
}

func isGuestFile(o *options, path string) bool {
	for _, f := range o.guest.Files {
		if filepath.Clean(f.Guest) == filepath.Clean(path) {
			return true
		}
	}
	return false
}
