// SPDX-License-Identifier: Apache-2.0

package tracer

import (
	"bytes"
	"context"
	"iter"
	"sync"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
)

// A Call is one record of the calls view: a function was called, has returned, or both.
type Call struct {
	Function, Module string // the Module is "" for vmlinux
	// Kind is bpf.KindEntry or bpf.KindReturn for one end of a call, bpf.KindCall for both in
	// one record, and bpf.KindLost where records are missing: only Lost is set then. Both are
	// in one record if a predicate of the SPEC is decided at return, as return < 0 is. Else
	// values that exist at return are in a Call of their own.
	Kind bpf.Kind
	// Time is when it happened, by CLOCK_MONOTONIC.
	Time     time.Duration
	CPU      int
	PID, TID uint32 // in the initial PID namespace
	UID      uint32 // the thread's real user, in the initial user namespace
	Cgroup   uint64 // ID of the thread's cgroup of version 2; CgroupPath names it
	Comm     string // the thread's name
	Values   []Value
	// Stack are the kernel's functions that led to the call, its caller first, if
	// Request.Stack asks for it. What tracing itself adds to the stack is left out.
	Stack []Frame
	// Lost says what is missing at this place. Losses counts it as well.
	Lost Loss
}

// Value returns the value of an expression, as the SPEC has it: "exit(ustr(filename))", and
// "return" of the predicate return < 0. It is the zero Value if this record has none.
func (c *Call) Value(expr string) Value {
	for i := range c.Values {
		if c.Values[i].Expr == expr {
			return c.Values[i]
		}
	}
	return Value{}
}

// String returns the call on one line, as "vfs_read(count = 13, return = 13)".
func (c *Call) String() string {
	if c.Kind == bpf.KindLost {
		return c.Lost.String()
	}
	text := append([]byte(c.Function), '(')
	return string(append(appendValues(text, c.Values), ')'))
}

func appendValues(dst []byte, values []Value) []byte {
	for i := range values {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(append(dst, values[i].Expr...), " = "...)
		dst = values[i].AppendText(dst)
	}
	return dst
}

// A Frame is one place of a kernel stack.
type Frame struct {
	Addr             uint64
	Function, Module string // "" if it is not known
	Offset           uint64 // of Addr from the begin of Function
}

// A Value is one value that was captured. Its bytes are little-endian, as in the kernel's
// memory, and belong to the record: copy what is to be kept.
type Value struct {
	Expr string // as the SPEC has it: "skb->len"
	// Type is the type of Raw, nil if only what a pointer points to was captured.
	Type btf.Type
	// Raw are the bytes of the value; nil if it could not be read.
	Raw []byte
	// Target are the bytes of what Raw points to, a value of TargetType; nil if it was not
	// asked for or could not be read. Of a string they are those before its NUL, of diff(x)
	// what was there when the function was called.
	Target     []byte
	TargetType btf.Type
	Cut        bool // Target is only the beginning of a string or of buf()

	field output.Field
	event *event.Event
}

// Uint returns a value that is a number or a pointer; ok is false if it could not be read or
// is neither, as a struct or a string.
func (v Value) Uint() (n uint64, ok bool) {
	if v.Raw == nil || v.event == nil {
		return 0, false
	}
	scalar, _ := v.field.Slots()
	return v.event.Value(scalar)
}

// Int returns a signed number, extended to 64 bits, and otherwise what Uint returns.
func (v Value) Int() (n int64, ok bool) {
	u, ok := v.Uint()
	return int64(u), ok
}

// Text returns a string as it was captured, as str(), ustr() and $comm are, without its NUL;
// ok is false if it could not be read or is none. It can be kept.
func (v Value) Text() (s string, ok bool) {
	if v.Target == nil || v.event == nil {
		return "", false
	}
	_, target := v.field.Slots()
	if _, text := target.Term.(*expr.Text); !text {
		return "", false
	}
	return string(v.Target), true
}

// AppendText appends the value as ksnoop writes it on one line.
func (v Value) AppendText(dst []byte) []byte {
	if v.event == nil {
		return dst // the zero Value
	}
	return v.field.Append(dst, v.event)
}

// String returns the value as ksnoop writes it on one line.
func (v Value) String() string { return string(v.AppendText(nil)) }

// Calls yields calls until ctx ends and all that was recorded before is read. A Call is
// valid until the next one is asked for. An error is the last that is yielded; one of them
// is that tracing takes more of the machine than it may. The end of ctx is no error.
func (t *Tracer) Calls(ctx context.Context) iter.Seq2[*Call, error] {
	return func(yield func(*Call, error) bool) {
		ctx, end, err := t.begin(ctx, false)
		if err != nil {
			yield(nil, err)
			return
		}
		ended := sync.OnceValue(end)
		defer ended()
		var call Call
		for e, err := range event.All(t.run.Plan, t.run.Records(ctx, t.limits)) {
			if err == nil {
				err = t.fill(&call, e)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&call, nil) {
				return
			}
		}
		if err := ended(); err != nil {
			yield(nil, err)
		}
	}
}

// fill makes a call of an event.
func (t *Tracer) fill(c *Call, e *event.Event) (err error) {
	*c = Call{Kind: e.Kind, Time: time.Duration(e.Time), CPU: int(e.CPU), PID: e.PID, TID: e.TID, UID: e.Owner.UID, Cgroup: e.Owner.Cgroup,
		Values: c.Values[:0], Stack: c.Stack[:0]}
	if e.Kind == bpf.KindLost {
		c.Lost = lossOf(e.Cause, e.Lost)
		return nil
	}
	c.Function, c.Module = e.Probe.Func.Name, e.Probe.Func.Module
	comm, _, _ := bytes.Cut(e.Comm[:], []byte{0})
	c.Comm = string(comm)
	if c.Values, err = t.appendFields(c.Values, e); err != nil {
		return err
	}
	if s, ok := e.Tail.Section(bpf.SectionStack); ok {
		for _, addr := range t.tails.Callers(e, s) {
			c.Stack = append(c.Stack, t.frame(addr))
		}
	}
	return nil
}

// frame names an address.
func (t *Tracer) frame(addr uint64) Frame {
	f := Frame{Addr: addr}
	if s, ok := t.kernel.Symbol(addr); ok {
		f.Function, f.Module, f.Offset = s.Name, s.Module, s.Offset
	}
	return f
}

// appendFields appends the values of an event.
func (t *Tracer) appendFields(dst []Value, e *event.Event) ([]Value, error) {
	fields, err := t.fields.Of(e)
	if err != nil {
		return dst, err
	}
	for _, f := range fields {
		dst = append(dst, valueOf(f, e))
	}
	return dst, nil
}

func valueOf(f output.Field, e *event.Event) Value {
	v := Value{Expr: f.Label(), field: f, event: e}
	if f.Withheld() {
		v.Type = f.Type()
		return v
	}
	scalar, target := f.Slots()
	if scalar != nil {
		v.Type = scalar.Term.Type()
		if raw, ok := e.Bytes(scalar); ok {
			v.Raw = cut(raw, v.Type)
		}
	}
	if target != nil {
		v.TargetType = target.Term.Type()
		v.Target, v.Cut = f.Target(e)
		if _, object := target.Term.(*expr.Object); object {
			v.Target = cut(v.Target, v.TargetType)
		}
	}
	return v
}

// cut returns the bytes of a slot that a value of a type has.
func cut(raw []byte, t btf.Type) []byte {
	if size, err := btf.Sizeof(t); err == nil && size > 0 && size < len(raw) {
		return raw[:size]
	}
	return raw
}
