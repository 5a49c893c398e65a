// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/otlp"
	"github.com/ksnoop/ksnoop/internal/otlp/export"
	"github.com/ksnoop/ksnoop/internal/plural"
)

// otlpFlags say where events are exported to in OpenTelemetry's protocol.
type otlpFlags struct {
	url   string // "": nowhere
	as    string
	queue string
	// parent is the item of a SPEC that says which span of its program a session belongs to.
	parent  string
	places  bpf.ParentPlace // where else the engine looks for that
	parents *otlp.Parents
	// wait has a recording wait for the collector. A kernel does not wait.
	wait bool
	// stopped is closed when nobody wants to wait any more. It may be nil.
	stopped <-chan struct{}
	config  *export.Config
	size    int
	notes   io.Writer
}

// What calls become.
const (
	asLogs  = "logs"
	asSpans = "spans"
)

func (f *otlpFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "otlp", "", "print nothing, and export by OTLP to a collector's `URL`, as http://localhost:4318, or with env to what OTEL_EXPORTER_OTLP_ENDPOINT says")
	flags.StringVar(&f.as, "otlp-as", asLogs, "with --otlp: calls without sessions are `KIND`: logs or spans")
	flags.StringVar(&f.parent, "parent", "", "with --otlp: sessions are children of their programs' spans: thread (its context record), go (the SDK's), environ (TRACEPARENT), auto (all three), or what `EXPR` gives at the entry")
	flags.StringVar(&f.queue, "otlp-queue", "64M", "with --otlp: keep up to this `SIZE` of what waits for the collector")
}

func (f *otlpFlags) wanted() bool { return f.url != "" }

// otlpFormat is what --otlp has events printed as.
func otlpFormat() *format {
	return &format{name: "otlp", option: "--otlp", owned: true, whole: true, numbered: true, open: func(p *picture, o formatOptions) (eventPrinter, error) { return otlp.New(p.run, o.otlp), nil }}
}

// check reads the environment, and has the format be that of exports.
func (f *otlpFlags) check(flags *pflag.FlagSet, to *formatFlag) (err error) {
	if !f.wanted() {
		if flags.Changed("otlp-as") || flags.Changed("otlp-queue") || flags.Changed("parent") {
			return usagef("--otlp-as, --otlp-queue and --parent go with --otlp URL")
		}
		return nil
	}
	for _, name := range []string{"format", "output", "weight"} {
		if flag := flags.Lookup(name); flag.Changed {
			return usagef("%s does not go with --otlp, which prints nothing: record with --record FILE, and replay that in other forms", spelling(flag))
		}
	}
	if f.as != asLogs && f.as != asSpans {
		return usagef("--otlp-as %s: there are logs and spans", f.as)
	}
	if f.size, err = parseBytes(f.queue); err != nil || f.size < 1<<20 || f.size > 16<<30 {
		return usagef("--otlp-queue %s: a size from 1M to 16G", f.queue)
	}
	if f.config, err = export.Configure(f.url, os.Getenv); err != nil {
		return usagef("--otlp: %w", err)
	}
	if err := f.checkParent(); err != nil {
		return err
	}
	f.parents = &otlp.Parents{}
	to.format = otlpFormat()
	to.options.otlp = *f.said()
	return nil
}

// said is what the options say of events.
func (f *otlpFlags) said() *otlp.Options {
	o := &otlp.Options{Spans: f.as == asSpans, Exponential: f.config.Exponential, Attributes: f.config.Attributes, Parent: f.parent, Parents: f.parents}
	if !f.wait {
		o.Now = monotonic
	}
	return o
}

// open begins the export.
func (f *otlpFlags) open() *exporting {
	if f.config.Exposed() {
		fmt.Fprintf(f.notes, "ksnoop: --otlp: events leave this machine unencrypted, to %s; https:// encrypts them\n", f.config.Where())
	}
	notes := f.notes
	e := export.New(export.Options{Config: f.config, Version: version(), Queue: int64(f.size), Wait: f.wait,
		Say: func(text string) { fmt.Fprintf(notes, "ksnoop: --otlp: %s\n", text) }})
	if f.stopped != nil {
		go func() {
			<-f.stopped
			e.Interrupt()
		}()
	}
	return &exporting{Exporter: e, where: f.config.Where(), notes: notes, parents: f.parents}
}

// An exporting is an export until it is closed.
type exporting struct {
	*export.Exporter
	where   string
	notes   io.Writer
	parents *otlp.Parents
}

// An exportError says that something did not arrive.
type exportError struct{ missing uint64 }

// Error implements error.
func (e exportError) Error() string {
	return "--otlp: " + plural.Of(e.missing, "{span, log record or data point|spans, log records or data points} did not arrive")
}

// end sends what is left, and says what became of all. Without events there is nothing to say.
func (e *exporting) end(begun bool) error {
	slow := time.AfterFunc(time.Second, func() { fmt.Fprintf(e.notes, "ksnoop: --otlp: sending what is left: %s\n", e.Waiting()) })
	counts := e.Close()
	slow.Stop()
	if begun {
		fmt.Fprintf(e.notes, "ksnoop: --otlp %s: %s\n", e.where, counts)
		if e.parents.Any() {
			fmt.Fprintf(e.notes, "ksnoop: --parent: %s\n", e.parents)
		}
	}
	if n := counts.Missing(); n > 0 {
		return exportError{n}
	}
	return nil
}
