// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"strings"
	"time"

	"github.com/ksnoop/ksnoop/internal/vm"
)

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
