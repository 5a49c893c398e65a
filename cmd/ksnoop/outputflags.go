// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/destination"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// outputFlags say in what form trace and replay print, and where to.
type outputFlags struct {
	format formatFlag
	file   string
	force  bool // replace the file
	colour colourFlag
	fields fieldsFlag
	otlp   otlpFlags
}

func (f *outputFlags) add(flags *pflag.FlagSet, force string) {
	flags.Var(&f.format, "format", "print in this `FORMAT`: "+formatNames())
	flags.BoolVar(&f.format.options.strings64, "json-strings", false, "with --format json: write integers of 64-bit types as strings")
	flags.StringVarP(&f.file, "output", "o", "", "print to a new `FILE`")
	flags.Var(&f.format.options.weight, "weight", "with --format folded: what is added up: calls, time (in the function itself, ns), errors (that began in it) or, of sessions, off-cpu (of the time, off the CPU)")
	flags.BoolVar(&f.format.options.summary, "summary", false, "print what calls or sessions add up to, by function and error, instead of them")
	flags.Var(&f.fields, "fields", fieldsUsage)
	flags.Var(&f.colour, "color", colourUsage)
	flags.BoolVar(&f.force, "force", false, force)
	f.otlp.add(flags)
}

// textOnly are the options about how text looks.
var textOnly = []string{"compact", "args", "args-width", "no-stack", "full-stacks", "color", "fields"}

// check refuses options that would change nothing.
func (f *outputFlags) check(flags *pflag.FlagSet) (err error) {
	if err := f.otlp.check(flags, &f.format); err != nil {
		return err
	}
	if f.file == "-" {
		return usagef("-o -: leave it out to print to the standard output, or write ./- for a file of that name")
	}
	if f.format.options.strings64 && f.format.String() != "json" {
		return usagef("--json-strings goes with --format json")
	}
	if flags.Changed("weight") && f.format.String() != "folded" {
		return usagef("--weight goes with --format folded")
	}
	if f.format.options.summary && !f.format.text() && f.format.String() != "json" && f.format.String() != "prometheus" && !f.otlp.wanted() {
		return usagef("--summary does not go with --format %s, which adds calls up anyway or has no tables: there are text, json and prometheus", &f.format)
	}
	if f.format.options.summary && f.fields.columns != nil {
		return usagef("--fields does not go with --summary: it is about the lines of calls")
	}
	if f.format.text() {
		return nil
	}
	flags.Visit(func(flag *pflag.Flag) {
		if err == nil && slices.Contains(textOnly, flag.Name) {
			err = usagef("%s does not go with %s: it is about how text looks", spelling(flag), f.format.spelling())
		}
	})
	return err
}

// A printout is where a run prints to.
type printout struct {
	io.Writer
	text *terminal.Writer  // of a file of text; nil for all else
	file *destination.File // nil: the standard output
	kept bool
	// exporting is where it goes in place of the standard output; nil: it does not.
	exporting *exporting
	// coloured says that text is to be printed with marks of styles.
	coloured bool
	whole    *bytes.Buffer // what the file is to have at the end, in place of what it has; nil: nothing
}

// replaceable reports whether what was printed can be replaced by something else: it is in a file that ksnoop made.
func (p *printout) replaceable() bool { return p.file != nil && p.file.Made() }

// replaced has what is printed from now on take the place of what is in the file, all at once and at the end. The
// function that it returns does so before.
func (p *printout) replaced() func(text []byte) error {
	p.whole = &bytes.Buffer{}
	p.Writer = p.whole
	return p.file.Replace
}

// open opens where to print to. Text in a file may be shown on a terminal, so what would act
// on one is escaped there too.
func (f *outputFlags) open(stdout io.Writer) (*printout, error) {
	if f.otlp.wanted() {
		e := f.otlp.open()
		return &printout{Writer: e, exporting: e}, nil
	}
	if f.file == "" {
		p := &printout{Writer: stdout}
		w, filtered := stdout.(*terminal.Writer)
		if f.format.text() && filtered {
			p.coloured = f.colour.on(w)
			w.Colour(p.coloured)
		}
		if f.format.text() || !filtered {
			return p, nil
		}
		if f.format.binary() && w.IsTerminal() {
			return nil, usagef("--format %s is no text for a terminal: print it to a file with -o FILE", &f.format)
		}
		p.Writer = w.Raw()
		return p, nil
	}
	file, err := destination.Create(f.file, f.force)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("--output: %w; --force replaces it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("--output: %w", err)
	}
	p := &printout{Writer: file, file: file}
	if f.format.text() {
		p.text = terminal.NewWriter(file)
		p.Writer, p.coloured = p.text, f.colour.on(p.text)
		p.text.Colour(p.coloured)
	}
	return p, nil
}

// keep says that the file is to stay: something may be printed.
func (p *printout) keep() { p.kept = true }

// end closes the file, and adds what went wrong to an error, unless that says it: what was not written then cannot be
// written now either.
func (p *printout) end(err error) error {
	closed := p.Close()
	if err == nil || closed != nil && !strings.Contains(err.Error(), closed.Error()) {
		err = errors.Join(err, closed)
	}
	return err
}

// Close closes the file. It leaves none behind that keep was not called for.
func (p *printout) Close() error {
	switch {
	case p == nil:
		return nil
	case p.exporting != nil:
		return p.exporting.end(p.kept)
	case p.file == nil:
		return nil
	case !p.kept:
		return p.file.Discard()
	}
	return errors.Join(p.flush(), p.file.Close())
}

// flush writes to the file what was held back.
func (p *printout) flush() error {
	switch {
	case p.text != nil:
		return p.text.Flush()
	case p.whole != nil && p.whole.Len() > 0:
		return p.file.Replace(p.whole.Bytes())
	}
	return nil
}
