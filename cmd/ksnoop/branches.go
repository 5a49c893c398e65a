// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/output"
)

// branchFlags are the options about branch records.
type branchFlags struct {
	text string // "" if none are wanted
	shownBranches

	kinds    attach.BranchKinds
	recorder *attach.Branches // nil unless branches are being recorded
	opened   bool             // whether it was tried
}

// shownBranches says which of the recorded branches are shown.
type shownBranches struct {
	most       uint
	unfiltered bool
}

func (f *branchFlags) add(flags *pflag.FlagSet) {
	flags.StringVarP(&f.text, "lbr", "B", "", "with each call: the last branches before its return, by `KIND`: any, any_call, any_return, "+
		"cond, call, ind_call, ind_jump, call_stack, abort_tx, in_tx, no_tx, or a number (default "+attach.DefaultBranches+")")
	flags.Lookup("lbr").NoOptDefVal = attach.DefaultBranches
	f.shownBranches.add(flags)
}

func (f *shownBranches) add(flags *pflag.FlagSet) {
	flags.UintVar(&f.most, "lbr-max", 0, "show the newest `N` branches only")
	flags.BoolVar(&f.unfiltered, "unfiltered", false, "with --lbr, also show the branches of the tracing itself")
}

func (f *shownBranches) options() output.BranchOptions {
	return output.BranchOptions{Max: int(f.most), Unfiltered: f.unfiltered}
}

func (f *shownBranches) show(t *output.Tails) *output.Tails {
	t.Branches = f.options()
	return t
}

// check reports what is wrong with the options.
func (f *branchFlags) check() (err error) {
	if f.text == "" {
		return nil
	}
	if f.kinds, err = attach.ParseBranchKinds(f.text); err != nil {
		return usagef("--lbr: %w", err)
	}
	return nil
}

// record has the CPUs record branches, if that is wanted. Where they cannot,
// that is an error, or a warning if there is something else to show.
func (f *branchFlags) record(others bool, stderr io.Writer) (err error) {
	if f.text == "" {
		return nil
	}
	var none *attach.NoBranchesError
	f.recorder, err = attach.OpenBranches(f.kinds)
	f.opened = true
	switch {
	case errors.As(err, &none) && others:
		fmt.Fprintf(stderr, "ksnoop: going on without --lbr: %v\n", err)
		return nil
	case err != nil:
		return fmt.Errorf("--lbr: %w", err)
	}
	for _, failed := range f.recorder.Failed {
		fmt.Fprintf(stderr, "ksnoop: --lbr: no branches of CPU %d: %v\n", failed.CPU, failed.Err)
	}
	return nil
}

// set says what is recorded; until that is known, what is asked for.
func (f *branchFlags) set(t *bpf.Tail) {
	t.Branches, t.AllBranches, t.Silent = f.text != "", f.kinds&attach.AllBranches != 0, nil
	if !f.opened {
		return
	}
	t.Branches = f.recorder != nil
	if t.Branches {
		for _, failed := range f.recorder.Failed {
			t.Silent = append(t.Silent, failed.CPU)
		}
	}
}

func (f *branchFlags) close() error {
	if f.recorder == nil {
		return nil
	}
	return f.recorder.Close()
}
