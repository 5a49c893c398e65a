// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

func TestCPUFlag(t *testing.T) {
	for text, want := range map[string]float64{"25%": 0.25, "1%": 0.01, "12.5%": 0.125, "400%": 4, "off": 0} {
		var f cpuFlag
		if err := f.Set(text); err != nil || f.share != want || f.String() != text {
			t.Errorf("%s: %v, share %v, %v", text, err, f.share, &f)
		}
	}
	for _, text := range []string{"", "%", "25", "0%", "0.9%", "-5%", "1e9%", "NaN%", "Inf%", "on", "25 %"} {
		var f cpuFlag
		if err := f.Set(text); err == nil || !strings.Contains(err.Error(), "25%") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSayCost: what costs much is said beforehand: many functions, or such as run all the time.
func TestSayCost(t *testing.T) {
	probes := func(n int, name string) (out []*plan.Probe) {
		for i := range n {
			f := name
			if i > 0 {
				f = fmt.Sprintf("%s%d", name, i)
			}
			out = append(out, &plan.Probe{Func: kernel.Function{Name: f}, Probe: layout.Probe{Name: f, Function: f, Method: layout.MethodFentry, Entry: &layout.Half{}, Return: &layout.Half{}}})
		}
		return out
	}
	for _, c := range []struct {
		probes []*plan.Probe
		want   string
	}{
		{probes(2000, "f"), ""},
		{probes(2001, "f"), "ksnoop: 2001 functions: each call of one will take about 100ns longer, even if it is not shown\n"},
		{probes(1, "kfree"), "ksnoop: kfree is called very often: each call will take about 100ns longer, even if it is not shown; a million calls a second are 10% of a CPU\n"},
		{probes(5, "_raw_spin_lock"), "ksnoop: _raw_spin_lock, _raw_spin_lock1, _raw_spin_lock2, _raw_spin_lock3, ... are called very often"},
	} {
		var out bytes.Buffer
		sayCost(slog.New(sentences{&out, slog.LevelWarn}), &plan.Plan{Probes: c.probes})
		if got := out.String(); !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%d probes of %s: %q, want %q", len(c.probes), c.probes[0].Func.Name, got, c.want)
		}
	}
}
