// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A Page is what is known of why a command fails. Its texts stand as they are printed, so that
// text and JSON have the same ones, and a page that is read from elsewhere prints the same.
type Page struct {
	Kind    string   `json:"kind"` // "why", among lines of JSON
	Command []string `json:"command,omitempty"`
	Process uint32   `json:"process,omitempty"` // which runs already, in place of a command
	Status  *int     `json:"status,omitempty"`  // of the command; nil: it did not end, or a process was looked at
	Call    *Call    `json:"call,omitempty"`    // the one that matters; nil: there is none
	Reason  string   `json:"reason,omitempty"`  // why it is that
	Cause   *Cause   `json:"cause,omitempty"`
	// Later is the failure of a process that Refused and Taken are of, if its arguments are not those of Call. Of
	// several it is the last one.
	Later   *Call    `json:"later_call,omitempty"`
	Refused *Refusal `json:"refused,omitempty"`
	Taken   *Taken   `json:"function_call,omitempty"`
	Others  []Others `json:"others,omitempty"` // in the order of time
	// Earlier is how many calls like Others failed before them.
	Earlier int `json:"earlier,omitempty"`
	// Incomplete says that the first run has lost something: calls that failed may be missing.
	Incomplete bool   `json:"incomplete,omitempty"`
	Lost       []Lost `json:"lost,omitempty"`
	// Notes say what else is to be known, such as why there is less than there could be.
	Notes []string `json:"notes,omitempty"`
}

// A Call is a system call that has failed.
type Call struct {
	Name    string     `json:"name"`
	Args    []Argument `json:"args"`
	Error   string     `json:"error"`
	Errno   uint64     `json:"errno"`
	Message string     `json:"message,omitempty"`
	Comm    string     `json:"comm"`
	PID     uint32     `json:"pid"`
	TID     uint32     `json:"tid"`
	// Namespace has the numbers in another PID namespace; nil: there are none.
	Namespace *Numbers `json:"namespace,omitempty"`
	Time      uint64   `json:"time"`
	Function  string   `json:"function,omitempty"` // that serves it
	Answer    string   `json:"answer,omitempty"`   // the text of the answer to a request by netlink
	// UserStack is what called it in the process, innermost first, of the call that matters.
	UserStack []string `json:"user_stack,omitempty"`
}

// Numbers are those of a thread in ksnoop's PID namespace or, if that is the initial one, in its own.
type Numbers struct {
	PID uint32 `json:"pid"`
	TID uint32 `json:"tid"`
	Own bool   `json:"own,omitempty"` // it is ksnoop's
}

// numbers are those that an event has.
func numbers(in bpf.Inner) *Numbers {
	if in == (bpf.Inner{}) {
		return nil
	}
	return &Numbers{PID: in.PID, TID: in.TID, Own: in.Ours}
}

// appendProcess appends who has made a call: sh[155], in a PID namespace sh[12 (host 155)].
func (c *Call) appendProcess(dst []byte) []byte {
	var in bpf.Inner
	if n := c.Namespace; n != nil {
		in = bpf.Inner{PID: n.PID, TID: n.TID, Ours: n.Own}
	}
	return append(output.AppendPID(append(append(dst, c.Comm...), '['), in, c.PID), ']')
}

// An Argument is one of a call.
type Argument struct {
	Name string `json:"name,omitempty"` // as the kernel declares it
	Text string `json:"text"`
}

// A Refusal is where a call was refused.
type Refusal struct {
	Function string `json:"function"` // the innermost one that returned or stored the error
	// Inside is the function that it consists of, if the kernel lets nobody trace that.
	Inside string `json:"inside,omitempty"`
	// Stored is where it has stored the error, if it has returned NULL: "*errp".
	Stored string `json:"stored,omitempty"`
	// Below are functions that it calls and that the kernel lets nobody trace. One of them has made the error, or
	// what that calls.
	Below []string `json:"below,omitempty"`
	// Unfollowed says that the error is that of a function which it, or Inside, calls through a pointer, and that it
	// was not seen where that leads. It is only possible if Inside is there, or if it is not known which way it took.
	Unfollowed bool `json:"unfollowed,omitempty"`
	// Whole says that the error was made in it, and not in what it calls.
	Whole bool `json:"whole"`
	Runs  int  `json:"runs"` // of the command or failures of the process, that it took
	// Chain are the functions that failed, outermost first. Those behind Function failed with
	// other errors, of which it made this one.
	Chain []Failed `json:"chain"`
	Stack []string `json:"stack"` // the chain within the kernel's stack
}

