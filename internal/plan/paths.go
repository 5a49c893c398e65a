// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
)

// WithWays returns a plan that has the ways of its probes from a function, which returns nil for
// those that have none.
func (p *Plan) WithWays(way func(*Probe) (*Way, error)) (*Plan, error) {
	out := *p
	out.Probes = slices.Clone(p.Probes)
	for i, probe := range p.Probes {
		w, err := way(probe)
		if err != nil {
			return nil, fmt.Errorf("path() of %s: %w", probe.Name, err)
		}
		if w != nil {
			changed := *probe
			changed.Way = w
			out.Probes[i] = &changed
		}
	}
	return &out, nil
}

// Paths reports whether the ways of some calls are wanted.
func (p *Plan) Paths() bool {
	return slices.ContainsFunc(p.Probes, func(probe *Probe) bool { return probe.Path() })
}

var errPathTwice = errors.New("it is asked for by two SPECs, and one only can have it")

// checkPaths refuses what the probes of ways cannot tell apart.
func checkPaths(probes []*Probe) error {
	type function struct{ name, module string }
	seen := map[function]bool{}
	for _, p := range probes {
		if !p.Path() {
			continue
		}
		f := function{p.Func.String(), fmt.Sprint(p.Func.Addr)}
		if seen[f] {
			return p.pathFault(errPathTwice.Error(), "give one SPEC for "+p.Func.Name)
		}
		seen[f] = true
	}
	return nil
}

// pathFault is a fault of the SPEC at its path().
func (p *Probe) pathFault(msg, hint string) error {
	i := slices.IndexFunc(p.Items, func(it expr.Item) bool { return it.Path })
	return &expr.ErrorList{Text: p.Spec.Text, Errors: []*expr.Error{{Code: expr.CodeUnsupported, Span: p.Items[i].Pos, Msg: "path() of " + p.Func.Name + ": " + msg, Hint: hint}}}
}
