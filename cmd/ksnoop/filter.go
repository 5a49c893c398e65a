// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/container/kubelet"
	"github.com/ksnoop/ksnoop/internal/process"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// filterFlags are the options that say whose calls are traced.
type filterFlags struct {
	pids, notPIDs, tids []uint
	comms, notComms     []string
	uids                []string
	cgroup              string
	in                  container.Selector
	kubelet             string // whom to ask for names of containers; "": nobody
	follow, noIRQ       bool
}

func (f *filterFlags) add(flags *pflag.FlagSet) {
	flags.UintSliceVarP(&f.pids, "pid", "p", nil, "only calls of the process `PID`; stop when it ends (repeatable)")
	flags.UintSliceVarP(&f.notPIDs, "not-pid", "P", nil, "no calls of the process `PID` (repeatable)")
	flags.UintSliceVarP(&f.tids, "tid", "t", nil, "only calls made by this thread, `TID`; stop when it ends (repeatable)")
	for _, name := range []string{"pid", "not-pid", "tid"} {
		flags.Lookup(name).DefValue = "" // pflag would say "(default [])"
	}
	flags.BoolVar(&f.follow, "follow", false, "with -p: also the children of these processes, and theirs")
	flags.StringArrayVarP(&f.comms, "comm", "n", nil, "only calls made by tasks whose name matches this `GLOB` (repeatable)")
	flags.StringArrayVarP(&f.notComms, "not-comm", "N", nil, "no calls made by tasks whose name matches this `GLOB` (repeatable)")
	flags.StringSliceVar(&f.uids, "uid", nil, "only calls made by this `USER`, a name or a number (repeatable)")
	flags.StringVar(&f.cgroup, "cgroup", "", "only calls made in this control group or below it, `PATH`")
	addContainers(flags, &f.in)
	flags.StringVar(&f.kubelet, "kubelet", "", "ask the kubelet for names of pods and containers that files do not have, at this `URL` (default "+kubelet.Default+")")
	flags.Lookup("kubelet").NoOptDefVal = kubelet.Default
	flags.BoolVar(&f.noIRQ, "no-irq", false, "leave out calls that an interrupt makes while a task runs")
}

// addContainers adds the options that select containers.
func addContainers(flags *pflag.FlagSet, to *container.Selector) {
	flags.StringArrayVar(&to.Containers, "container", nil, "only calls made in this `CONTAINER`: the beginning of its ID, or a glob for its name (repeatable)")
	flags.StringArrayVar(&to.Pods, "pod", nil, "only calls made in this `POD`: the beginning of its UID, or a glob for NAME or NAMESPACE/NAME (repeatable)")
}

// filter turns the options into what the engine takes. A command that is
// started is one of the followed processes.
func (f *filterFlags) filter(command bool) (bpf.Filter, error) {
	switch {
	case f.follow && len(f.pids) == 0:
		return bpf.Filter{}, usagef("--follow goes with -p: whose children?")
	case slices.Contains(f.pids, 0):
		return bpf.Filter{}, usagef("-p 0: no process has this number; what runs while a CPU is idle is selected by $pid == 0")
	case slices.Contains(f.pids, uint(os.Getpid())):
		return bpf.Filter{}, usagef("-p %d: that is ksnoop itself, which it never traces", os.Getpid())
	case slices.Contains(f.tids, uint(os.Getpid())):
		return bpf.Filter{}, usagef("-t %d: that is a thread of ksnoop itself, which it never traces", os.Getpid())
	case command && len(f.pids) > 0:
		return bpf.Filter{}, usagef("-p names processes that run already, and of a command all processes are traced: give one or the other")
	}
	out := bpf.Filter{Comms: f.comms, NotComms: f.notComms, NoIRQ: f.noIRQ, Family: f.follow || command, ByCgroups: !f.in.Empty()}
	var err1, err2, err3, err4, err5, err6 error
	if !f.follow {
		out.PIDs, err1 = ids("-p", f.pids)
	}
	out.NotPIDs, err2 = ids("-P", f.notPIDs)
	out.TIDs, err3 = ids("-t", f.tids)
	out.UIDs, err4 = userIDs(f.uids)
	if f.cgroup != "" {
		if out.Cgroup, err5 = trace.FindCgroup(f.cgroup); err5 != nil {
			err5 = fmt.Errorf("--cgroup: %w", err5)
		}
	}
	if f.kubelet != "" {
		if _, err6 = kubelet.New(kubelet.Options{URL: f.kubelet}); err6 != nil {
			err6 = fmt.Errorf("--kubelet: %w", err6)
		}
	}
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return out, usageError{err}
	}
	if err := out.Check(); err != nil {
		return out, usageError{err}
	}
	return out, nil
}

// warn tells of numbers and names of tasks that may not be what is meant.
func (f *filterFlags) warn(log *slog.Logger) {
	if len(f.pids)+len(f.notPIDs)+len(f.tids) > 0 && process.NumberingOf(os.DirFS("/"), os.Getpid()) != process.NumberedOurs {
		log.Warn("-p, -P and -t take the numbers of ksnoop's own PID namespace; /proc, and so ps, has those of another one")
	}
	for _, flag := range [...]struct {
		name  string
		globs []string
	}{{"-n", f.comms}, {"-N", f.notComms}} {
		for _, glob := range flag.globs {
			if strings.Contains(glob, "[") {
				log.Warn(fmt.Sprintf("%s %s matches names with the character [ in them: in a glob only * and ? stand for other characters, and ps alone puts names in brackets", flag.name, glob))
			}
			if name := bpf.CutComm(glob); name != glob && name != strings.TrimRight(glob, "*") {
				log.Warn(fmt.Sprintf("%s %s matches tasks called %s: the kernel keeps %d bytes of a task's name", flag.name, glob, name, len(name)))
			}
		}
	}
}

func ids(flag string, from []uint) ([]uint32, error) {
	var out []uint32
	for _, id := range from {
		if id > math.MaxInt32 {
			return nil, fmt.Errorf("%s %d: no task has such a number", flag, id)
		}
		out = append(out, uint32(id))
	}
	return out, nil
}

func userIDs(users []string) ([]uint32, error) {
	var out []uint32
	for _, name := range users {
		id := name
		if _, err := strconv.ParseUint(name, 10, 32); err != nil {
			u, err := user.Lookup(name)
			if err != nil {
				return nil, fmt.Errorf("--uid %s: there is no such user", name)
			}
			id = u.Uid
		}
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("--uid %s: %w", name, err)
		}
		out = append(out, uint32(n))
	}
	return out, nil
}

// processes are those that are traced, and end the run.
func (f *filterFlags) processes() trace.Processes {
	return trace.Processes{PIDs: f.pids, TIDs: f.tids, Follow: f.follow}
}