// A Failed is a function that failed.
type Failed struct {
	Function string `json:"function"`
	Result   string `json:"result"`
}

// A Taken is with what a function was called and which way it took.
type Taken struct {
	Function string     `json:"function"`
	Args     []Argument `json:"args,omitempty"`
	Path     []string   `json:"path,omitempty"`
	Note     string     `json:"path_note,omitempty"` // what is missing in Path

	vain bool // a capability was asked for in vain, and something else has decided
}

// Others are calls that failed, one or several that read the same.
type Others struct {
	Call
	Times int `json:"times"`
}

const (
	// mostListed is how many of the other failing calls are printed.
	mostListed = 12
	// mostKept is how many are kept.
	mostKept = 100
)

// NewPage returns what is known when a command has run once.
func NewPage(command []string, s *Seen) *Page {
	p := &Page{Kind: "why", Status: &s.Status}
	for _, arg := range command {
		p.Command = append(p.Command, terminal.Name(arg))
	}
	return p
}

// NewProcessPage returns what is known when a process was looked at.
func NewProcessPage(pid uint32) *Page { return &Page{Kind: "why", Process: pid} }

// Choose notes which of the calls matters, and that the others failed too; -1: none does. Beside a call that matters for
// another reason it notes the signal that has ended the command, of which the exit status tells no more than the number.
func (p *Page) Choose(s *Seen, chosen int, reason string) {
	p.Reason, p.Incomplete = terminal.Name(reason), s.Incomplete
	if note := s.onlyCounted(); note != "" {
		p.AddNote(note)
	}
	if s.goOn > 0 {
		p.AddNote(plural.Of(s.goOn, "process{es} that the command has started {goes|go} on: what fails there after the command has ended is not seen"))
	}
	if ended := s.endedBy(chosen); chosen >= 0 && ended != "" && ended != reason {
		p.AddNote(ended)
	}
	for i := range s.Calls {
		c := s.Calls[i].call()
		if i == chosen {
			p.Call = &c
			continue
		}
		if n := len(p.Others); n > 0 && p.Others[n-1].same(&c) {
			p.Others[n-1].Times++
			continue
		}
		p.Others = append(p.Others, Others{c, 1})
	}
	dropped := max(len(p.Others)-mostKept, 0)
	p.Others, p.Earlier = p.Others[dropped:], s.earlier+dropped
}

// call returns a failure as it is printed.
func (f *Failure) call() Call {
	c := Call{Name: terminal.Name(f.Name()), Error: f.errorName(), Errno: f.Errno, Message: f.Message(), Comm: terminal.Name(f.Comm), PID: f.PID, TID: f.TID, Namespace: numbers(f.Inner), Time: f.Time, Function: terminal.Name(f.Function), Args: []Argument{}}
	if f.request != nil {
		c.Args, c.Answer = f.request.args(f.Function), terminal.Name(f.request.answer)
		return c
	}
	n := words
	if f.Params != nil {
		n = min(len(f.Params), words)
	}
	for i := range n {
		a := Argument{Text: string(f.appendArg(nil, i))}
		if i < len(f.Params) {
			a.Name = terminal.Name(f.Params[i].Name)
		}
		c.Args = append(c.Args, a)
	}
	return c
}

// args are what is shown of a request that a function serves.
func (q *request) args(function string) []Argument {
	return []Argument{{"nlmsg_type", requestName(function, q.kind)}, {"nlmsg_flags", fmt.Sprintf("%#x", q.flags)}, {"nlmsg_len", fmt.Sprint(q.len)}}
}

// same reports whether two calls read the same.
func (c *Call) same(other *Call) bool {
	return c.Name == other.Name && slices.Equal(c.Args, other.Args) && c.Errno == other.Errno && c.PID == other.PID && c.Comm == other.Comm
}

