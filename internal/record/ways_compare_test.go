// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/code"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
)

// markFunction is called at the beginning and at the end of what is compared.
const markFunction = "__x64_sys_sethostname"

// A comparison compares recordings with what was executed.
type comparison struct {
	t         *testing.T
	functions map[string]bool // those that take more than one way, of which there were calls

	calls, wrong, unknown, blocks int
	unseen                        int // calls that were executed, and not recorded
	skipped                       int // calls that ksnoop said it had not seen
	same, plain                   int // calls without probes that went a way that one with probes went, too
}

// recording compares the calls of a recording with those that were executed while it was made, and these with
// those of the same work without probes.
func (c *comparison) recording(in io.Reader, run, plain []entered) {
	r, err := record.NewReader(in)
	if err != nil {
		c.t.Fatal(err)
	}
	calls := make([][]*event.Path, len(r.Plan().Probes))
	marks := 0
	for e, err := range event.All(r.Plan(), r.Records()) {
		switch {
		case err != nil:
			c.t.Fatal(err)
		case e.Kind == bpf.KindLost:
		case e.Probe.Name == markFunction:
			if e.Kind == bpf.KindEntry {
				marks++
			}
		case marks == 1:
			path, _ := e.Path()
			calls[e.Event.Probe] = append(calls[e.Event.Probe], &path)
		}
	}
	if marks != 2 {
		c.t.Fatalf("%d marks in the recording", marks)
	}
	for cause, n := range r.Losses().Lost {
		if n > 0 && output.IsLoss(bpf.Counter(cause)) {
			c.t.Log(output.LossCount(bpf.Counter(cause), n))
			c.skipped += int(n)
		}
	}
	executed, before := framesOf(run, r.Plan().Probes), framesOf(plain, r.Plan().Probes)
	for i, p := range r.Plan().Probes {
		if p.Way != nil {
			c.function(p, calls[i], executed[i])
			c.alike(p, executed[i], before[i])
		}
	}
}

// function compares the calls of one function, which are in the same order on both sides.
func (c *comparison) function(p *plan.Probe, calls []*event.Path, executed []*frame) {
	var truth [][]bool
	for _, f := range executed {
		way, ok := wayOf(p.Way, f.pcs)
		if !ok {
			c.t.Errorf("%s: a call executed code that no block has: %#x", p.Name, f.pcs)
		}
		truth = append(truth, way)
	}
	if len(calls) == 0 && len(truth) == 0 {
		return
	}
	if len(p.Way.Sites()) > 0 {
		c.functions[p.Name] = true
	}
	states := make([][]code.State, len(calls))
	for i, path := range calls {
		states[i] = slices.Repeat([]code.State{code.Unsure}, len(p.Way.Graph().Blocks))
		if path.Way != nil {
			states[i] = path.Way.Blocks
		}
		for _, s := range states[i] {
			if s == code.Unsure {
				c.unknown++
			}
		}
		c.blocks += len(states[i])
	}
	c.calls += len(calls)
	c.unseen += max(0, len(truth)-len(calls))
	for i, j := range paired(states, truth) {
		if j < 0 || !fits(states[i], truth[j]) {
			c.wrong++
			c.t.Errorf("%s: call %d of %d, %d executed, broken %v, missing %d: %s", p.Name, i, len(calls), len(truth), calls[i].Way, calls[i].Missing, differences(p.Way, states[i], truth, j))
		}
	}
}

// paired returns which executed call each recorded one is: as many are executed as recorded, or
// the kernel has skipped some; then as many as can be are paired, in order.
func paired(calls [][]code.State, truth [][]bool) []int {
	pairs := make([]int, len(calls))
	if len(calls) == len(truth) {
		for i := range pairs {
			pairs[i] = i
		}
		return pairs
	}
	best := make([][]int, len(calls)+1) // pairs of the calls from one on and the ways from another on
	for i := range best {
		best[i] = make([]int, len(truth)+1)
	}
	for i := len(calls) - 1; i >= 0; i-- {
		for j := len(truth) - 1; j >= 0; j-- {
			best[i][j] = max(best[i+1][j], best[i][j+1])
			if fits(calls[i], truth[j]) {
				best[i][j] = max(best[i][j], 1+best[i+1][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(calls); {
		switch {
		case j < len(truth) && best[i][j] == best[i][j+1]:
			j++
		case j < len(truth) && fits(calls[i], truth[j]):
			pairs[i] = j
			i, j = i+1, j+1
		default:
			pairs[i] = -1
			i++
		}
	}
	return pairs
}

func fits(states []code.State, way []bool) bool {
	for i, s := range states {
		if s == code.Passed && !way[i] || s == code.NotPassed && way[i] {
			return false
		}
	}
	return true
}

// differences says where a call and the executed one that it is differ, or the one that is most like it.
func differences(w *plan.Way, states []code.State, truth [][]bool, which int) (text string) {
	least := len(states) + 1
	for j, way := range truth {
		if which >= 0 && j != which {
			continue
		}
		n, differs := 0, ""
		for i, s := range states {
			if s == code.Passed && !way[i] || s == code.NotPassed && way[i] {
				n++
				differs += fmt.Sprintf(" %s (executed: %v)", w.Code.Place(w.Graph().Blocks[i].Start), way[i])
			}
		}
		if n < least {
			least, text = n, fmt.Sprintf("executed call %d:%s", j, differs)
		}
	}
	return text
}

// alike counts the calls without probes that went as one of those with probes did.
func (c *comparison) alike(p *plan.Probe, traced, plain []*frame) {
	ways := map[string]int{}
	for _, f := range traced {
		way, _ := wayOf(p.Way, f.pcs)
		ways[fmt.Sprint(way)]++
	}
	for _, f := range plain {
		way, _ := wayOf(p.Way, f.pcs)
		if ways[fmt.Sprint(way)] > 0 {
			ways[fmt.Sprint(way)]--
			c.same++
		}
	}
	c.plain += len(plain)
}
