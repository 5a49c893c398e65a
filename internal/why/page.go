// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"io"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// mostListed is how many of the other failing calls are listed.
const mostListed = 12

// WriteChosen writes which call has been chosen and why.
func (s *Seen) WriteChosen(out io.Writer, chosen int, reason string) error {
	f := &s.Calls[chosen]
	_, err := fmt.Fprintf(out, "%s\n    %s\n    by %s[%d], exit status %d; chosen since %s\n", failedBy(f), f, terminal.Name(f.Comm), f.PID, s.Status, reason)
	return err
}

// Write writes where the call was refused, with the stack.
func (p *Place) Write(out io.Writer) error {
	last := p.Innermost()
	where := "refused in " + last.Function.String()
	if p.Inside != "" {
		where = fmt.Sprintf("refused in %s, on which the kernel lets nobody put a probe, called by %s", p.Inside, last.Function)
	}
	if !p.Whole {
		where += " or in what that calls, which was looked at no further"
	}
	runs := "1 more run"
	if p.Runs > 1 {
		runs = fmt.Sprintf("%d more runs", p.Runs)
	}
	_, err := fmt.Fprintf(out, "%s (%s):\n%s", where, runs, p.Stack)
	return err
}

// failedBy is the first line of a page.
func failedBy(f *Failure) string {
	if m := f.Message(); m != "" {
		return fmt.Sprintf("%s failed: %s", f.Name(), m)
	}
	return f.Name() + " failed"
}

// WriteOthers lists the failing calls but one; -1: all of them. The last ones are those that are
// listed if there are many.
func (s *Seen) WriteOthers(out io.Writer, chosen int) error {
	type row struct {
		text string
		n    int
	}
	var rows []row
	for i := range s.Calls {
		if i == chosen {
			continue
		}
		f := &s.Calls[i]
		text := fmt.Sprintf("%s, %s[%d]", f, terminal.Name(f.Comm), f.PID)
		if n := len(rows); n > 0 && rows[n-1].text == text {
			rows[n-1].n++
			continue
		}
		rows = append(rows, row{text, 1})
	}
	title := "other calls that failed, in order:"
	if chosen < 0 {
		title = "calls that failed, in order:"
	}
	if len(rows) > mostListed {
		title = fmt.Sprintf("%s (the last %d of %d)", title[:len(title)-1], mostListed, len(rows)) + ":"
		rows = rows[len(rows)-mostListed:]
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(out, title); err != nil {
		return err
	}
	for _, r := range rows {
		times := ""
		if r.n > 1 {
			times = fmt.Sprintf(", %d times", r.n)
		}
		if _, err := fmt.Fprintf(out, "    %s%s\n", r.text, times); err != nil {
			return err
		}
	}
	return nil
}
