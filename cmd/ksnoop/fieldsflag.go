// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// A fieldsFlag says what the lines of calls begin with. The zero value is what they usually do.
type fieldsFlag struct {
	text    string
	columns []output.Column // nil: as usual
}

var _ pflag.Value = (*fieldsFlag)(nil)

// listFields in place of fields asks which there are.
const listFields = "list"

const fieldsUsage = "begin the line of a call with these `FIELDS`, separated by commas, as time,pid,container; +FIELDS adds them to the usual ones; list says which there are"

// Set implements pflag.Value.
func (f *fieldsFlag) Set(text string) (err error) {
	f.text, f.columns = text, nil
	if text != "" && text != listFields { // nothing is refused with other options
		f.columns, err = output.ParseColumns(text)
	}
	return err
}

// String implements pflag.Value.
func (f *fieldsFlag) String() string { return f.text }

// Type implements pflag.Value.
func (f *fieldsFlag) Type() string { return "string" }

// list prints the fields that there are, if that is asked for.
func (f *fieldsFlag) list(w io.Writer) (asked bool, err error) {
	if f.text != listFields {
		return false, nil
	}
	for _, c := range output.Columns() {
		if _, err = fmt.Fprintf(w, "%-9s  %s\n", c.Name, c.About); err != nil {
			break
		}
	}
	return true, err
}

// needs is what events must have of their tasks.
func (f *fieldsFlag) needs() (owner layout.Owner) {
	for _, c := range f.columns {
		owner |= c.Needs
	}
	return owner
}

// check refuses fields that the calls of a plan do not have.
func (f *fieldsFlag) check(p *plan.Plan, why string) error {
	if p.Sessions && f.columns != nil {
		return usagef("--fields is about the lines of calls, and these are sessions")
	}
	for _, c := range f.columns {
		if c.Needs&^p.Owner != 0 {
			return usagef("--fields %s: %s", c.Name, why)
		}
	}
	return nil
}

// fieldNames returns the names of all fields.
func fieldNames() (names []string) {
	for _, c := range output.Columns() {
		names = append(names, c.Name)
	}
	return names
}
