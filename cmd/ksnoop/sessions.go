// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
)

// runSessions traces sessions until it is told to stop.
func (f *traceFlags) runSessions(ctx context.Context, view *kernel.View, args []string, o plan.Options, ringSize uint32, stdout, stderr io.Writer, status *int) error {
	if _, err := f.session.settings(); err != nil {
		return err
	}
	s, d, err := f.planSession(view, args, o)
	if err != nil {
		return err
	}
	if f.dryRun {
		return d.print(stdout)
	}
	return fmt.Errorf("%d functions: only --dry-run works yet", len(s.Functions))
}

// planSession resolves what the command line asks sessions to be about.
func (f *traceFlags) planSession(view *kernel.View, args []string, o plan.Options) (*plan.Session, *dryRun, error) {
	request, deny, err := f.session.request(args)
	if err != nil {
		return nil, nil, err
	}
	more, err := parseSelectors(deny)
	if err != nil {
		return nil, nil, err
	}
	o.Deny = append(o.Deny, more...)
	s, skipped, err := plan.ResolveSession(view, request, o)
	if err != nil {
		return nil, nil, unusable(view, err)
	}
	d := dryRunOfSession(s, skipped)
	if f.dryRun {
		d.addRefused(view, slices.Concat(request.Entry, request.Allow, request.Specs))
	}
	return s, d, nil
}
