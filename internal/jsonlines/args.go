// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"cmp"
	"strconv"

	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/layout"
)

// An argument says how an argument of -A is written.
type argument struct {
	key    string
	scalar scalar
	object *btfprint.Printer // of what it points to; nil until that could be read
}

// paramName returns the name of parameter i, counted from 0: arg1, arg2, ... if it has none.
func paramName(p *layout.Param, i int) string {
	if p.Name == "" {
		return "arg" + strconv.Itoa(i+1)
	}
	return p.Name
}

// argument returns how argument i is written.
func (r *records) argument(a *session.Arg, i int) (*argument, error) {
	if known := r.args[a.Param]; known != nil {
		return known, nil
	}
	made := &argument{key: string(appendContents(nil, paramName(a.Param, i)))}
	var err error
	if made.scalar, err = r.scalar(a.Param.Type, 0); err != nil {
		return nil, err
	}
	r.args[a.Param] = made
	return made, nil
}

// Why an argument has no value; an expression has its own reasons.
const (
	beyond     = "beyond what -A captures"
	unreadable = "unreadable memory"
)

// appendArgs appends the arguments of a call.
func (r *records) appendArgs(dst []byte, args []session.Arg) ([]byte, error) {
	for i := range args {
		a := &args[i]
		how, err := r.argument(a, i)
		if err != nil {
			return dst, err
		}
		dst = appendKey(dst, how.key)
		switch {
		case a.Withheld:
			dst = append(dst, "null"...)
			r.missing = append(r.missing, gap{how.key, redacted})
		case a.Beyond:
			dst = append(dst, "null"...)
			r.missing = append(r.missing, gap{how.key, beyond})
		case a.Value == nil:
			dst = append(dst, "null"...)
			r.missing = append(r.missing, gap{how.key, cmp.Or(a.Unavailable(), unreadable)})
		case how.scalar.form != formPointer:
			dst = r.appendScalar(dst, &how.scalar, a.Value)
		default:
			if dst, err = r.appendPointed(dst, how, a); err != nil {
				return dst, err
			}
		}
	}
	return dst, nil
}

// appendPointed appends a pointer, with what it points to if that was captured.
func (r *records) appendPointed(dst []byte, how *argument, a *session.Arg) (_ []byte, err error) {
	dst = r.openPointer(dst, how.scalar.number(a.Value), true)
	if a.Target == nil {
		return append(dst, '}'), nil
	}
	dst = append(dst, `,"value":`...)
	if a.Text {
		dst = appendString(dst, a.Target)
		if a.Cut {
			r.short = append(r.short, gap{key: how.key})
		}
		return append(dst, '}'), nil
	}
	if how.object == nil {
		if how.object, err = r.printers.Of(a.TargetType); err != nil {
			return dst, err
		}
	}
	return append(how.object.AppendJSON(dst, a.Target, &r.options), '}'), nil
}
