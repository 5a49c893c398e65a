// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/layout"
)

// TestNothingShown: where options leave nothing to show, the end says which, and why.
func TestNothingShown(t *testing.T) {
	for _, c := range []struct {
		options string
		counts  map[bpf.Counter]uint64
		open    uint32
		want    string
	}{
		{"", nil, 0, ""},
		{"-S", map[bpf.Counter]uint64{bpf.LostRingbuf: 3}, 0, ""},
		{"", map[bpf.Counter]uint64{bpf.LeftFine: 12}, 0, "no session is shown: 12 did not fail (-S shows those, too)"},
		{"-x ENOENT -X EINVAL,NULL -L 10", map[bpf.Counter]uint64{bpf.LeftError: 5, bpf.LeftShort: 2, bpf.LeftUnmet: 1}, 0,
			"no session is shown: 5 failed, but not as -x ENOENT, -X EINVAL,NULL wants it; 2 did not take longer than -L 10; 1 had no call that meets the predicates"},
		{"-S", nil, 1, "no session is shown: 1 had not ended (--hung shows those)"},
		{"-n nobody -n no*", map[bpf.Counter]uint64{bpf.LeftFine: 1}, 2,
			"no session is shown: 1 did not fail (-S shows those, too); 2 had not ended (--hung shows those)"},
		{"-n nobody -n no* -N x -p 7 -P 8 -t 9 --uid 3 --cgroup g --no-irq", nil, 0, "no session was opened: of the functions of -e there was no call that " +
			"-p 7, -P 8, -t 9, -n nobody, -n no*, -N x, --uid 3, --cgroup g, --no-irq let through"},
		{"-p 7", map[bpf.Counter]uint64{bpf.LostValues: 3}, 0, "no session was opened: of the functions of -e there was no call that -p 7 let through"},
		{"-p 7", map[bpf.Counter]uint64{bpf.LostRingbuf: 3}, 0, ""}, // they may have had the ends of sessions
		{"-p 7", map[bpf.Counter]uint64{bpf.LostReturn: 1}, 0, ""},
		{"-p 7", map[bpf.Counter]uint64{bpf.PausedTime: 20}, 0, ""},
		{"-p 7", map[bpf.Counter]uint64{bpf.LostRingbuf: 3, bpf.LeftFine: 1}, 0, "no session is shown: 1 did not fail (-S shows those, too)"},
	} {
		var f traceFlags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.filters.add(flags)
		f.session.add(flags)
		if err := flags.Parse(strings.Fields(c.options)); err != nil {
			t.Fatal(err)
		}
		var tally show.Tally
		for i, n := range c.counts {
			tally.Lost[i] = n
		}
		if got := f.nothingShown(&tally, c.open); got != c.want {
			t.Errorf("%q: %q, want %q", c.options, got, c.want)
		}
	}
}

func TestNoCall(t *testing.T) {
	calls := &plan.Plan{Probes: []*plan.Probe{{Probe: layout.Probe{Items: []expr.Item{{}}}}}}
	tables := &plan.Plan{Probes: []*plan.Probe{{Probe: layout.Probe{Items: []expr.Item{{Aggregation: &expr.Aggregation{}}}}}}}
	met := &plan.Plan{Probes: []*plan.Probe{{Probe: layout.Probe{Items: []expr.Item{{Predicate: &expr.Const{}}}}}}}
	var seen, lost show.Tally
	seen.Calls, lost.Lost[bpf.LostRingbuf] = 1, 1
	command := []string{"true"}
	for _, c := range []struct {
		name    string
		command []string
		expect  string
		comms   []string
		plan    *plan.Plan
		tally   show.Tally
		want    string
	}{
		{"none", command, "", nil, calls, show.Tally{}, "no call was seen: none was made, or the compiler has inlined the function where it was called"},
		{"predicates", command, "", nil, met, show.Tally{}, "no call met the predicates, or none was made"},
		{"filters", command, "", []string{"sh"}, calls, show.Tally{}, "no call was seen that -n sh let through"},
		{"no command", nil, "", nil, calls, show.Tally{}, ""},
		{"expected", command, "0", nil, calls, show.Tally{}, ""},
		{"tables", command, "", nil, tables, show.Tally{}, ""},
		{"one", command, "", nil, calls, seen, ""},
		{"lost", command, "", nil, calls, lost, ""},
	} {
		f := traceFlags{command: c.command}
		f.control.expect.text = c.expect
		f.filters.comms = c.comms
		if got := f.noCall(c.plan, &c.tally); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
