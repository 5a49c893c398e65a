// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/internal/jsonlines"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// A reader reads the values of one run. Arguments are read as they are, by their shape. Values that SPECs ask for, which
// have many forms, are read as jsonlines writes them.
type reader struct {
	names  *Names
	ignore *Ignore
	exact  bool // addresses are compared
	// ignored keeps the answers of ignore, by the name of a function and of a value.
	ignored map[[2]string]bool
	memory  int // of calls and values so far, in bytes
	name    []byte
	line    []byte

	events   *jsonlines.Printer
	resolver output.Resolver
	frames   []symbols.Frame // of one place
	results  map[resultKey]result
	arguments
}

// newReader returns a reader of a run.
func newReader(run output.Run, names *Names, ignore *Ignore, exact bool) *reader {
	r := &reader{names: names, ignore: ignore, exact: exact, ignored: map[[2]string]bool{}, resolver: run.Resolver, results: map[resultKey]result{}, arguments: newArguments(run)}
	if run.Plan != nil {
		r.events = jsonlines.New(run, false)
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

// What calls and values take, in bytes, besides their texts.
const (
	callMemory  = 256
	valueMemory = 56
)

// ignores reports whether a value is left out.
func (r *reader) ignores(fn, name string) bool {
	key := [2]string{fn, name}
	is, known := r.ignored[key]
	if !known {
		is = r.ignore.value(fn, name)
		r.ignored[key] = is
		r.memory += valueMemory + len(name)
	}
	return is
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

// flat returns the text of a value that is one: a scalar, an enum, or an array of numbers.
func (r *reader) flat(raw []byte) string {
	switch {
	case len(raw) == 0:
		return ""
	case raw[0] == '{':
		return enumerator(raw)
	case raw[0] != '[':
		return r.scalar(raw)
	}
	var all []string
	for v := range elements(raw) {
		all = append(all, r.scalar(v))
	}
	return "{" + strings.Join(all, ", ") + "}"
}

func (r *reader) addText(c *Call, text string, atReturn bool) {
	name := r.names.share(string(r.name))
	if r.memory += valueMemory; r.ignores(c.Func, name) {
		return
	}
	r.memory += len(text)
	c.Values = append(c.Values, Value{Name: name, Text: r.names.share(text), AtReturn: atReturn})
}

// address stands for all addresses, which no two runs have in common.
const address = "an address"

// scalar returns the text of a number, a string, a bool or null.
func (r *reader) scalar(raw []byte) string {
	switch {
	case string(raw) == "null":
		return "unreadable"
	case raw[0] == '"':
		return string(raw)
	case !r.exact && isAddress(raw):
		return address
	}
	return string(raw)
}

// isAddress reports whether a number is as large as addresses are: of the kernel, or of a process whose
// addresses are randomised.
func isAddress(raw []byte) bool {
	if len(raw) < 14 { // 2^44 has as many digits
		return false
	}
	if raw[0] == '-' {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		return err == nil && n >= -1<<56 && n < -1<<32
	}
	n, err := strconv.ParseUint(string(raw), 10, 64)
	return err == nil && addressLike(n, false)
}

// Where addresses are.
const (
	firstProcess, lastProcess = 1 << 44, 1 << 48
	firstKernel, firstError   = 0xff << 56, 1<<64 - 4096 // with five levels of page tables, on amd64
)

// pointer returns the text of a pointer: the name of what is at an address, else that it is one.
func (r *reader) pointer(addr, raw []byte) string {
	at := text(addr)
	if at == "0x0" {
		return "NULL"
	}
	if name := member(raw, "name"); len(name) > 0 && string(name) != "null" {
		return text(name)
	}
	if r.exact {
		return at
	}
	return address
}

// addressOf returns the address of a pointer; nil: it is none, and a struct may have a member of this name, too.
func addressOf(raw []byte) []byte {
	if addr, ok := first(raw, "addr"); ok && bytes.HasPrefix(addr, []byte(`"0x`)) {
		return addr
	}
	return nil
}

// first returns the value of the first member, if it has this key.
func first(raw []byte, key string) ([]byte, bool) {
	for k, v := range members(raw) {
		return v, string(k) == key
	}
	return nil, false
}

// isEnum reports whether an object is an enum: a name, or none, and a number.
func isEnum(raw []byte) bool {
	i := 0
	for k, v := range members(raw) {
		switch {
		case i == 0 && string(k) == "name" && (v[0] == '"' || v[0] == 'n'), i == 1 && string(k) == "value" && v[0] != '{' && v[0] != '[':
		default:
			return false
		}
		i++
	}
	return i == 2
}

// enumerator returns the text of an enum.
func enumerator(raw []byte) string {
	name, _ := first(raw, "name")
	if string(name) == "null" {
		return string(member(raw, "value"))
	}
	return text(name)
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
