// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A row is what TestLiveKernels says of one way of attaching and one view.
type row struct {
	Kernel, Arch, Method, View string
	Why                        string // why not; "" means that it worked
}

// rows are those of all kernels.
type rows []row

// rowMark begins a row in a test's output.
const rowMark = "kernels: "

// take picks a row out of a line of output.
func (rs *rows) take(line string) {
	_, text, ok := strings.Cut(line, rowMark+"{")
	if !ok {
		return
	}
	var r row
	if json.Unmarshal([]byte("{"+strings.TrimSpace(text)), &r) == nil {
		*rs = append(*rs, r)
	}
}

// The table stands between these lines of the file, so that the text around it is
// written by hand.
const (
	tableBegin = "<!-- table: make test-all writes it -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

// A line of the table begins with the cells that name a kernel and a method; the others
// are for a view each.
const (
	keyCells = 3
	notTried = "not tried"
)

// update puts the table into the file. If not all kernels have been tried, rows of others stay
// as they are. No rows leave all of it as it is.
func (rs rows) update(file string, all bool) error {
	if len(rs) == 0 {
		return fmt.Errorf("%s: no test has told what works", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	table, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		return fmt.Errorf("%s has no lines %q and %q", file, tableBegin, tableEnd)
	}
	if !all {
		rs = rs.with(parseTable(table))
	}
	return os.WriteFile(file, []byte(before+tableBegin+"\n"+rs.markdown()+"\n"+tableEnd+after), 0o644)
}

// with adds the rows of others about kernels that rs has nothing about.
func (rs rows) with(others rows) rows {
	return append(slices.Clip(rs), slices.DeleteFunc(others, func(old row) bool {
		return slices.ContainsFunc(rs, func(r row) bool { return r.Kernel == old.Kernel && r.Arch == old.Arch })
	})...)
}

// parseTable reads what markdown has written. Other lines are left out.
func parseTable(text string) (rs rows) {
	why := map[string]string{}
	var views []string
	for line := range strings.Lines(text) {
		if n, reason, ok := strings.Cut(strings.TrimSpace(line), ". "); ok {
			why["no ("+n+")"] = reason
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		switch {
		case len(cells) <= keyCells:
		case views == nil:
			views = cells[keyCells:]
		case len(cells) == keyCells+len(views):
			for i, cell := range cells[keyCells:] {
				if cell != notTried {
					rs = append(rs, row{cells[0], cells[1], cells[2], views[i], cell})
				}
			}
		}
	}
	for i := range rs {
		rs[i].Why = why[rs[i].Why]
	}
	return rs
}

// distinct are the values of a field, in the order in which they come first.
func (rs rows) distinct(field func(row) string) (values []string) {
	for _, r := range rs {
		if v := field(r); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}

// markdown renders the table: a line for each kernel and method, a column for each
// view, and the reasons below.
func (rs rows) markdown() string {
	sorted := slices.Clone(rs)
	slices.SortStableFunc(sorted, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Arch, b.Arch), compareReleases(a.Kernel, b.Kernel))
	})
	views := rs.distinct(func(r row) string { return r.View })
	var why []string
	var b strings.Builder
	fmt.Fprintf(&b, "| kernel | architecture | method | %s |\n|---|---|---|%s\n", strings.Join(views, " | "), strings.Repeat("---|", len(views)))
	for len(sorted) > 0 {
		first := sorted[0]
		fmt.Fprintf(&b, "| %s | %s | %s |", first.Kernel, first.Arch, first.Method)
		same := func(r row) bool {
			return r.Kernel == first.Kernel && r.Arch == first.Arch && r.Method == first.Method
		}
		for _, view := range views {
			i := slices.IndexFunc(sorted, func(r row) bool { return same(r) && r.View == view })
			switch {
			case i < 0:
				b.WriteString(" " + notTried + " |")
			case sorted[i].Why == "":
				b.WriteString(" passed |")
			default:
				n := slices.Index(why, sorted[i].Why)
				if n < 0 {
					n, why = len(why), append(why, sorted[i].Why)
				}
				fmt.Fprintf(&b, " no (%d) |", n+1)
			}
		}
		b.WriteString("\n")
		sorted = slices.DeleteFunc(sorted, same)
	}
	if len(why) > 0 {
		b.WriteString("\n")
	}
	for i, text := range why {
		fmt.Fprintf(&b, "%d. %s\n", i+1, text)
	}
	return b.String()
}

// compareReleases orders releases by their numbers: 6.12 comes after 6.2.
func compareReleases(a, b string) int {
	numbers := func(s string) (ns []int) {
		for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return r < '0' || r > '9' }) {
			n := 0
			for _, digit := range part {
				n = n*10 + int(digit-'0')
			}
			ns = append(ns, n)
		}
		return ns
	}
	return cmp.Or(slices.Compare(numbers(a), numbers(b)), cmp.Compare(a, b))
}
