// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/terminal"
	"github.com/ksnoop/ksnoop/layout"
)

// sentences is a slog.Handler that writes what a person reads, for example
// "ksnoop: tcp_v4_rcv: attached with fentry". Attributes come in this order:
// whom it is about, and why.
type sentences struct {
	w     io.Writer
	level slog.Level
}

var _ slog.Handler = sentences{}

func (s sentences) Enabled(_ context.Context, l slog.Level) bool { return l >= s.level }

// Handle writes one line for one message: only a reason can have more.
func (s sentences) Handle(_ context.Context, r slog.Record) error {
	subject, reason := "", ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "function":
			subject = a.Value.String() + ": "
		case "reason":
			reason += ": " + a.Value.String()
		default: // such as a file, whose name may have anything
			reason += ": " + terminal.Name(a.Value.String())
		}
		return true
	})
	_, err := fmt.Fprintf(s.w, "ksnoop: %s%s%s\n", terminal.Name(subject), r.Message, reason)
	return err
}

func (s sentences) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s sentences) WithGroup(string) slog.Handler      { return s }

// sayLeftOut logs which functions a glob has selected in vain.
func sayLeftOut(log *slog.Logger, skipped []plan.Skipped) {
	var remarks []remark
	for _, s := range skipped {
		if !s.Inlined() {
			remarks = append(remarks, remarkOn(s.Func.Name, s.Why))
		}
	}
	sayGroups("functions", remarks, func(f, why string) { log.Info("left out", "function", f, "reason", why) })
}

// sayRefused logs which functions globs match and the kernel lets nobody trace.
func sayRefused(log *slog.Logger, names []string) {
	var remarks []remark
	for _, name := range names {
		remarks = append(remarks, notOpen(name))
	}
	sayGroups("functions", remarks, func(f, why string) { log.Info("left out", "function", f, "reason", why) })
}

// awaiting says what a plan may not see if fprobes wait for its returns, "" if none do:
// docs/losses.md has the figures.
func awaiting(p *plan.Plan) string {
	for _, m := range []layout.Method{layout.MethodKprobeSession, layout.MethodKprobeMulti} {
		if slices.ContainsFunc(p.Probes, func(p *plan.Probe) bool { return p.Method == m && p.Return != nil }) {
			return fmt.Sprintf("with %s the kernel waits for a limited number of returns at once: calls of functions that sleep or call themselves may go unseen. --attach=fentry has no such limit", m)
		}
	}
	return ""
}

func sayAwaiting(log *slog.Logger, p *plan.Plan) {
	if text := awaiting(p); text != "" {
		log.Info(text)
	}
}

// sayAttached logs what is traced and how, and what could not be.
func sayAttached(log *slog.Logger, p *plan.Plan, failed []attach.Failure) {
	bad := map[*plan.Probe]bool{}
	var remarks []remark
	for _, f := range failed {
		bad[f.Probe] = true
		remarks = append(remarks, remarkOn(f.Probe.Name, f.Err).about(f.Probe))
	}
	sayGroups("functions", remarks, func(f, why string) { log.Warn("not traced", "function", f, "reason", why) })
	remarks = nil
	for _, probe := range p.Probes {
		if !bad[probe] {
			remarks = append(remarks, remark{name: probe.Name, text: "attached with " + probe.Method.String()})
		}
	}
	sayGroups("functions", remarks, func(f, how string) { log.Info(how, "function", f) })
}

// sayPassed logs, for --debug, which methods would be better and why they are not
// used.
func sayPassed(log *slog.Logger, c attach.Choice) {
	for _, why := range passedTexts(c) {
		log.Debug("passed over " + why)
	}
}

// slowKprobes are so many kprobes that users are told that they take long: 1,652 took 20 s to attach and 80 s to detach in a guest.
const slowKprobes = 1000

// sayKprobes says that so many functions take long, where they are attached by kprobes.
func sayKprobes(log *slog.Logger, p *plan.Plan, c attach.Choice) {
	n := 0
	for _, probe := range p.Probes {
		if probe.Method == layout.MethodKprobe && probe.IsCall() {
			n++
		}
	}
	if n < slowKprobes {
		return
	}
	why := ""
	if len(c.Passed) > 0 {
		why = "; --debug tells why no better method is used"
	}
	log.Warn(fmt.Sprintf("it takes a while to attach %d functions by kprobes, and longer to take them off at the end%s", n, why))
}

// passedTexts are the reasons, each on one line.
func passedTexts(c attach.Choice) []string {
	var texts []string
	for _, err := range c.Passed {
		texts = append(texts, reasonText(err))
	}
	return texts
}
