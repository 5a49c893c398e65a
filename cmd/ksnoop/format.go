// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/folded"
	"github.com/ksnoop/ksnoop/internal/jsonlines"
	"github.com/ksnoop/ksnoop/internal/otlp"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/overview"
	"github.com/ksnoop/ksnoop/internal/perfetto"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/pprof"
	"github.com/ksnoop/ksnoop/internal/prometheus"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/internal/summary"
)

// A format is a form in which trace and replay print.
type format struct {
	name string
	// option is how it is asked for, unless that is by --format.
	option string
	// binary formats are no text: they do not go to a terminal.
	binary bool
	// whole formats have calls joined and sessions complete: what is added up, and slices, have
	// both ends.
	whole bool
	// owned formats say whose each event is: by user and cgroup.
	owned bool
	// numbered formats tell several runs apart by their numbers.
	numbered bool
	// rooted formats show the stack of the process with a session. Text does, too.
	rooted bool
	// pictured formats show them in one picture, by one clock.
	pictured bool
	// merge makes one text of those of several runs; nil if there is no such thing.
	merge func(runs [][]byte) ([]byte, error)
	// open makes a printer. It is nil for text, of which the options of calls and of
	// sessions say more.
	open func(*picture, formatOptions) (eventPrinter, error)
	// noTables formats do not print what is added up. Of all others, check returns why they do not
	// print some tables; nil takes all.
	noTables bool
	tables   bool // and nothing else
	check    func(*summary.Tables) error
}

// formatOptions are the options of single formats.
type formatOptions struct {
	strings64 bool       // JSON: 64-bit integers are strings
	weight    weightFlag // of folded
	summary   bool       // what is shown is added up instead
	otlp      otlp.Options
}

// An eventPrinter prints both calls and sessions.
type eventPrinter interface {
	show.CallPrinter
	show.SessionPrinter
}

// formats are all there are. The first is the default.
var formats = [...]format{
	{name: "text"},
	{name: "json", owned: true, numbered: true, rooted: true, open: func(p *picture, o formatOptions) (eventPrinter, error) {
		return jsonlines.New(p.run, o.strings64), nil
	}},
	{name: "perfetto", owned: true, binary: true, whole: true, numbered: true, pictured: true, noTables: true, open: func(p *picture, _ formatOptions) (eventPrinter, error) { return perfetto.New(p.run), nil }},
	{name: "pprof", binary: true, whole: true, noTables: true, merge: pprof.Merge, open: func(p *picture, _ formatOptions) (eventPrinter, error) { return pprof.New(p.run), nil }},
	{name: "folded", whole: true, merge: folded.Merge, open: func(p *picture, o formatOptions) (eventPrinter, error) {
		return folded.New(p.run, o.weight.Weight), nil
	}, check: folded.Check},
	{name: "prometheus", tables: true, open: func(p *picture, _ formatOptions) (eventPrinter, error) { return prometheus.New(p.run), nil }},
}

// A weightFlag is a folded.Weight as an option.
type weightFlag struct{ folded.Weight }

var _ pflag.Value = (*weightFlag)(nil)

// Set implements pflag.Value.
func (w *weightFlag) Set(s string) (err error) {
	w.Weight, err = folded.ParseWeight(s)
	return err
}

// Type implements pflag.Value.
func (w *weightFlag) Type() string { return "WEIGHT" }

func formatNames() string {
	names := make([]string, len(formats))
	for i := range formats {
		names[i] = formats[i].name
	}
	return strings.Join(names, ", ")
}

// A formatFlag is a format as an option, with the options of formats. The zero value is text.
type formatFlag struct {
	*format
	options formatOptions
}

var _ pflag.Value = (*formatFlag)(nil)

// Set implements pflag.Value.
func (f *formatFlag) Set(s string) error {
	for i := range formats {
		if formats[i].name == s {
			f.format = &formats[i]
			return nil
		}
	}
	return usagef("there are %s", formatNames())
}

// String implements pflag.Value.
func (f *formatFlag) String() string {
	if f.format == nil {
		return formats[0].name
	}
	return f.name
}

// Type implements pflag.Value.
func (f *formatFlag) Type() string { return "FORMAT" }

// spelling returns how the format was asked for.
func (f *formatFlag) spelling() string {
	if f.format != nil && f.option != "" {
		return f.option
	}
	return "--format " + f.String()
}

// text reports whether it is text.
func (f *formatFlag) text() bool { return f.format == nil || f.open == nil }

// binary reports whether the format is no text.
func (f *formatFlag) binary() bool { return f.format != nil && f.format.binary }

// owned reports whether users and cgroups of events are shown.
func (f *formatFlag) owned() bool { return f.format != nil && f.format.owned && !f.options.summary }

// numbered reports whether the format tells several runs apart.
func (f *formatFlag) numbered() bool { return f.format != nil && f.format.numbered }

// pictured reports whether the format shows several runs in one picture.
func (f *formatFlag) pictured() bool { return f.format != nil && f.format.pictured }

// merges reports whether several runs become one.
func (f *formatFlag) merges() bool { return f.format != nil && f.merge != nil }

// mergeTo writes what is made of the texts of several runs.
func (f *formatFlag) mergeTo(out io.Writer, runs [][]byte) error {
	text, err := f.merge(runs)
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}

// whole reports whether the format has calls joined and sessions complete.
func (f *formatFlag) whole() bool { return f.options.summary || f.format != nil && f.format.whole }

