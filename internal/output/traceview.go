// SPDX-License-Identifier: Apache-2.0

package output

import (
	"strconv"

	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symname"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Columns of a call trace.
const (
	traceCalls = iota
	traceResult
	traceDuration
	traceArgs
)

// A traceView prints the calls of a session in order:
//
//	FUNCTION CALLS           RESULT      DURATION
//	----------------------   ---------  ---------
//	→ __sys_bpf
//	    ↔ bpf_check_attr     [0]          0.512us
//	← __sys_bpf              [-EINVAL]   24.200us
type traceView struct {
	table  table
	values *valuePrinter
	below  []byte // values of one call, for lines below it
	live   bool   // rows are printed as they come, with fixed widths
}

func newTraceView(values *valuePrinter, live, colour bool) *traceView {
	v := &traceView{values: values, live: live}
	v.table.colour = colour
	v.table.columns = []column{{gap: 3}, {gap: 2}, {gap: 2, right: true}, {}}
	least := [...]int{len("FUNCTION CALLS"), len("RESULT"), len("DURATION"), 0}
	if live {
		least = [...]int{60, 20, 12, 0}
	}
	for i, n := range least {
		v.table.columns[i].least = n
	}
	v.table.reset()
	return v
}

// appendHeader appends the line with the names of the columns.
func (v *traceView) appendHeader(dst []byte, args bool) []byte {
	row := v.table.row()
	for i, name := range [...]string{"FUNCTION CALLS", "RESULT", "DURATION"} {
		v.table.put(i, name)
	}
	columns := traceArgs
	if args {
		v.table.put(traceArgs, "ARGS")
		columns++
	}
	dst = v.table.appendRow(dst, row)
	rule := v.table.columns
	width := rule[traceArgs].width
	rule[traceArgs].width = len("ARGS") // a rule as wide as the longest value would help nobody
	dst = v.table.appendRule(dst, columns)
	rule[traceArgs].width = width
	return dst
}

// append appends steps, with a header if wanted.
func (v *traceView) append(dst []byte, steps []session.Step, header bool) ([]byte, error) {
	v.table.reset()
	args := false
	for i := range steps {
		has, err := v.addRow(&steps[i])
		if err != nil {
			return dst, err
		}
		args = args || has
	}
	if header {
		dst = v.appendHeader(dst, args || v.live)
	}
	v.table.most = v.values.room(v.table.at(traceArgs))
	for i := range steps {
		dst = v.table.appendRow(dst, i)
		if v.values.layout == ArgsCompact {
			continue
		}
		var err error
		if v.below, err = v.values.append(v.below[:0], &steps[i].Values, momentOf(&steps[i])); err != nil {
			return dst, err
		}
		dst = v.values.appendBelow(dst, v.below, traceIndent*(steps[i].Depth+1))
	}
	return dst, nil
}

// momentOf returns when the values of a step were read.
func momentOf(s *session.Step) moment {
	switch {
	case s.Kind == session.StepEntry || s.Kind == session.StepOpen:
		return atEntry
	case s.Kind == session.StepExit && !s.Alone:
		return atReturn
	}
	return wholeCall
}

// traceIndent is how far a call is indented from its caller, in columns.
const traceIndent = 4

// addRow adds a step to the table. args says that it has values.
func (v *traceView) addRow(s *session.Step) (args bool, err error) {
	t := &v.table
	t.row()
	start := len(t.text)
	t.text = appendBlanks(t.text, traceIndent*s.Depth)
	switch s.Kind {
	case session.StepEntry:
		t.text = append(t.text, "→ "...)
	case session.StepExit:
		t.text = append(t.text, "← "...)
	case session.StepOpen:
		t.text = append(t.text, "… "...)
	case session.StepLeaf:
		t.text = append(t.text, "↔ "...)
	case session.StepProbe:
		t.text = terminal.AppendName(append(t.text, "◎ "...), s.Probe)
	case session.StepLost:
		t.text = append(t.text, "--- calls lost ---"...)
		t.set(traceCalls, start)
		t.paint(traceCalls, terminal.Note)
		return false, nil
	case session.StepLeft:
		t.text = strconv.AppendUint(append(t.text, "--- "...), uint64(s.Count), 10)
		t.text = append(t.text, " calls left out (a session takes "...)
		t.text = append(strconv.AppendInt(t.text, session.SessionLimit>>20, 10), " MiB at most) ---"...)
		t.set(traceCalls, start)
		t.paint(traceCalls, terminal.Note)
		return false, nil
	}
	if s.Func != nil {
		name, module := s.Func.Named()
		t.text = symname.Append(t.text, name, module)
	}
	t.set(traceCalls, start)
	if s.Kind == session.StepExit || s.Kind == session.StepLeaf {
		start = len(t.text)
		t.text = appendResult(t.text, s.Func, s.Result)
		t.set(traceResult, start)
		if s.Failed {
			t.paint(traceResult, terminal.Bad)
		}
		start = len(t.text)
		t.text = append(appendMicros(t.text, s.Duration), "us"...)
		t.set(traceDuration, start)
	}
	if v.values.layout != ArgsCompact {
		return false, nil
	}
	if v.below, err = v.values.append(v.below[:0], &s.Values, momentOf(s)); err != nil || len(v.below) == 0 {
		return false, err
	}
	start = len(t.text)
	t.text = append(t.text, v.below...)
	t.set(traceArgs, start)
	return true, nil
}

// appendMicros appends nanoseconds as microseconds with three decimals.
func appendMicros(dst []byte, ns uint64) []byte {
	dst = append(strconv.AppendUint(dst, ns/1e3, 10), '.')
	rest := ns % 1e3
	return append(dst, '0'+byte(rest/100), '0'+byte(rest/10%10), '0'+byte(rest%10))
}
