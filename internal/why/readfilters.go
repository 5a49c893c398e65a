// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// switchPoint is where a thread that goes on has its filters read: the first parameter but one is
// the thread that gives up the CPU.
const switchPoint = "sched_switch"

// filterWait is how long the thread of a call is waited for: one that has ended, or sleeps, gives up no CPU.
const filterWait = 5 * time.Second

// ReadFilters reads the filters of seccomp that the thread of a call has, if one has refused the
// call and the thread goes on.
func (r *Runner) ReadFilters(ctx context.Context, seen *Seen, chosen int) error {
	f := &seen.Calls[chosen]
	if _, ok := r.Kernel.SymbolNamed("__traceiter_"+switchPoint, ""); !ok || !f.seccomp || f.filters != nil || r.Process == nil {
		return nil
	}
	const task = "prev"
	lengths, programs, left := filterItems(task)
	// A thread that is ending has let go of its filters.
	items := slices.Concat([]string{fmt.Sprintf("%s->pid == %d", task, f.TID), task + "->seccomp.filter != 0", left}, lengths, programs)
	specs, err := trace.ParseSpecs([]string{"rawtp:" + switchPoint + "(" + strings.Join(items, ", ") + ")"})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	fields := output.NewFields(output.Names{})
	_, err = r.run(ctx, true, trace.Request{Specs: specs, Options: plan.Options{Arch: r.Kernel.Arch()}}, trace.Settings{}, func(p *plan.Plan, records recordSeq) error {
		defer time.AfterFunc(filterWait, stop).Stop()
		for e, err := range event.All(p, records) {
			if err != nil {
				return err
			}
			if e.Probe == nil {
				continue
			}
			of, err := fields.Of(e)
			f.filters = filtersOf(task, e, values{e, of})
			return err
		}
		return nil
	})
	if errors.Is(err, ErrEnded) || errors.Is(err, ErrInterrupted) {
		return nil // what is known is told
	}
	return err
}
