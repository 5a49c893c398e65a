// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/errno"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/suggest"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// sessionFlags are the options of "ksnoop trace" that are about sessions. Their
// letters are retsnoop's.
type sessionFlags struct {
	entry, allow []string
	inject       []string
	presets      []string
	trace        bool
	args         bool
	success      bool
	only, except []string // errors
	longer       string
	interim      bool
	live         bool
	hung         time.Duration
	open         int // sessions at once
	look         lookFlags
}

func (f *sessionFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.entry, "entry", "e", nil, "sessions: a call of a function of this `SPEC` opens one (repeatable)")
	flags.StringArrayVarP(&f.allow, "allow", "a", nil, "functions of this `SPEC` are recorded in sessions (repeatable)")
	flags.Var(presetFlag{&f.presets}, "preset", "sessions of a part of the kernel: "+presetNames()+" (repeatable)")
	flags.BoolVarP(&f.trace, "trace", "T", false, "sessions: also print every call, in order")
	flags.StringArrayVarP(&f.inject, "inject", "J", nil, "with -T: also show when a thread comes by this `SPEC`: kprobe:F+OFF, kretprobe:F, tp:SYSTEM:NAME or rawtp:NAME (repeatable)")
	flags.BoolVarP(&f.args, "capture-args", "A", false, "sessions: capture all arguments of every function")
	flags.VarPF(yesNoFlag{&f.success}, "success", "S", "sessions: also those that did not fail").NoOptDefVal = "true"
	flags.StringArrayVarP(&f.only, "only-errors", "x", nil, "only sessions that failed with one of these `ERRORS`: EINVAL,ENOMEM or NULL; any stands for all (repeatable)")
	flags.StringArrayVarP(&f.except, "except-errors", "X", nil, "no sessions that failed with one of these `ERRORS` (repeatable)")
	flags.StringVarP(&f.longer, "longer", "L", "", "only sessions that took longer than this `TIME`: 10ms, 50us; a number is in ms")
	flags.BoolVarP(&f.interim, "interim", "I", false, "also stacks of failures that did not decide: the caller went on, or failed for another reason")
	flags.BoolVar(&f.live, "live", false, "with -T: print calls as they happen, not at the session's end")
	flags.DurationVar(&f.hung, "hung", 0, "also report sessions that have been open for this `TIME` and stand still, once")
	flags.IntVar(&f.open, "sessions", 0, fmt.Sprintf("make room for `N` open sessions, 1 to %d (default: by the memory there is, --debug tells)", bpf.MaxSessions))
	f.look.add(flags)
}

// wanted reports whether the command line is about sessions.
func (f *sessionFlags) wanted() bool { return len(f.entry)+len(f.presets) > 0 }

// sessionOnly are the options that mean nothing without a session.
var sessionOnly = [...]string{"allow", "inject", "trace", "capture-args", "success", "only-errors", "except-errors", "longer", "interim", "live", "hung", "sessions", "call-stack"}

// check finds options that contradict each other.
func (f *sessionFlags) check(flags *pflag.FlagSet) error {
	if !f.wanted() {
		for _, name := range slices.Concat(sessionOnly[:], lookOnly[:]) {
			flag := flags.Lookup(name)
			switch {
			case flag == nil || !flag.Changed:
			case name == "only-errors":
				return usagef("%s goes with -e: which functions open a session; of calls write a predicate, such as f(return == -ENOENT)", spelling(flag))
			default:
				return usagef("%s goes with -e: which functions open a session", spelling(flag))
			}
		}
		return nil
	}
	for _, name := range [...]string{"join", "compact", "fields", "explain", "stack", "caller", "in-flight"} {
		if flag := flags.Lookup(name); flag != nil && flag.Changed {
			return usagef("--%s does not go with sessions (-e or a preset)", name)
		}
	}
	if err := f.look.check(f.trace || flags.Changed("lbr")); err != nil {
		return err
	}
	if f.live && !f.trace {
		return usagef("--live goes with -T: it is the call trace that is printed live")
	}
	if len(f.inject) > 0 && !f.trace {
		return usagef("-J goes with -T: it is in the call trace that injected probes are shown")
	}
	if flag := flags.Lookup("hung"); flag != nil && flag.Changed && f.hung <= 0 {
		return usagef("--hung %v: a time to wait is more than 0", f.hung)
	}
	if flag := flags.Lookup("sessions"); flag != nil && flag.Changed && (f.open < 1 || f.open > bpf.MaxSessions) {
		return usagef("--sessions %d: there can be 1 to %d", f.open, bpf.MaxSessions)
	}
	return nil
}

