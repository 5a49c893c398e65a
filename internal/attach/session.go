// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/codegen"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// SessionOptions are the options with which the plan of a session is attached:
// o with what the session itself says, and which sessions are to be reported.
func SessionOptions(s *plan.Session, o Options, report bpf.SessionSettings) (Options, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return o, fmt.Errorf("counting CPUs: %w", err)
	}
	report.CPUs, report.Condition = cpus, s.Conditional
	for _, f := range s.Functions {
		report.Values = report.Values || f.HasItems() || f.Args != nil
		if f.Args != nil {
			report.Arguments = append(report.Arguments, argList(f.Args))
		}
	}
	o.Settings.Sessions = &report
	return o, o.tellInterrupts()
}

// tellInterrupts lets programs find out whether they run in an interrupt.
func (o *Options) tellInterrupts() error {
	for _, f := range o.Settings.Functions {
		if f.Name == bpf.FuncPreemptCount {
			return nil
		}
	}
	types, err := o.Kernel.BTF()
	if err != nil {
		return fmt.Errorf("reading the kernel's types: %w", err)
	}
	count, err := codegen.PreemptCount(o.Target.Arch, types)
	if err != nil {
		return err
	}
	o.Settings.Functions = append(o.Settings.Functions, count)
	return nil
}

func argList(args []plan.Arg) bpf.ArgList {
	l := bpf.ArgList{Words: plan.ArgWords(args)}
	for _, a := range args {
		if a.Target != nil {
			l.Targets = append(l.Targets, bpf.ArgTarget{Word: a.Word, Text: a.Text, Size: a.Size})
		}
	}
	return l
}
