// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ksnoop/ksnoop/internal/report"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

func newReportCommand() *cobra.Command {
	page := format{name: "html", binary: true, whole: true, open: func(p *picture, _ formatOptions) (eventPrinter, error) { return report.New(p.run), nil }}
	f := replayFlags{output: outputFlags{format: formatFlag{format: &page}}}
	c := &cobra.Command{
		Use:   "report FILE ... [SPEC ...]",
		Short: "Make a page for a browser of a recording",
		Long: strings.TrimSpace(`
report makes one HTML file of a recording. A browser shows it without a network.
Events are on a timeline and in a list, which text filters. Each has its values, its
call tree and its stack. A flame graph and a table of latencies add them up. What
SPECs add up is shown as tables.

SPECs and filters choose what is in the page, as they do for replay. Several FILEs
must be the parts of one run. The page contains the values that it shows: treat it as
you treat the recording.`),
		Example: "  ksnoop trace -e 'do_sys_open*' -T --record open.ks -- cat /nope\n  ksnoop report open.ks -o open.html\n" +
			"  ksnoop report -x ENOENT open.ks -o failed.html",
		RunE: func(c *cobra.Command, args []string) error {
			f.all = c.Flags()
			if f.output.file == "" && isTerminal(c.OutOrStdout()) {
				return usagef("a report is a page for a browser: write it to a file with -o FILE")
			}
			return f.run(c, args)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.output.file, "output", "o", "", "write the page to a new `FILE`")
	flags.BoolVar(&f.output.force, "force", false, "with -o: replace FILE if it exists")
	flags.Uint64VarP(&f.count, "count", "c", 0, "stop after `N` calls or sessions")
	f.ask.add(flags)
	f.addLooks()
	return c
}

// addLooks gives the options about how text looks their defaults, where there are none.
func (f *replayFlags) addLooks() {
	none := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.look.add(none)
	f.branches.add(none)
}

// isTerminal reports whether what is written to w is shown on a terminal.
func isTerminal(w io.Writer) bool {
	t, ok := w.(*terminal.Writer)
	return ok && t.IsTerminal()
}
