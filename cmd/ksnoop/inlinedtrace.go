// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// checkInlined checks what --inlined goes with.
func (f *traceFlags) checkInlined() error {
	switch {
	case !f.inlined:
		return nil
	case f.session.wanted():
		return usagef("--inlined goes with calls, not with sessions, which follow functions from their entry to their return")
	case f.kernel.btf != "":
		return usagef("--inlined needs the running kernel, and not --btf")
	}
	return nil
}

// inlinedCallHint is inlinedHint where --inlined can be given.
func (f *symbolFlags) inlinedCallHint(name string) string {
	hint := f.inlinedHint(name)
	if hint != "" {
		hint += ", where --inlined traces it"
	}
	return hint
}

// inlinedPlaces are those of the kernel that runs.
type inlinedPlaces struct {
	symbols *symbolFlags
	view    *kernel.View
}

var _ plan.Inlinings = inlinedPlaces{}

// Named implements plan.Inlinings.
func (p inlinedPlaces) Named(pattern string, modules []string) (places []plan.Inlined, err error) {
	info, err := p.symbols.debugInfo(p.view)
	if err != nil {
		return nil, fmt.Errorf("--inlined: %w", err)
	}
	for _, module := range modules {
		found := info.InlinedNamed(module, func(name string) bool { return glob.Match(pattern, name) })
		places = appendPlaces(places, info, module, found)
	}
	return places, nil
}

// Of implements plan.Inlinings.
func (p inlinedPlaces) Of(funcs []kernel.Function) (places []plan.Inlined, err error) {
	info, err := p.symbols.debugInfo(p.view)
	if err != nil {
		return nil, fmt.Errorf("--inlined: %w", err)
	}
	for i, found := range info.Inlined(funcs, true) {
		places = appendPlaces(places, info, funcs[i].Module, found)
	}
	return places, nil
}

// appendPlaces appends the places in a module at which there is any code. Of two
// calls that begin at the same instruction one probe tells.
func appendPlaces(places []plan.Inlined, info *symbols.DebugInfo, module string, found []debuginfo.Inlining) []plan.Inlined {
	type key struct {
		addr uint64
		name string
	}
	seen := map[key]bool{}
	for _, at := range found {
		k := key{at.Addr, at.Func}
		if at.Addr == 0 || seen[k] {
			continue
		}
		seen[k] = true
		into := info.Into(at, module)
		places = append(places, plan.Inlined{Name: at.Func, Params: at.Params, Offset: into.Offset,
			Into: kernel.Function{Name: into.Name, Module: module, Addr: into.Addr - into.Offset}})
	}
	return places
}

// sayInlined says of which inlined calls nothing will be seen, and what will not
// be seen of others.
func sayInlined(log *slog.Logger, p *plan.Plan, skipped []plan.Skipped) {
	for _, level := range []slog.Level{slog.LevelWarn, slog.LevelInfo} {
		var remarks []remark
		for _, s := range skipped {
			if s.Inlined() && (level == slog.LevelWarn) == forInlining(s.Why) {
				remarks = append(remarks, remark{name: s.Name(), text: faultText(s.Why)})
			}
		}
		sayGroups("inlined calls", remarks, func(place, why string) {
			log.Log(context.Background(), level, "not traced", "function", place, "reason", why)
		})
	}
	var remarks []remark
	for _, probe := range p.Probes {
		if absent := probe.Absent(); len(absent) > 0 {
			remarks = append(remarks, remark{name: probe.Name, text: strings.Join(absent, ", ")})
		}
	}
	sayGroups("inlined calls", remarks, func(place, params string) {
		log.Warn("shown without what the compiler optimised out there", "function", place, "reason", params)
	})
}

// forInlining reports whether a SPEC has a fault because a call was inlined. Other
// faults, as of a glob's items, the function itself has as well.
func forInlining(err error) bool {
	var faults *expr.ErrorList
	return !errors.As(err, &faults) || slices.ContainsFunc(faults.Errors, func(e *expr.Error) bool {
		return e.Code == expr.CodeAbsent || e.Code == expr.CodeNoReturn
	})
}

// faultText is a reason on one line, with the columns of what is at fault.
func faultText(err error) string {
	var faults *expr.ErrorList
	if !errors.As(err, &faults) {
		return reasonText(err)
	}
	var texts []string
	for _, e := range faults.Errors {
		texts = append(texts, fmt.Sprintf("column %d: %v", e.Span.Start+1, e))
	}
	return strings.Join(texts, "; ")
}
