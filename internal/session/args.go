// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// values decodes what was captured of a call of fn.
func (d *Decoder) values(v *Values, fn *plan.Probe, e bpf.Logged) error {
	if e.Kind != bpf.LogArgs {
		if len(e.Data) < bpf.ItemHead {
			return fmt.Errorf("decoding a record: values of %s have %d bytes", fn.Func.Name, len(e.Data))
		}
		v.Event = &event.Event{}
		if err := event.Decode(d.Plan, e.Data[bpf.ItemHead:], v.Event); err != nil {
			return err
		}
		if v.Event.Probe != fn {
			return fmt.Errorf("decoding a record: a call of %s has values that are not its own", fn.Name)
		}
		return nil
	}
	return decodeArgs(v, fn, e.Data)
}

// Unavailable says why no program could read the argument. It is empty if one can.
func (a *Arg) Unavailable() string {
	switch p := a.Param; {
	case p.Why != "":
		return strings.TrimPrefix(p.Why, "is ")
	case p.Absent:
		return "optimised out"
	case p.Lost != 0:
		return "partly passed in floating-point registers"
	}
	return ""
}

// decodeArgs decodes the arguments of a call: first the words in which they were passed,
// then what some point to.
func decodeArgs(v *Values, fn *plan.Probe, data []byte) error {
	words := 8 * layout.ArgWords(fn.Args)
	if len(data) < words {
		return fmt.Errorf("decoding a record: arguments of %s have %d bytes", fn.Func.Name, len(data))
	}
	v.Args = nil
	var targets []int // indexes of arguments with a target
	for i, a := range fn.Args {
		arg := Arg{Param: a.Param, Withheld: a.Withheld, Beyond: a.Words == 0 && !a.Param.Absent && a.Param.Lost == 0 && !a.Withheld}
		if a.Words > 0 && !a.Ref && !a.Withheld {
			arg.Value = data[8*a.Word : 8*(a.Word+a.Words)]
		}
		if a.Target != nil {
			targets = append(targets, i)
		}
		v.Args = append(v.Args, arg)
	}
	for b := data[words:]; len(b) > 0; {
		t, rest, err := bpf.DecodeTarget(b)
		if err == nil && t.Index >= len(targets) {
			err = fmt.Errorf("target %d of %d", t.Index, len(targets))
		}
		if err != nil {
			return fmt.Errorf("decoding a record: arguments of %s: %w", fn.Func.Name, err)
		}
		b = rest
		a, arg := &fn.Args[targets[t.Index]], &v.Args[targets[t.Index]]
		switch {
		case a.Ref && !t.Fault:
			arg.Value = t.Data
		case a.Ref:
			arg.Value = nil
		case !t.Fault:
			arg.Target, arg.TargetType, arg.Text = t.Data, a.Target, a.Text
			arg.Cut = a.Cut(len(t.Data))
			if a.Text {
				arg.Target = bytes.TrimRight(arg.Target, "\x00")
			}
			if a.Text && arg.Cut && len(arg.Target) > 0 {
				arg.Target = arg.Target[:len(arg.Target)-1] // the extra byte only tells that the string goes on
			}
		}
	}
	return nil
}
