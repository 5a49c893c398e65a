// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A cpuFlag is how much of one CPU tracing may take; 0: as much as it likes.
type cpuFlag struct {
	share float64
	asked bool // the option was given
}

const maxCPUUsage = "what tracing may take of one CPU, `SHARE` as 25%; beyond, it looks at fewer calls and says so, and ends if that does not help; off: no limit"

func (f *cpuFlag) Set(text string) error {
	f.asked = true
	if text == "off" {
		f.share = 0
		return nil
	}
	number, found := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if err != nil || !found || percent < 1 || percent > 100_000 || math.IsNaN(percent) {
		return usagef("write a share of one CPU from 1%% up, as 25%% or, for two CPUs, 200%%; or off")
	}
	f.share = percent / 100
	return nil
}

func (f *cpuFlag) String() string {
	if f.share == 0 {
		return "off"
	}
	return strconv.FormatFloat(f.share*100, 'g', -1, 64) + "%"
}

func (f *cpuFlag) Type() string { return "string" }

// budget is what tracing may take; what becomes of that is logged.
func (f *cpuFlag) budget(log *slog.Logger) attach.Budget {
	return attach.Budget{Share: f.share, Asked: f.asked, Say: func(takes, part float64) {
		if part == 1 {
			log.Warn("all calls are looked at again")
			return
		}
		log.Warn(fmt.Sprintf("tracing takes %.0f%% of a CPU, --max-cpu allows %s: calls are looked at for %.0f%% of the time only", takes*100, f, part*100))
	}}
}

// sayCost says what a plan will cost, if it is for many functions or for such as are called
// very often.
func sayCost(log *slog.Logger, p *plan.Plan) {
	var hot []string
	var most time.Duration
	for _, probe := range p.Probes {
		cost := attach.RunCost(probe.Method)
		if probe.Role != layout.RoleCall || probe.Entry != nil && probe.Return != nil {
			cost *= 2
		}
		most = max(most, cost)
		if plan.Hot(probe.Func) {
			hot = append(hot, probe.Name)
		}
	}
	switch {
	case len(p.Probes) > plan.Many:
		log.Warn(fmt.Sprintf("%d functions: each call of one will take about %v longer, even if it is not shown", len(p.Probes), most))
	case len(hot) > 0:
		names := strings.Join(hot[:min(len(hot), fewNames)], ", ")
		if len(hot) > fewNames {
			names += ", ..."
		}
		verb := "is"
		if len(hot) > 1 {
			verb = "are"
		}
		log.Warn(fmt.Sprintf("%s %s called very often: each call will take about %v longer, even if it is not shown; a million calls a second are %.0f%% of a CPU",
			names, verb, most, float64(most)/float64(time.Microsecond)*100))
	}
}
