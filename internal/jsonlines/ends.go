// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"slices"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/btfprint"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// schemaVersion is the version of what is printed. It changes when a reader of older lines would
// misread newer ones; new members do not change it.
const schemaVersion = 1

// AppendHeader appends the first line.
func (p *Printer) AppendHeader(dst []byte) ([]byte, error) {
	dst = p.openLine(dst, "header")
	dst = appendUint(dst, "schema", schemaVersion)
	dst = appendText(dst, "writer", p.run.Writer)
	if release, err := p.run.Kernel.Release(); err == nil { // a fake kernel of a test has none
		dst = appendText(dst, "kernel", release)
	}
	dst = appendText(appendText(dst, "arch", p.run.Arch), "host", p.run.Host)
	if p.run.BootID != "" {
		dst = appendText(dst, "boot_id", p.run.BootID)
	}
	if p.clock.boot != 0 {
		dst = append(p.run.Boot.UTC().AppendFormat(append(appendKey(dst, "boot"), '"'), time.RFC3339Nano), '"')
	}
	dst = appendList(append(appendKey(dst, "request"), '{'), "specs", specs(p.run.Plan))
	dst = append(appendList(dst, "options", p.run.Options), '}')
	dst = append(appendKey(dst, "functions"), '[')
	for i, probe := range p.run.Plan.Probes {
		dst = appendProbe(appendComma(dst), probe, i)
	}
	return append(dst, "]}\n"...), nil
}

func appendList(dst []byte, key string, texts []string) []byte {
	dst = append(appendKey(dst, key), '[')
	for _, s := range texts {
		dst = appendString(appendComma(dst), s)
	}
	return append(dst, ']')
}

// appendProbe appends what is the same for all calls of a function.
func appendProbe(dst []byte, p *plan.Probe, id int) []byte {
	dst = appendText(appendUint(append(dst, '{'), "id", uint64(id)), "name", p.Name)
	if _, module := p.Named(); module != "" {
		dst = appendText(dst, "module", module)
	}
	dst = appendText(dst, "method", p.Method.String())
	if p.Spec != nil {
		dst = appendText(dst, "spec", p.Spec.Text)
	}
	dst = append(appendKey(dst, "values"), '[')
	seen := map[string]bool{}
	for _, half := range [...]*layout.Half{p.Entry, p.Return} {
		if half == nil || half.Record == nil {
			continue
		}
		for i := range half.Record.Slots {
			slot := &half.Record.Slots[i]
			if slot.Capture < 0 {
				continue
			}
			if c := &p.Items[slot.Item].Captures[slot.Capture]; !seen[c.Label] {
				seen[c.Label] = true
				dst = appendCapture(appendComma(dst), c)
			}
		}
	}
	dst = append(dst, ']')
	if len(p.Args) > 0 {
		dst = append(appendKey(dst, "args"), '[')
		for i := range p.Args {
			param := p.Args[i].Param
			dst = appendText(append(appendComma(dst), '{'), "name", paramName(param, i))
			dst = append(appendType(dst, "type", param.Type), '}')
		}
		dst = append(dst, ']')
	}
	if p.Result != nil {
		dst = appendType(dst, "result", p.Result)
	}
	return append(dst, '}')
}

// appendCapture appends what is the same for all values of an expression. Its label may have
// been given by a recording.
func appendCapture(dst []byte, c *expr.Capture) []byte {
	term, when := c.Value, "entry"
	if term == nil {
		term = c.Target
	}
	if c.Phase() == expr.AtReturn || c.After != nil {
		when = "return"
	}
	dst = appendText(append(dst, '{'), "expr", c.Label)
	of := c.Withheld
	if of == nil {
		of = term.Type()
	}
	return append(appendText(appendType(dst, "type", of), "when", when), '}')
}

func appendType(dst []byte, key string, t btf.Type) []byte {
	return appendText(dst, key, btfprint.AppendTypeName(nil, t))
}

// causes are the names of the counters.
var causes = [bpf.Counters]string{
	bpf.LostRingbuf: "ringbuf", bpf.LostDepth: "depth", bpf.LostStash: "stash", bpf.LostFamily: "family", bpf.Fault: "fault",
	bpf.LostScratch: "scratch", bpf.LostBranches: "branches", bpf.LostValues: "values", bpf.LostReturn: "return",
	bpf.LostRecursion: "recursion", bpf.RateLimited: "rate", bpf.Unreadable: "unreadable", bpf.Truncated: "truncated",
	bpf.Missed: "missed", bpf.LostSession: "session", bpf.LostNMI: "nmi", bpf.PausedTime: "paused_ms", bpf.MissedReturn: "missed_return",
	bpf.LeftFine: "left_fine", bpf.LeftError: "left_error", bpf.LeftShort: "left_short", bpf.LeftUnmet: "left_unmet", bpf.LostChain: "chain", bpf.Overwritten: "overwritten",
	bpf.LostKey: "key", bpf.LostRow: "row", bpf.LostKeptStack: "kept_stack", bpf.LostPath: "path",
	bpf.ShortStack: "short_stack", bpf.LostInner: "inner", bpf.UnseenReturn: "unseen_return", bpf.MissedTask: "missed_task",
	bpf.UnseenCode: "unseen_code", bpf.SwitchedOff: "switched_off",
}

// AppendLoss appends that records are missing.
func (p *Printer) AppendLoss(dst []byte, l event.Loss) []byte {
	dst = p.open(dst, "loss")
	if l.Time != 0 {
		dst = appendUint(p.clock.appendTime(dst, l.Time), "cpu", uint64(l.CPU))
	}
	dst = appendText(appendText(dst, "cause", causes[l.Cause]), "text", output.LossText(l.Cause))
	return append(appendUint(dst, "count", l.Count), "}\n"...)
}

// appendWarning appends what a reader should know of the events above.
func (p *Printer) appendWarning(dst []byte, n uint64, text string) []byte {
	if n == 0 {
		return dst
	}
	return append(appendUint(appendText(p.open(dst, "warning"), "text", text), "count", n), "}\n"...)
}

// AppendEnd appends the last line, after warnings of what the events lack.
func (p *Printer) AppendEnd(dst []byte, t *output.Totals) ([]byte, error) {
	dst = p.appendWarning(dst, t.Evicted, "calls without their return because too many were open, or records were lost meanwhile")
	dst = p.appendWarning(dst, t.Cut, "records left out because there were too many after the interrupt")
	dst = p.appendWarning(dst, t.Orphans, "sessions given up: their ends were lost, or their parts took too much memory")
	dst = p.appendWarning(dst, t.Left, "calls and interim stacks left out of sessions that took too much memory")
	if t.Uncounted {
		dst = p.appendWarning(dst, 1, "this kernel does not count all kprobes that it skips")
	}
	dst = appendUint(p.open(dst, "end"), "records", t.Records)
	dst = append(appendKey(dst, "losses"), '{')
	if t.Unread == nil {
		for cause, n := range t.Lost {
			dst = appendUint(dst, causes[cause], n)
		}
	}
	dst = append(dst, '}')
	if t.Failed != nil {
		dst = appendText(dst, "error", t.Failed.Error())
	}
	return append(dst, "}\n"...), nil
}

// specs returns the texts of the SPECs, each once.
func specs(p *plan.Plan) (texts []string) {
	seen := map[string]bool{}
	for _, probe := range p.Probes {
		if probe.Spec != nil && !seen[probe.Spec.Text] {
			seen[probe.Spec.Text] = true
			texts = append(texts, probe.Spec.Text)
		}
	}
	return slices.Clip(texts)
}