// append appends a call as it could stand in C: mkdir("/proc/a", 0777) = -ENOENT.
func (c *Call) append(dst []byte) []byte {
	dst = append(append(dst, c.Name...), '(')
	for i, a := range c.Args {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, a.Text...)
	}
	return append(append(dst, ") = -"...), c.Error...)
}

// SetPlace notes where the call was refused.
func (p *Page) SetPlace(place *Place) {
	p.Refused, p.Cause = place.refusal(), place.cause()
	if place.later != nil {
		c := place.later.call()
		p.Later = &c
	}
}

// refusal returns a place as it is printed.
func (p *Place) refusal() *Refusal {
	r := &Refusal{Function: terminal.Name(p.Innermost().Function.String()), Inside: terminal.Name(p.Inside), Stored: terminal.Name(p.Innermost().stored), Whole: p.Whole && p.made == nil && !p.unfollowed, Runs: p.Runs, Stack: lines(p.Stack), Unfollowed: p.unfollowed}
	for _, name := range p.made {
		r.Below = append(r.Below, terminal.Name(name))
	}
	for i := range p.Chain {
		l := &p.Chain[i]
		r.Chain = append(r.Chain, Failed{terminal.Name(l.Function.String()), terminal.Name(l.Text)})
	}
	return r
}

// setPath takes a path as it is printed behind a call, without the indentation.
func (t *Taken) setPath(text []byte) {
	all := lines(bytes.TrimRight(text, "\n"))
	t.Note = strings.TrimPrefix(all[0], pathTitle)
	for _, l := range all[1:] {
		t.Path = append(t.Path, strings.TrimPrefix(l, pathIndent))
	}
}

// Append appends the whole page as text.
func (p *Page) Append(dst []byte) []byte {
	return p.AppendOthers(p.AppendPlace(p.AppendCall(dst)))
}

// AppendCall appends which call has been chosen and why, if one has.
func (p *Page) AppendCall(dst []byte) []byte {
	c := p.Call
	if c == nil {
		return dst
	}
	dst = append(append(dst, c.Name...), " failed"...)
	if c.Message != "" {
		dst = append(append(dst, ": "...), c.Message...)
	}
	dst = c.append(append(dst, "\n    "...))
	if c.Answer != "" {
		dst = fmt.Appendf(dst, "\n    the answer of the kernel says \"%s\"", c.Answer)
	}
	dst = c.appendProcess(append(dst, "\n    by "...))
	if p.Process == 0 && p.Status != nil { // older recordings have that of a process
		dst = fmt.Appendf(dst, ", in a command with exit status %d", *p.Status)
	}
	dst = fmt.Appendf(dst, "; chosen since %s\n", p.Reason)
	if len(c.UserStack) == 0 {
		return dst
	}
	return appendLines(append(dst, "    called by:\n"...), "        ", c.UserStack)
}

// AppendPlace appends what made the error, and where and how that came about, as far as it is known.
func (p *Page) AppendPlace(dst []byte) []byte {
	if c := p.Later; c != nil {
		dst = c.append(append(dst, "what follows is of a later failure, with other arguments:\n    "...))
		dst = append(c.appendProcess(append(dst, "\n    by "...)), '\n')
	}
	if p.Cause != nil {
		dst = append(append(dst, p.Cause.Text...), '\n')
	}
	return p.appendTaken(p.appendRefused(dst))
}

// appendRefused appends where the call was refused, with the stack, if that is known.
func (p *Page) appendRefused(dst []byte) []byte {
	r := p.Refused
	if r == nil {
		return dst
	}
	where := "refused " + r.where()
	what := "run"
	if p.Process != 0 {
		what = "failure"
	}
	if r.Runs > 1 {
		what += "s"
	}
	dst = fmt.Appendf(dst, "%s (%d more %s):\n", where, r.Runs, what)
	return appendLines(dst, "", r.Stack)
}

