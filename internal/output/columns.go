// SPDX-License-Identifier: Apache-2.0

package output

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/suggest"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// A Column is a field that the line of a call can begin with. Its name is that of JSON lines, if they have it.
type Column struct {
	Name  string
	About string
	Needs layout.Owner // what events must have of their task

	heading string
	width   int // in which it is aligned to the right
	// text appends the field of an event, all of whose text is safe to show.
	text func(l *lead, dst []byte, e *event.Event) []byte
}

// columns are all there are. It is never changed.
var columns = [...]Column{
	{Name: "comm", About: "name of the thread", heading: "TASK", width: 16, text: func(_ *lead, dst []byte, e *event.Event) []byte {
		return terminal.AppendName(dst, cString(e.Comm[:]))
	}},
	{Name: "pid", About: "process", heading: "PID", width: 7, text: func(_ *lead, dst []byte, e *event.Event) []byte {
		return AppendPID(dst, e.Inner, e.PID)
	}},
	{Name: "tid", About: "thread", heading: "TID", width: 7, text: func(_ *lead, dst []byte, e *event.Event) []byte {
		return appendIDs(dst, e.Inner, []uint32{e.TID}, []uint32{e.Inner.TID})
	}},
	{Name: "cpu", About: "CPU that it ran on", heading: "CPU#", width: 4, text: func(_ *lead, dst []byte, e *event.Event) []byte {
		return strconv.AppendUint(dst, uint64(e.CPU), 10)
	}},
	{Name: "time", About: "time since the machine has started, in seconds", heading: "TIMESTAMP", width: 16, text: func(_ *lead, dst []byte, e *event.Event) []byte {
		return appendSeconds(dst, e.Time)
	}},
	{Name: "wall", About: "date and time of day, UTC", heading: "WALL", width: len(wallForm), text: func(l *lead, dst []byte, e *event.Event) []byte {
		if l.run.Boot.IsZero() {
			return append(dst, '-')
		}
		return l.run.BootNow().Add(time.Duration(e.Time)).UTC().AppendFormat(dst, wallForm)
	}},
	{Name: "host", About: "name of the machine", heading: "HOST", width: 12, text: func(l *lead, dst []byte, _ *event.Event) []byte {
		if l.run.Host == "" {
			return append(dst, '-')
		}
		return terminal.AppendName(dst, l.run.Host)
	}},
	{Name: "uid", About: "user", Needs: layout.OwnerUID, heading: "UID", width: 6, text: func(_ *lead, dst []byte, e *event.Event) []byte {
		return strconv.AppendUint(dst, uint64(e.Owner.UID), 10)
	}},
	{Name: "cgroup", About: "path of the control group", Needs: layout.OwnerCgroup, heading: "CGROUP", width: 24, text: func(l *lead, dst []byte, e *event.Event) []byte {
		if g := l.names.group(e.Owner.Cgroup); g.Path != "" {
			return terminal.AppendName(dst, g.Path)
		}
		return strconv.AppendUint(append(dst, "cgroup "...), e.Owner.Cgroup, 10)
	}},
	{Name: "container", About: "container, with its pod, as $container has it", Needs: layout.OwnerCgroup, heading: "CONTAINER", width: 24, text: func(l *lead, dst []byte, e *event.Event) []byte {
		return l.names.appendPlace(dst, expr.ViewContainer, e.Owner.Cgroup)
	}},
	{Name: "pod", About: "pod, as $pod has it", Needs: layout.OwnerCgroup, heading: "POD", width: 24, text: func(l *lead, dst []byte, e *event.Event) []byte {
		return l.names.appendPlace(dst, expr.ViewPod, e.Owner.Cgroup)
	}},
}

const wallForm = "2006-01-02T15:04:05.000000Z"

// usualColumns returns those of the original ksnoop.
func usualColumns() []Column {
	list, _ := ParseColumns("comm,pid,cpu,time") // there are these
	return list
}

// Columns returns all there are.
func Columns() []Column { return slices.Clone(columns[:]) }

// ParseColumns finds columns by their names, which commas separate. Behind a + are those that follow the usual ones.
func ParseColumns(text string) (list []Column, err error) {
	text, more := strings.CutPrefix(text, "+")
	if more {
		list = usualColumns()
	}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		at := slices.IndexFunc(columns[:], func(c Column) bool { return c.Name == name })
		if at < 0 {
			return nil, unknownColumn(name)
		}
		list = append(list, columns[at])
	}
	return list, nil
}

// unknownColumn is the error of a name that no column has. Who types what stands above a column means it.
func unknownColumn(name string) error {
	var names []string
	hint := ""
	for _, c := range columns {
		names = append(names, c.Name)
		if strings.EqualFold(name, c.heading) || strings.EqualFold(name, c.Name) {
			hint = suggest.DidYouMean(c.Name)
		}
	}
	if hint == "" {
		hint = suggest.Hint(name, slices.Values(names))
	}
	if hint != "" {
		hint = "; " + hint
	}
	return fmt.Errorf("there is no field %q%s There are %s", terminal.Name(name), cmp.Or(hint, "."), strings.Join(names, ", "))
}

// A lead is what lines of calls begin with.
type lead struct {
	columns []Column
	run     Run
	names   Names
}

// appendHeading appends the names of the columns, which are aligned as what is below them.
func (l *lead) appendHeading(dst []byte) []byte {
	for i := range l.columns {
		dst = fmt.Appendf(dst, "%*s ", l.columns[i].width, l.columns[i].heading)
	}
	return dst
}

// append appends the fields of an event.
func (l *lead) append(dst []byte, e *event.Event) []byte {
	for i := range l.columns {
		start := len(dst)
		dst = alignRight(l.columns[i].text(l, dst, e), start, l.columns[i].width)
		dst = append(dst, ' ')
	}
	return dst
}

// alignRight moves what begins at start to the right end of as many columns as are wanted. What is wider stays.
func alignRight(dst []byte, start, width int) []byte {
	missing := width - utf8.RuneCount(dst[start:])
	if missing <= 0 {
		return dst
	}
	end := len(dst)
	dst = appendBlanks(dst, missing)
	copy(dst[start+missing:], dst[start:end])
	appendBlanks(dst[:start], missing)
	return dst
}

// appendSeconds appends nanoseconds as seconds to the microsecond.
func appendSeconds(dst []byte, ns uint64) []byte {
	dst = append(strconv.AppendUint(dst, ns/1e9, 10), '.')
	micros := ns % 1e9 / 1e3
	for unit := uint64(1e5); unit > 0; unit /= 10 {
		dst = append(dst, '0'+byte(micros/unit%10))
	}
	return dst
}
