// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

func newDoctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Show what this kernel offers to ksnoop, and what is missing",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return doctor(c.OutOrStdout(), kernel.Open(os.DirFS("/")))
		},
	}
}

// doctor prints one row for each fact about the kernel.
func doctor(w io.Writer, view *kernel.View) error {
	p, err := view.Privileges()
	if err != nil {
		return err
	}
	facts := view.Facts(p)
	var b strings.Builder
	fmt.Fprintf(&b, "%-26s %-8s %s\n", "WHAT", "OFFERED", "WHY")
	for _, f := range facts {
		why := f.Why
		if f.Value != "" {
			why = strings.TrimSuffix(f.Value+"; "+why, "; ")
		}
		fmt.Fprintf(&b, "%-26s %-8s %s\n", f.Name, f.Answer, why)
		if f.Do != "" && f.Answer != kernel.Yes {
			fmt.Fprintf(&b, "%-26s %-8s → %s\n", "", "", f.Do)
		}
	}
	if o, found := facts.Obstacle(); found {
		fmt.Fprintf(&b, "\nTracing is not possible: %s\n", o)
	} else {
		fmt.Fprintf(&b, "\nNothing is known to stand in the way of tracing.\n")
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// obstacle returns why tracing is impossible here, or nil.
func obstacle(view *kernel.View) error {
	p, err := view.Privileges()
	if err != nil {
		return err
	}
	o, found := view.Facts(p).Obstacle()
	if !found {
		return nil
	}
	hint := o.Do
	if hint != "" {
		hint = "\n" + hint
	}
	return fmt.Errorf("cannot trace: %s%s\nksnoop doctor shows all that this kernel offers", o, hint)
}

// unusable puts what stands in the way of all tracing before an error that is
// only a consequence of it: without BTF no name can be resolved.
func unusable(view *kernel.View, err error) error {
	if len(specFaults(err)) > 0 {
		return err
	}
	if o := obstacle(view); o != nil {
		return o
	}
	return err
}