// A sessionSettings is what the options say, understood.
type sessionSettings struct {
	only, except []uint16
	longer       time.Duration
}

func (f *sessionFlags) settings() (s sessionSettings, err error) {
	only := slices.DeleteFunc(slices.Clone(f.only), func(list string) bool { return strings.EqualFold(list, "any") })
	if s.only, err = parseErrors("-x", only); err != nil {
		return s, err
	}
	if len(only) < len(f.only) {
		s.only = nil // all errors
	}
	if slices.ContainsFunc(f.except, func(list string) bool { return strings.EqualFold(list, "any") }) {
		return s, usagef("-X any: -X takes single errors; -S also shows sessions that did not fail")
	}
	if s.except, err = parseErrors("-X", f.except); err != nil {
		return s, err
	}
	s.longer, err = parseLonger(f.longer)
	return s, err
}

// request parses all SPECs. Faults are returned all together.
func (f *sessionFlags) request(args []string) (r plan.SessionRequest, deny []string, err error) {
	var errs []error
	read := func(texts []string) []*expr.Spec {
		specs, err := trace.ParseSpecs(texts)
		errs = append(errs, err)
		return specs
	}
	r.Args = f.args
	for _, text := range f.inject {
		in, err := parseInjected(text)
		errs = append(errs, err)
		if err == nil {
			r.Inject = append(r.Inject, in)
		}
	}
	r.Entry, r.Allow, r.Specs = read(f.entry), read(f.allow), read(args)
	for _, name := range f.presets {
		p, _ := findPreset(name)
		entry, allow := read(strings.Fields(p.entry)), read(strings.Fields(p.allow))
		r.Entry, r.Allow = append(r.Entry, entry...), append(r.Allow, allow...)
		r.Optional = append(append(r.Optional, entry...), allow...)
		deny = append(deny, strings.Fields(p.deny)...)
	}
	return r, deny, errors.Join(errs...)
}

// parseInjected reads a SPEC of -J.
func parseInjected(text string) (in plan.InjectedSpec, err error) {
	text, in.Return = strings.CutPrefix(text, "kretprobe:")
	if in.Spec, err = expr.Parse(text); err != nil {
		return in, err
	}
	switch kind := in.Spec.Selector.Kind; {
	case in.Return && kind == expr.Function, !in.Return && (kind == expr.Instruction || kind == expr.Tracepoint || kind == expr.RawTracepoint):
		return in, nil
	}
	return in, usagef("-J %s: kprobe:, kretprobe:, tp: or rawtp: is injected; of a function whose calls are to be shown, give the SPEC without -J", text)
}

// parseErrors reads lists of error names: "EINVAL,-ENOMEM,NULL,22". NULL is 0.
func parseErrors(flag string, lists []string) ([]uint16, error) {
	var out []uint16
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			n, err := parseErrno(strings.TrimSpace(name))
			if err != nil {
				return nil, usagef("%s %s: %w", flag, list, err)
			}
			out = append(out, n)
		}
	}
	return out, nil
}

func parseErrno(s string) (uint16, error) {
	name := strings.ToUpper(strings.TrimPrefix(s, "-"))
	if name == "NULL" {
		return 0, nil
	}
	if n, ok := errno.Number(name); ok {
		return uint16(n), nil
	}
	if n, err := strconv.ParseUint(name, 10, 16); err == nil && n >= 1 && n <= 4095 {
		return uint16(n), nil
	}
	return 0, fmt.Errorf("%q is no error%s: write EINVAL, a number from 1 to 4095, or NULL", s, meantError(name))
}

// meantError asks whether another error was meant by a name; it is empty if there is none that is near.
func meantError(name string) string {
	near := suggest.Nearest(name, slices.Values(errno.All()))
	if near == "" {
		return ""
	}
	return " (did you mean " + near + "?)"
}

// parseLonger reads a time of which milliseconds are the unit.
func parseLonger(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	text := s
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		text += "ms"
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, usagef("--longer %s: write a time such as 10ms, 50us or 2s", s)
	}
	return d, nil
}
