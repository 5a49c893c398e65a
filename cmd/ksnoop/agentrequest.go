// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/agentconfig"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// notInAgent are options of trace that a request of an agent cannot have, and why. It is never changed.
var notInAgent = map[string]string{
	"user":    "it is about a command, and a request of an agent runs none",
	"dry-run": "a request traces; ksnoop agent --check says what is wrong with it",
	"explain": "a request traces; ksnoop trace --explain explains a SPEC",
	"print":   "nobody sees what is printed; export with otlp, or print to a file with output",
	"expect":  "it is about the exit status, which nobody sees",
	"live":    "it is about what is printed while somebody looks",
	"color":   "nobody sees it",
	"help":    "it is no option of a request",
}

// An agentRequest is one request of an agent's configuration: the options of trace, not yet run.
type agentRequest struct {
	flags   *traceFlags
	command *cobra.Command
	outputs map[string]string // files that requests write, by whom; shared by all requests of a file
}

var _ agentconfig.Target = (*agentRequest)(nil)

// newAgentRequests returns what makes the requests of one file.
func newAgentRequests() func() agentconfig.Target {
	outputs := map[string]string{}
	return func() agentconfig.Target {
		f, c := newTrace(new(int))
		return &agentRequest{f, c, outputs}
	}
}

// Key implements agentconfig.Target.
func (r *agentRequest) Key(name string) (k agentconfig.Key, err error) {
	flag := r.lookup(name)
	if flag == nil {
		return k, agentconfig.ErrUnknown
	}
	if why := notInAgent[flag.Name]; why != "" {
		return k, errors.New("a request has no " + flag.Name + ": " + why)
	}
	_, repeatable := flag.Value.(pflag.SliceValue)
	k = agentconfig.Key{Bool: flag.Value.Type() == "bool", Repeatable: repeatable || flag.Name == "preset", Default: flag.DefValue}
	if !k.Bool {
		k.Without = flag.NoOptDefVal
	}
	return k, nil
}

// lookup returns the option of a key. Names that other tools have for it are none.
func (r *agentRequest) lookup(name string) *pflag.Flag {
	flag := r.command.Flags().Lookup(name)
	if flag == nil || flag.Hidden || flag.Name != name {
		return nil
	}
	return flag
}

// Names implements agentconfig.Target.
func (r *agentRequest) Names() (names []string) {
	r.command.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && notInAgent[f.Name] == "" {
			names = append(names, f.Name)
		}
	})
	return names
}

// Set implements agentconfig.Target.
func (r *agentRequest) Set(name, value string) error {
	return flagError(r.command.Flags().Set(name, value))
}

// Check implements agentconfig.Target.
func (r *agentRequest) Check(name string, specs []string) error {
	f := r.flags
	for _, texts := range [][]string{specs, f.deny, f.session.entry, f.session.allow, f.session.inject, f.record.flight.triggers} {
		for _, text := range texts {
			switch {
			case strings.HasPrefix(text, "@"):
				return usagef("%s: lists of SPECs in other files are not read, since a reload could not tell whether they changed", text)
			case strings.HasPrefix(text, "-"):
				return usagef("%s is no SPEC; options are keys of the request", text)
			}
		}
	}
	f.output.otlp.notes = io.Discard
	if len(specs) == 0 && !f.session.wanted() {
		return usagef("no specs are given, and no entry or preset")
	}
	if err := f.agree(r.command.Flags(), &specs); err != nil {
		return err
	}
	if err := r.checkOutputs(name); err != nil {
		return err
	}
	cgroup := f.filters.cgroup
	f.filters.cgroup = "" // it may come later
	_, err := f.check()
	f.filters.cgroup = cgroup
	return errors.Join(err, parseAll(specs, f))
}

// checkOutputs refuses requests whose records go nowhere, or where they cannot go twice: a request is begun again
// when it has failed.
func (r *agentRequest) checkOutputs(name string) error {
	f := r.flags
	switch {
	case f.record.file == "" && f.output.file == "" && !f.output.otlp.wanted():
		return usagef("it has no output: give otlp, record or output")
	case f.record.file != "" && (f.record.toStdout() || f.record.file == "/dev/stderr"):
		return usagef("--record %s: an agent prints nothing; give a directory, and rotate", f.record.file)
	case f.record.file != "" && f.record.rotate.size == "" && !f.output.force:
		return usagef("--record makes one new file, and a request that is begun again needs another: add rotate and keep, or force to replace it")
	case f.output.file != "" && !f.output.force:
		return usagef("--output makes one new file, and a request that is begun again finds it there: add force to replace it")
	}
	for _, file := range []string{f.record.file, f.output.file} {
		if file == "" {
			continue
		}
		file = filepath.Clean(file)
		if other := r.outputs[file]; other != "" && other != name {
			return usagef("request %s writes to %s, too", other, file)
		}
		r.outputs[file] = name
	}
	return nil
}

// parseAll returns the faults of all SPECs that can be seen without the kernel.
func parseAll(specs []string, f *traceFlags) error {
	_, err := trace.ParseSpecs(slices.Concat(specs, f.session.entry, f.session.allow, f.record.flight.triggers))
	_, denied := trace.ParseSpecs(f.deny)
	return errors.Join(err, denied)
}

// checkKernel says what is wrong with a request on this kernel.
func (r *agentRequest) checkKernel(view *kernel.View, specs []string) error {
	f := r.flags
	f.dryRun = dryRunList
	c, err := f.check()
	if err != nil {
		return err
	}
	defer f.symbols.close(io.Discard)
	t := &tracing{flags: f, kernel: view, stderr: watchStderr(io.Discard), log: f.logger(io.Discard)}
	return t.makePlan(specs, c.options)
}
