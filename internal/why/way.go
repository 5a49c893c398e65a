// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/internal/symname"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// Way runs the command once more, and returns with what the innermost function was called and
// which way it took. It returns nil if that is not to be had: of a function that is too large,
// for one.
func (r *Runner) Way(ctx context.Context, seen *Seen, chosen int, p *Place, tails *output.Tails) (*Taken, error) {
	f, last := &seen.Calls[chosen], p.Innermost().Function
	texts := []string{waySpec(last, f.Errno, last.Name != f.Function)}
	if last.Name != f.Function {
		texts = append(texts, fmt.Sprintf("%s(return == -%d)", f.Function, f.Errno))
	}
	specs, err := trace.ParseSpecs(texts)
	if err != nil {
		return nil, err
	}
	w := wayTaker{entry: f.Function, nth: seen.ordinal(chosen), tails: tails, fields: output.NewFields(output.Names{Symbol: symbols.Appender(r.Kernel)}), last: map[uint32]*Taken{}}
	_, err = r.run(ctx, true, trace.Request{Specs: specs, Options: plan.Options{Arch: r.Kernel.Arch()}}, trace.Settings{}, w.take)
	if errors.Is(err, errBlocks) {
		return nil, nil
	}
	return w.found, err
}

// waySpec is the SPEC of calls of a function that end with an error.
func waySpec(f kernel.Function, errno uint64, args bool) string {
	items := []string{}
	result := "(int)return" // of a type that is not known
	if f.Type != nil {
		proto, ok := f.Type.Type.(*btf.FuncProto)
		if ok {
			result = "(long)return"
		}
		for i := 0; ok && args && i < len(proto.Params); i++ {
			if name := proto.Params[i].Name; name != "" {
				items = append(items, name)
			}
		}
	}
	items = append(items, "path()", fmt.Sprintf("%s == -%d", result, errno))
	return f.String() + "(" + strings.Join(items, ", ") + ")"
}

// longValue is how much of an argument is shown.
const longValue = 100

// A wayTaker takes the call that belongs to the system call.
type wayTaker struct {
	entry  string
	nth    int
	tails  *output.Tails
	fields *output.Fields
	last   map[uint32]*Taken // the last call of each thread
	ended  int               // system calls that have failed so
	found  *Taken
}

func (w *wayTaker) take(p *plan.Plan, records recordSeq) error {
	for e, err := range event.All(p, records) {
		if err != nil {
			return err
		}
		if e.Kind == bpf.KindLost || w.ended > w.nth {
			continue
		}
		if e.Probe.Way != nil {
			if w.last[e.TID], err = w.of(e); err != nil {
				return err
			}
		}
		if e.Probe.Func.Name == w.entry {
			w.ended++
			if taken := w.last[e.TID]; taken != nil {
				w.found = taken
			}
			delete(w.last, e.TID)
		}
	}
	return nil
}

// of returns a call with its arguments, and the way that it took; nil if there is nothing to show
// but the result.
func (w *wayTaker) of(e *event.Event) (*Taken, error) {
	fields, err := w.fields.Of(e)
	way, ok := e.Path()
	decides := ok && len(way.Decisions) > 0
	if err != nil || !decides && len(fields) < 2 {
		return nil, err
	}
	t := &Taken{Function: string(symname.Append(nil, e.Probe.Func.Name, e.Probe.Func.Module))}
	for _, f := range fields {
		if f.IsResult() || strings.HasSuffix(f.Label(), "return") {
			continue
		}
		value := f.Append(nil, e)
		if len(value) > longValue {
			value = append(value[:longValue:longValue], "..."...)
		}
		t.Args = append(t.Args, Argument{terminal.Name(f.Label()), terminal.Name(string(value))})
	}
	if decides {
		t.setPath(w.tails.AppendPath(nil, e, &way))
	}
	return t, nil
}