// offCPU reports whether off-CPU times of sessions are shown.
func (f *formatFlag) offCPU() bool { return f.options.summary || f.offCPUStacks() }

// offCPUStacks reports whether nothing else is shown.
func (f *formatFlag) offCPUStacks() bool { return f.options.weight.Weight == folded.OffCPU }

// rooted reports whether the stack of the process is shown with a session.
func (f *formatFlag) rooted() bool { return !f.options.summary && (f.text() || f.format.rooted) }

// A picture is all that decides how the events of a run are printed.
type picture struct {
	run     output.Run
	compact bool            // calls as text, a line for each
	colour  bool            // text has marks of styles
	fields  []output.Column // that lines of calls begin with; nil: the usual ones
	columns func() int      // of the terminal that calls are printed to; nil if there is none
	tails   *output.Tails   // of calls as text; nil if there are none
	// sessions say how sessions look as text.
	sessions output.SessionOptions
	offCPU   bool // they have off-CPU times
}

// plain is the picture of text that is searched: without marks of styles, and not cut.
func (p picture) plain() *picture {
	p.colour, p.columns = false, nil
	return &p
}

// withTails has calls printed with stacks and branches, if there are any.
func (p *picture) withTails(t *output.Tails) {
	if t != nil {
		p.tails, p.run.Resolver, p.run.User = t, t.Kernel, t.User
	}
}

// compactWidth is how much of a value is shown on a line, in bytes.
const compactWidth = 160

// overview makes the printer of --summary.
func (f *formatFlag) overview(p *picture) (*overview.Printer, error) {
	var tables overview.TablePrinter = output.NewSummaries(p.run, p.columns, p.colour)
	if !f.text() {
		printer, err := f.open(p, f.options)
		if err != nil {
			return nil, err
		}
		tables = printer.(overview.TablePrinter) // check has refused all others
	}
	return overview.New(&p.run, p.offCPU, tables), nil
}

// calls makes the printer of calls.
func (f *formatFlag) calls(p *picture) (show.CallPrinter, error) {
	if f.options.summary {
		return f.overview(p)
	}
	if !f.text() {
		return f.open(p, f.options)
	}
	names := p.run.Names()
	printer := output.NewCalls(names)
	if p.compact {
		printer = output.NewCompactCalls(names, compactWidth)
		printer.Columns = p.columns
	}
	if p.fields != nil {
		printer.SetColumns(p.fields, &p.run)
	}
	printer.Tails = p.tails
	if p.colour {
		printer.Colour()
	}
	return printer, nil
}

// takes refuses a plan with what the format does not print.
func (f *formatFlag) takes(p *plan.Plan) error {
	of := summary.Of(p)
	if f.options.summary {
		if len(of.List) > 0 {
			return usagef("--summary adds calls up that are shown, and these SPECs add them up already")
		}
		return nil
	}
	switch {
	case f.format == nil:
		return nil
	case f.tables && (p.Sessions || !onlyTables(p)):
		return usagef("--format %s prints what is added up: ask for count(), or another aggregation, in each SPEC", f)
	case f.offCPUStacks() && !p.Sessions:
		return usagef("--weight %s is about sessions, and this is about calls: -e opens sessions", &f.options.weight)
	case len(of.List) == 0:
		return nil
	case f.noTables:
		return usagef("--format %s shows calls, and these SPECs add them up", f)
	case f.check != nil:
		if err := f.check(of); err != nil {
			return usagef("--format %s: %w", f, err)
		}
	}
	return nil
}

// printers makes the printers of a run of calls: that of calls, and that of tables, which is nil
// if no SPEC aggregates.
func (f *formatFlag) printers(p *picture) (show.CallPrinter, show.SummaryPrinter, error) {
	calls, err := f.calls(p)
	if err != nil || len(summary.Of(p.run.Plan).List) == 0 {
		return calls, nil, err
	}
	if !f.text() {
		tables, ok := calls.(show.SummaryPrinter)
		if !ok {
			return nil, nil, fmt.Errorf("--format %s has no tables", f) // takes has refused it
		}
		return calls, tables, nil
	}
	tables := output.NewSummaries(p.run, p.columns, p.colour)
	if onlyTables(p.run.Plan) {
		calls = quiet{tables}
	}
	return calls, tables, nil
}

// onlyTables reports whether all SPECs of a plan aggregate, so that no calls are shown.
func onlyTables(p *plan.Plan) bool {
	return !slices.ContainsFunc(p.Probes, func(p *plan.Probe) bool {
		return !slices.ContainsFunc(p.Items, func(it expr.Item) bool { return it.Aggregation != nil })
	})
}

// A quiet is the printer of a run without calls.
type quiet struct{ *output.Summaries }

// AppendCall implements show.CallPrinter.
func (quiet) AppendCall(dst []byte, _ *calls.Call) ([]byte, error) { return dst, nil }

// sessions makes the printer of sessions.
func (f *formatFlag) sessions(p *picture) (show.SessionPrinter, error) {
	if f.options.summary {
		return f.overview(p)
	}
	if !f.text() {
		return f.open(p, f.options)
	}
	o := p.sessions
	o.Names, o.Resolver, o.User, o.Boot, o.Booted, o.Colour = p.run.Names(), p.run.Resolver, p.run.User, p.run.Boot, p.run.Booted, p.colour
	return output.NewSessions(o), nil
}