// where writes in which function it was, or which ones it may have been.
func (r *Refusal) where() string {
	const noProbe = ", on which the kernel lets nobody put a probe"
	if len(r.Below) > 0 {
		return "in or below " + either(r.Below) + noProbe + ", called by " + r.Function
	}
	where := "in " + r.Function
	if r.Inside != "" {
		where = "in " + r.Inside + noProbe
	}
	if r.Unfollowed {
		where += ", or in what that calls through a pointer, which was not followed"
	}
	if r.Inside != "" {
		where += ", called by " + r.Function
	}
	if !r.Whole && !r.Unfollowed {
		where += " or in what that calls, which was looked at no further"
	}
	if r.Stored != "" {
		where += "; it returned NULL, with the error in " + r.Stored
	}
	return where
}

// appendTaken appends with what the function was called and which way it took, if that is known.
func (p *Page) appendTaken(dst []byte) []byte {
	t := p.Taken
	if t == nil {
		return dst
	}
	dst = append(append(append(dst, "    "...), t.Function...), '(')
	for i, a := range t.Args {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(append(append(dst, a.Name...), " = "...), a.Text...)
	}
	dst = append(dst, ")\n"...)
	if len(t.Path) == 0 {
		return dst
	}
	dst = append(append(append(dst, pathTitle...), t.Note...), '\n')
	return append(appendLines(dst, pathIndent, t.Path), '\n')
}

func appendLines(dst []byte, indent string, lines []string) []byte {
	for _, l := range lines {
		if l != "" {
			dst = append(append(dst, indent...), l...)
		}
		dst = append(dst, '\n')
	}
	return dst
}

// AppendOthers lists the calls that failed but were not chosen. The last ones are those that are
// listed if there are many.
func (p *Page) AppendOthers(dst []byte) []byte {
	rows := p.Others
	if len(rows) == 0 {
		return dst
	}
	title := "other calls that failed, in order"
	if p.Call == nil {
		title = "calls that failed, in order"
	}
	if total := p.Earlier + len(rows); total > mostListed {
		rows = rows[max(len(rows)-mostListed, 0):]
		title = fmt.Sprintf("%s (the last %d of %s%d)", title, len(rows), p.atLeast(), total)
	}
	dst = append(append(dst, title...), ":\n"...)
	for i := range rows {
		r := &rows[i]
		dst = r.append(append(dst, "    "...))
		dst = r.appendProcess(append(dst, ", "...))
		if r.Times > 1 {
			dst = append(append(append(dst, ", "...), p.atLeast()...), plural.Of(r.Times, "time{s}")...)
		}
		dst = append(dst, '\n')
	}
	return dst
}

// atLeast stands before a number of failing calls, of which some may be missing.
func (p *Page) atLeast() string {
	if p.Incomplete {
		return "at least "
	}
	return ""
}

// AddNote adds a note.
func (p *Page) AddNote(text string) { p.Notes = append(p.Notes, terminal.Name(text)) }

// WriteNotes writes the notes, and what is missing in what was seen.
func (p *Page) WriteNotes(out io.Writer) error {
	var text []byte
	for _, n := range p.Notes {
		text = fmt.Appendf(text, "ksnoop: %s\n", n)
	}
	for _, l := range p.Lost {
		text = fmt.Appendf(text, "ksnoop: %s\n", cmp.Or(l.Text, fmt.Sprint(l.Count, " ", l.What)))
	}
	if p.Incomplete {
		text = append(text, "ksnoop: some of that is of the first run: calls that failed may be missing, and the one that matters may be one of them\n"...)
	}
	if len(p.Lost) > 0 && p.Refused != nil {
		text = append(text, "ksnoop: this counts all processes. If a function is missing in the page, run ksnoop why again, with less else running\n"...)
	}
	_, err := out.Write(text)
	return err
}

// ParsePage reads a page that JSON has made, from wherever it comes: what is not printable in its
// texts is escaped.
func ParsePage(text []byte) (*Page, error) {
	p := &Page{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("its page: %w", err)
	}
	if p.Kind != "why" {
		return nil, errors.New("its page is of another kind")
	}
	clean(reflect.ValueOf(p))
	return p, nil
}

// clean escapes what is not printable in all strings that a value leads to.
func clean(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(terminal.Name(v.String()))
	case reflect.Pointer:
		if !v.IsNil() {
			clean(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			clean(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			clean(v.Index(i))
		}
	}
}

// JSON returns the whole page as a line of JSON.
func (p *Page) JSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // it is read as text, too
	err := e.Encode(p)
	return b.Bytes(), err
}
