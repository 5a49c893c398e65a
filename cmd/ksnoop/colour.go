// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A colourFlag is --color: whether text is coloured by what it means. The zero value is auto.
type colourFlag struct{ when string }

var _ pflag.Value = (*colourFlag)(nil)

const (
	colourAuto   = "auto"
	colourAlways = "always"
	colourNever  = "never"
)

const colourUsage = "`WHEN` to colour text by what it means: auto (on a terminal, unless NO_COLOR is set or TERM is dumb), always or never"

// Set implements pflag.Value.
func (f *colourFlag) Set(s string) error {
	switch s {
	case colourAuto, colourAlways, colourNever:
		f.when = s
		return nil
	}
	return usagef("there are auto, always and never")
}

// String implements pflag.Value.
func (f *colourFlag) String() string {
	if f.when == "" {
		return colourAuto
	}
	return f.when
}

// Type implements pflag.Value.
func (f *colourFlag) Type() string { return "string" }

// on decides for what text is printed to. See https://no-color.org.
func (f *colourFlag) on(w *terminal.Writer) bool {
	switch f.String() {
	case colourAlways:
		return true
	case colourNever:
		return false
	}
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && w.IsTerminal()
}
