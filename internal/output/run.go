// SPDX-License-Identifier: Apache-2.0

package output

import (
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// A Run is what the printer of a format is told of the run whose events it prints. A
// recording has all of it, so that a replay prints what the run has printed.
type Run struct {
	Plan   *plan.Plan
	Kernel *kernel.View // that was traced; names addresses in values
	// Resolver names the addresses of stacks. It is nil if there are none.
	Resolver Resolver
	// User returns the names of addresses for the thread of an event, which was called
	// comm. It is nil if there are no such stacks.
	User func(e *bpf.Event, comm string) Process
	// Cgroup returns what is known of a cgroup. It is nil if nothing is of any.
	Cgroup func(id uint64) container.Group

	Boot time.Time // when CLOCK_MONOTONIC was zero; the zero Time if it is not known
	// Booted returns Boot as it is by now: the time of day may be set while a run goes on, and
	// CLOCK_MONOTONIC stands still while the machine is suspended. Nil: it does not change.
	Booted  func() time.Time
	Arch    string   // as in GOARCH
	Host    string   // its name
	BootID  string   // record.Origin.BootID
	Writer  string   // version of ksnoop that traced
	Options []string // that asked for the run, as the command line has them
	Number  int      // of several runs that are printed together, from 1; 0: it is the only one
	Label   string   // what tells it from the others, if there are any: its host, its file
}

// Names returns those of the run's kernel.
func (r *Run) Names() Names {
	n := Names{Cgroup: r.Cgroup}
	if r.Kernel != nil {
		n.Symbol = symbols.Appender(r.Kernel)
	}
	return n
}

// BootNow returns Boot as it is by now.
func (r *Run) BootNow() time.Time { return bootNow(r.Boot, r.Booted) }

func bootNow(boot time.Time, booted func() time.Time) time.Time {
	if booted == nil {
		return boot
	}
	return booted()
}

// Totals are what was counted of a run by its end.
type Totals struct {
	Records uint64 // written or recorded: calls, halves of calls, or sessions
	Calls   uint64 // that these are of; or sessions
	Orphans uint64 // sessions given up of which parts had come
	Left    uint64 // calls and interim stacks left out of sessions
	Evicted uint64 // entries whose return calls.Joiner has not waited for
	// What the kernel, and the reader of its records, have counted.
	event.Losses
	// Failed is why there are no more events, if that is an error: a recording that was cut
	// off, for example.
	Failed error
}
