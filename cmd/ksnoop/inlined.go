// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// noticeInlined looks, beside whatever else is done, for functions that the
// compiler also inlined. What it returns waits for that and tells w of calls that
// will not be seen. Without debug info at hand there is nothing to tell. Where
// calls are printed rather than sessions, --inlined would show them.
func (f *symbolFlags) noticeInlined(funcs []kernel.Function, calls bool, w io.Writer) (tell func()) {
	const most = 2048 // 30 ms of work
	if f.level.Level == symbols.LevelNone || len(funcs) > most {
		return func() {}
	}
	notices := make(chan []string, 1)
	go func() {
		defer close(notices)
		info, err := f.openInfo(nil)
		if err != nil {
			return
		}
		defer info.Close()
		notices <- inlinedNotices(funcs, info.Inlined(funcs, false))
	}()
	return func() {
		for _, notice := range <-notices {
			if calls {
				notice += "; --inlined traces them"
			}
			fmt.Fprintln(w, "ksnoop:", notice)
		}
	}
}

// inlinedHint says into what a function without code of its own was inlined. It
// is asked when there is no such function, which is the time to open files.
func (f *symbolFlags) inlinedHint(name string) string {
	info, err := f.openInfo(nil)
	if err != nil {
		return ""
	}
	defer info.Close()
	var callers []string
	for _, at := range info.Vmlinux().InlinedNamed(func(n []byte) bool { return string(n) == name }) {
		if at.Caller != "" && !slices.Contains(callers, at.Caller) {
			callers = append(callers, at.Caller)
		}
	}
	if len(callers) == 0 {
		return ""
	}
	return "its code is in " + list(callers)
}

// tracedFunctions returns the functions of a plan, each once.
func tracedFunctions(p *plan.Plan) []kernel.Function {
	seen := map[string]bool{}
	var funcs []kernel.Function
	for _, probe := range p.Probes {
		key := fmt.Sprint(probe.Func, probe.Func.Addr)
		if !seen[key] {
			seen[key] = true
			funcs = append(funcs, probe.Func)
		}
	}
	return funcs
}

// inlinedNotices says what of some functions will not be seen.
func inlinedNotices(funcs []kernel.Function, places [][]debuginfo.Inlining) []string {
	const most = 3
	var notices []string
	affected := 0
	for i, found := range places {
		if len(found) == 0 {
			continue
		}
		if affected++; affected > most {
			continue
		}
		var callers []string
		for _, at := range found {
			if at.Caller != "" && !slices.Contains(callers, at.Caller) {
				callers = append(callers, at.Caller)
			}
		}
		if len(callers) == 0 {
			callers = []string{"functions without a name"}
		}
		notices = append(notices, terminal.Name(fmt.Sprintf("%s is inlined into %s: calls from there are not seen", funcs[i], list(callers))))
	}
	if affected <= most {
		return notices
	}
	return []string{fmt.Sprintf("%d of the %d functions are inlined somewhere: calls from there are not seen; ksnoop info -v lists them",
		affected, len(funcs))}
}

// list writes "a, b, c and 4 more".
func list(names []string) string {
	const most = 3
	switch n := len(names); {
	case n > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	case n > 1:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// sourcePlaces are where functions are in the source.
type sourcePlaces struct {
	info    *symbols.DebugInfo
	funcs   []kernel.Function
	defined []symbols.Frame
	inlined [][]debuginfo.Inlining
}

// places looks functions up in the debug info of the running kernel.
func (f *symbolFlags) places(funcs []kernel.Function) (*sourcePlaces, error) {
	info, err := f.openInfo(nil)
	if err != nil {
		return nil, err
	}
	places := &sourcePlaces{info, funcs, info.Definitions(funcs), info.Inlined(funcs, true)}
	if err := info.Err(); err != nil {
		return nil, errors.Join(err, info.Close())
	}
	return places, nil
}

// append appends where the i-th function is defined and where it was inlined.
func (s *sourcePlaces) append(out []byte, i int) []byte {
	if at := &s.defined[i]; at.File != "" {
		out = append(at.AppendSource(append(out, "    defined at "...)), '\n')
	}
	return appendInlinings(out, s.info, s.inlined[i], s.funcs[i].Module)
}

func appendInlinings(out []byte, info *symbols.DebugInfo, places []debuginfo.Inlining, module string) []byte {
	for _, at := range places {
		into := info.Into(at, module)
		out = into.AppendName(append(out, "    inlined into "...))
		if at.Caller != at.Into {
			out = terminal.AppendName(append(out, " by way of "...), at.Caller)
		}
		if into.File != "" {
			out = into.AppendSource(append(out, " at "...))
		}
		if at.Addr == 0 {
			out = append(out, ", where no code is left of it"...)
		} else {
			out = appendParams(out, at.Params)
		}
		out = append(out, '\n')
	}
	return out
}

// appendParams appends of which parameters of an inlined function the values
// are known when its code begins.
func appendParams(out []byte, params []debuginfo.Param) []byte {
	var known, absent []string
	for i, p := range params {
		name := p.Name
		if name == "" {
			name = "$arg" + strconv.Itoa(i+1)
		}
		if len(p.Place.Ops) > 0 {
			known = append(known, name)
		} else {
			absent = append(absent, name)
		}
	}
	if len(known) > 0 {
		out = fmt.Appendf(out, ", with %s", terminal.Name(strings.Join(known, ", ")))
	}
	if len(absent) > 0 {
		out = fmt.Appendf(out, ", without %s", terminal.Name(strings.Join(absent, ", ")))
	}
	return out
}

// appendInlinedOnly appends the places of a function that has no code of its own.
// Without debug info there are none, unless a file was given that is of no use.
func (f *infoFlags) appendInlinedOnly(out []byte, sel expr.Selector) (with []byte, ok bool, err error) {
	if !f.verbose || sel.Path != "" || sel.Module != "" {
		return out, false, nil
	}
	info, err := f.symbols.openInfo(nil)
	if err != nil {
		if f.symbols.vmlinux == "" {
			return out, false, nil
		}
		return out, false, fmt.Errorf("--verbose: %w", err)
	}
	defer info.Close()
	places := info.Vmlinux().InlinedNamed(func(n []byte) bool { return string(n) == sel.Name })
	if err := info.Err(); err != nil {
		return out, false, fmt.Errorf("--verbose: %w", err)
	}
	if len(places) == 0 {
		return out, false, nil
	}
	out = fmt.Appendf(out, "/* %s has no code of its own: it was inlined wherever it is called */\n", terminal.Name(sel.Name))
	return appendInlinings(out, info, places, ""), true, nil
}
