// SPDX-License-Identifier: Apache-2.0

// Trace prints calls of functions as they happen, until it is interrupted.
//
//	trace 'vfs_read(file->f_path.dentry->d_name.name, count, return < 0)'
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/ksnoop/ksnoop/tracer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "trace:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, specs []string) (err error) {
	kernel, err := tracer.Open()
	if err != nil {
		return err
	}
	t, err := kernel.Attach(ctx, tracer.Request{Specs: specs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	for _, f := range t.Functions() {
		fmt.Fprintf(os.Stderr, "tracing %s by %s\n", f.Name, f.Method)
	}
	for call, err := range t.Calls(ctx) {
		if err != nil {
			return err
		}
		fmt.Printf("%16v %s[%d] %v\n", call.Time, call.Comm, call.PID, call)
	}
	losses, err := t.Losses()
	for _, l := range losses {
		fmt.Fprintln(os.Stderr, l)
	}
	return err
}
