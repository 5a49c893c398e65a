// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
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

// inlinings finds where functions were inlined, in the kernel that runs.
func (f *symbolFlags) inlinings(view *kernel.View) plan.Inlinings {
	return func(glob string, modules []string) ([]plan.Inlined, error) {
		info, err := f.debugInfo(view)
		if err != nil {
			return nil, fmt.Errorf("--inlined: %w", err)
		}
		var places []plan.Inlined
		for _, module := range modules {
			seen := map[string]bool{}
			for _, at := range info.InlinedNamed(module, func(name string) bool { return expr.Glob(glob, name) }) {
				// Of two calls that begin at the same instruction one probe tells.
				key := fmt.Sprint(at.Addr, at.Func)
				if at.Addr == 0 || seen[key] {
					continue
				}
				seen[key] = true
				into := info.Into(at, module)
				places = append(places, plan.Inlined{Name: at.Func, Params: at.Params, Offset: into.Offset,
					Into: kernel.Function{Name: into.Name, Module: module, Addr: into.Addr - into.Offset}})
			}
		}
		return places, nil
	}
}

// sayInlined says of which inlined calls nothing will be seen, and what will not
// be seen of others.
func sayInlined(log *slog.Logger, p *plan.Plan, skipped []plan.Skipped) {
	var names, reasons []string
	for _, s := range skipped {
		if s.Inlined() {
			names, reasons = append(names, s.Name()), append(reasons, generalReason(errors.New(faultText(s.Why)), s.Name()))
		}
	}
	sayGroups("inlined calls", names, reasons, func(place, why string) { log.Warn("not traced", "function", place, "reason", why) })
	names, reasons = nil, nil
	for _, probe := range p.Probes {
		if absent := probe.Absent(); len(absent) > 0 {
			names, reasons = append(names, probe.Name()), append(reasons, strings.Join(absent, ", "))
		}
	}
	sayGroups("inlined calls", names, reasons, func(place, params string) {
		log.Warn("shown without what the compiler optimised out there", "function", place, "reason", params)
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

// appendPlaces appends of which parameters of an inlined function the values
// are known when its code begins.
func appendPlaces(out []byte, params []debuginfo.Param) []byte {
	var known, absent []string
	for _, p := range params {
		if len(p.Place.Ops) > 0 {
			known = append(known, p.Name)
		} else {
			absent = append(absent, p.Name)
		}
	}
	if len(known) > 0 {
		out = fmt.Appendf(out, ", with %s", strings.Join(known, ", "))
	}
	if len(absent) > 0 {
		out = fmt.Appendf(out, ", without %s", strings.Join(absent, ", "))
	}
	return out
}
