// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

func newDoctorCommand() *cobra.Command {
	var clean bool
	var types kernelFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Show what this kernel offers to ksnoop, and what is missing",
		Long:  "doctor lists what this kernel offers, tries it, and names what is missing.\nIts exit status is 0 whatever it finds of the kernel.",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("doctor takes no arguments: %q", args[0])
			}
			if err := checkEmpty(c.Flags()); err != nil {
				return err
			}
			if clean && types.btf != "" {
				return usagef("--clean does not go with --btf: it looks at nothing but what is to be removed")
			}
			if clean {
				return cleanUp(c.OutOrStdout(), attach.RemoveStale)
			}
			if _, err := os.Stat(types.btf); types.btf != "" && err != nil { // before all else is tried, which takes long
				return fmt.Errorf("--btf: %w", err)
			}
			return doctor(c.Context(), c.OutOrStdout(), kernel.OpenRunning(), os.DirFS("/"), types)
		},
	}
	c.Flags().BoolVar(&clean, "clean", false, "only remove the kprobe events that killed ksnoops have left in tracefs (tracing removes them, too)")
	c.Flags().StringVar(&types.btf, "btf", "", "also say whether `FILE` has the types of this kernel, for trace --btf")
	return c
}

// cleanUp has stale events removed, and says how many there were.
func cleanUp(w io.Writer, remove func() (attach.Stale, error)) error {
	stale, err := remove()
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w; run as root", err)
	}
	if err != nil {
		return fmt.Errorf("removing kprobe events of killed ksnoops: %w", err)
	}
	if stale == (attach.Stale{}) {
		_, err = fmt.Fprintln(w, "no kprobe events of killed ksnoops are left")
		return err
	}
	_, err = fmt.Fprintf(w, "removed %s of killed ksnoops\n", plural.Of(stale.Removed, "kprobe event{s}"))
	if err == nil && stale.Kept > 0 {
		_, err = fmt.Fprintf(w, "left %s that somebody else uses\n", plural.Of(stale.Kept, "kprobe event{s}"))
	}
	if err == nil && stale.Unseen != 0 {
		_, err = fmt.Fprintf(w, "left those of process %d, which could not be looked at: it may be tracing\n", stale.Unseen)
	}
	return err
}

// doctor prints one row for each fact about the kernel, and, if nothing stands
// in the way, one for each thing that was tried.
// types may name a file to trace with.
func doctor(ctx context.Context, w io.Writer, view *kernel.View, root fs.FS, types kernelFlags) error {
	p, err := view.Privileges()
	if err != nil {
		return err
	}
	facts := view.Facts(p)
	var t table
	t.row("WHAT", "OFFERED", "WHY")
	for _, f := range facts {
		why := f.Why
		if f.Value != "" {
			why = strings.TrimSuffix(f.Value+"; "+why, "; ")
		}
		t.row(string(f.Name), f.Answer.String(), why)
		if f.Do != "" && f.Answer != kernel.Yes {
			t.row("", "", "→ "+f.Do)
		}
	}
	t.debugInfo(root)
	given := t.types(types)
	t.WriteByte('\n')
	o, found := view.Obstacle(p)
	untyped := found && o.Name == kernel.FactBTF && given != nil
	if untyped {
		o, found = given.Obstacle(p)
	}
	switch {
	case found:
		fmt.Fprintf(&t, "Tracing is not possible: %s\n", o)
	case untyped:
		fmt.Fprintf(&t, "Calls can be traced by kprobe and multi, with --btf; ksnoop --btf %s --dry-run=load SPEC tries it.\n", terminal.Name(types.btf))
	default:
		t.row("TRIED", "WORKS", "WHY NOT")
		for _, s := range attach.Probe(ctx) {
			answer, why := "yes", ""
			name := s.Capability.String()
			if err := s.Why(); err != nil {
				answer, why = "no", strings.ReplaceAll(strings.TrimPrefix(err.Error(), name+": "), "\n", "; ")
			}
			t.row(name, answer, why)
		}
		t.trials(ctx, view)
	}
	_, err = io.WriteString(w, t.String())
	return err
}

// A table is text in three columns.
type table struct{ strings.Builder }

func (t *table) row(what, answer, why string) {
	t.WriteString(strings.TrimRight(terminal.Name(fmt.Sprintf("%-26s %-8s %s", what, answer, why)), " ") + "\n")
}

// trials adds whether tracing works as a whole.
func (t *table) trials(ctx context.Context, view *kernel.View) {
	t.WriteByte('\n')
	t.row("TRACED", "WORKS", "WHY NOT")
	works := false
	for _, trial := range attach.Trials() {
		answer, why := "yes", ""
		if err := trial.Run(ctx, view, hostArch); err != nil {
			answer, why = "no", strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		works = works || answer == "yes"
		t.row(trial.String(), answer, why)
	}
	if !works {
		t.WriteString("\nNothing can be traced here: no method works. It takes a kernel with CONFIG_KPROBES or BPF trampolines that is not locked down.\n")
	}
}

// types adds whether the file of --btf has the types of this kernel. If so, it
// returns the kernel with them.
func (t *table) types(f kernelFlags) *kernel.View {
	if f.btf == "" {
		return nil
	}
	view, err := f.running()
	if err != nil {
		t.row("types of --btf", "no", strings.ReplaceAll(err.Error(), "\n", "; "))
		return nil
	}
	t.row("types of --btf", "yes", "those of this kernel")
	return view
}

// debugInfo adds whether the kernel's debug info is there.
func (t *table) debugInfo(root fs.FS) {
	k, err := find.Running(root)
	if err != nil {
		t.row("debug info", "unknown", err.Error())
		return
	}
	path, err := find.Find(root, k)
	var absent *find.AbsentError
	switch {
	case err == nil:
		t.row("debug info", "yes", "/"+path)
	case errors.As(err, &absent) && absent.Offer.Command != "":
		t.row("debug info", "no", "looked in "+strconv.Itoa(len(absent.Looked))+" places")
		t.row("", "", "→ "+absent.Offer.Command)
	default:
		t.row("debug info", "no", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}
