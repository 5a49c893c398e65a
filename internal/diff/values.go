// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"strconv"

	"github.com/ksnoop/ksnoop/internal/jsonlines"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// A reader reads the values of one run. Arguments are read as they are, by their shape. Values that SPECs ask for, which
// have many forms, are read as jsonlines writes them.
type reader struct {
	name []byte
	line []byte

	events   *jsonlines.Printer
	resolver output.Resolver
	frames   []symbols.Frame // of one place
	results  map[resultKey]result
	arguments
}

// newReader returns a reader of a run.
func newReader(run output.Run, names *Names, ignore *Ignore, exact bool) *reader {
	r := &reader{resolver: run.Resolver, results: map[resultKey]result{}, arguments: newArguments(run)}
	r.texts = texts{names: names, ignore: ignore, exact: exact, ignored: map[[2]string]bool{}}
	if run.Plan != nil {
		r.events = jsonlines.New(run, false)
		r.events.DecisionsOnly()
	}
	return r
}

// A resultKey is a register that a function has returned.
type resultKey struct {
	of *plan.Probe
	v  uint64
}

// A result is what is known of a call by what it has returned.
type result struct {
	text   string
	failed bool
}

// returned notes the result of a call in a session.
func (r *reader) returned(c *Call, of *plan.Probe, v uint64) (err error) {
	if of == nil || of.Result == nil {
		return nil
	}
	key := resultKey{of, v}
	known, ok := r.results[key]
	if !ok {
		if r.line, err = r.events.AppendResult(r.line[:0], of, v); err != nil {
			return err
		}
		first := Call{Func: c.Func}
		r.result(&first, r.line)
		known = result{first.Result, first.Failed}
		r.results[key] = known
		r.memory += valueMemory
	}
	c.Result, c.Failed = known.text, c.Failed || known.failed
	return nil
}

// captured adds the values of a call in a session.
func (r *reader) captured(c *Call, v *session.Values, when jsonlines.Moment, atReturn bool) error {
	if c == nil {
		return nil
	}
	for i := range v.Args {
		if err := r.argument(c, &v.Args[i], i); err != nil {
			return err
		}
	}
	if v.Event == nil || v.Event.Record == nil {
		return nil
	}
	var err error
	if r.line, err = r.events.AppendValues(r.line[:0], v.Event, when); err == nil {
		r.values(c, r.line, atReturn)
	}
	return err
}

// argument adds the values of argument i.
func (r *reader) argument(c *Call, a *session.Arg, i int) error {
	r.name = append(r.name[:0], output.ArgName(a, i)...)
	switch g, err := r.read(c.Func, a, r.name); {
	case err != nil:
		return err
	case g == nil:
		r.addText(c, "unreadable", false)
	case len(g.shape.leaves) > 0:
		c.groups = append(c.groups, g)
	}
	return nil
}

// values adds the values in an object. Why they could not be read is not compared: that they could
// not is.
func (r *reader) values(c *Call, raw []byte, atReturn bool) {
	for key, v := range members(raw) {
		if string(key) == "return" {
			c.Finished = true
			r.result(c, v)
			continue
		}
		r.name = append(r.name[:0], text(quoted(key))...)
		r.add(c, v, atReturn)
	}
}

// quoted returns the string of which key is the contents. A key is behind a quote, and before one.
func quoted(key []byte) []byte { return append(append([]byte{'"'}, key...), '"') }

// add adds the value that r.name is the name of, or all members of it.
func (r *reader) add(c *Call, raw []byte, atReturn bool) {
	if len(raw) == 0 {
		return
	}
	switch raw[0] {
	case '{':
		r.addObject(c, raw, atReturn)
	case '[':
		r.addArray(c, raw, atReturn)
	default:
		r.addText(c, r.scalar(raw), atReturn)
	}
}

// addObject adds a pointer with what it points to, an enum, or the members of a struct.
func (r *reader) addObject(c *Call, raw []byte, atReturn bool) {
	if addr := addressOf(raw); addr != nil {
		r.addPointer(c, r.pointer(addr, raw), member(raw, "value"), atReturn)
		return
	}
	if isEnum(raw) {
		r.addText(c, enumerator(raw), atReturn)
		return
	}
	r.addMembers(c, raw, ".", atReturn)
}

// addPointer adds a pointer and what it points to. Of a text, that is all that is wanted.
func (r *reader) addPointer(c *Call, pointer string, target []byte, atReturn bool) {
	switch {
	case len(target) == 0 || string(target) == "null":
		r.addText(c, pointer, atReturn)
	case target[0] == '"':
		r.addText(c, string(target), atReturn)
	case target[0] == '{' && !isEnum(target) && addressOf(target) == nil:
		r.addText(c, pointer, atReturn)
		r.addMembers(c, target, "->", atReturn)
	default:
		r.addText(c, pointer, atReturn)
		name := string(r.name)
		r.name = append(append(r.name[:0], '*'), name...)
		r.add(c, target, atReturn)
		r.name = append(r.name[:0], name...)
	}
}

func (r *reader) addMembers(c *Call, raw []byte, operator string, atReturn bool) {
	at := len(r.name)
	for key, v := range members(raw) {
		r.name = append(append(r.name[:at], operator...), text(quoted(key))...)
		r.add(c, v, atReturn)
	}
	r.name = r.name[:at]
}

// addArray adds the elements of an array; numbers are one value.
func (r *reader) addArray(c *Call, raw []byte, atReturn bool) {
	if len(raw) < 2 || raw[1] != '{' && raw[1] != '[' {
		r.addText(c, r.flat(raw), atReturn)
		return
	}
	at, i := len(r.name), int64(0)
	for v := range elements(raw) {
		r.name = append(strconv.AppendInt(append(r.name[:at], '['), i, 10), ']')
		r.add(c, v, atReturn)
		i++
	}
	r.name = r.name[:at]
}

func (r *reader) addText(c *Call, text string, atReturn bool) {
	name := r.names.share(string(r.name))
	if r.memory += valueMemory; r.ignores(c.Func, name) {
		return
	}
	r.memory += len(text)
	c.Values = append(c.Values, Value{Name: name, Text: r.names.share(text), AtReturn: atReturn})
}

// result notes the result of a call: an error, else its value; nothing if it is left out, or not known.
func (r *reader) result(c *Call, raw []byte) {
	if len(raw) == 0 || r.ignores(c.Func, "return") {
		return
	}
	r.memory += len(raw)
	if e := member(raw, "error"); e != nil {
		c.Result, c.Failed = r.names.share("-"+text(e)), true
		return
	}
	if addr := addressOf(raw); addr != nil {
		c.Result = r.names.share(r.pointer(addr, raw))
		return
	}
	if _, ok := first(raw, "name"); ok {
		c.Result = r.names.share(enumerator(raw))
		return
	}
	switch v := member(raw, "value"); {
	case len(v) == 0 || string(v) == "null":
	case v[0] == '{' || v[0] == '[':
		r.name = append(r.name[:0], "return"...)
		r.add(c, v, true)
	default:
		c.Result = r.names.share(r.scalar(v))
	}
}
