// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/kernel"
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
		if a.Key == "function" {
			subject = a.Value.String() + ": "
		} else {
			reason += ": " + a.Value.String()
		}
		return true
	})
	_, err := fmt.Fprintf(s.w, "ksnoop: %s%s%s\n", terminal.Name(subject), r.Message, reason)
	return err
}

func (s sentences) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s sentences) WithGroup(string) slog.Handler      { return s }

// fewNames is how many functions are named one by one.
const fewNames = 4

// A remark is what is to be said of one function.
type remark struct {
	name, text string
	items      string // what a SPEC asks of it, where it is about that SPEC
}

// subject is what the remark is about.
func (r remark) subject() string { return r.name + r.items }

// maxItems is how much of a SPEC's items a remark quotes, in bytes.
const maxItems = 60

// about says that a remark is about the SPEC of a probe.
func (r remark) about(p *plan.Probe) remark {
	if p.Spec == nil || !p.Spec.Parens {
		return r
	}
	r.items = itemsText(p.Spec)
	if len(r.items) > maxItems {
		r.items = strings.ToValidUTF8(r.items[:maxItems], "") + "..."
	}
	return r
}

// remarkOn returns the reason for what befell a function, on one line.
func remarkOn(name string, why error) remark {
	return remark{name: name, text: strings.TrimSpace(reasonText(why))}
}

// grouped brings remarks together that say the same, each of its own function.
func grouped(remarks []remark) (groups [][]remark) {
	index := map[string]int{}
	for _, r := range remarks {
		key := r.impersonal()
		i, known := index[key]
		if !known {
			i = len(groups)
			index[key], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// sharedText is what a group of remarks says.
func sharedText(group []remark) string {
	if first := group[0]; len(group) > 1 && first.impersonal() != first.text {
		return "for example, " + first.text
	}
	return group[0].text
}

// impersonal is the text with a NUL where the name of the function is.
func (r remark) impersonal() string {
	if r.name == "" {
		return r.text
	}
	var b strings.Builder
	for last, text := byte(' '), r.text; text != ""; {
		if rest, found := strings.CutPrefix(text, r.name); found && !nameByte(last) && (rest == "" || !nameByte(rest[0])) {
			b.WriteByte(0)
			text, last = rest, ' '
			continue
		}
		last = text[0]
		b.WriteByte(last)
		text = text[1:]
	}
	return b.String()
}

// sayGroups logs remarks: each by itself, or one for all that say the same where
// these are many. what says what they are about.
func sayGroups(what string, remarks []remark, say func(function, text string)) {
	for _, group := range grouped(remarks) {
		if len(group) <= fewNames {
			for _, r := range group {
				say(r.subject(), r.text)
			}
			continue
		}
		names := make([]string, fewNames)
		for i := range names {
			names[i] = group[i].name
		}
		say(fmt.Sprintf("%d %s (%s, ...)", len(group), what, strings.Join(names, ", ")), sharedText(group))
	}
}

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

// notOpen is what is to be said of a function that the kernel lets nobody trace.
func notOpen(name string) remark {
	return remark{name: name, text: "not open to tracing (" + kernel.RefusedBecause + ")"}
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

// passedTexts are the reasons, each on one line.
func passedTexts(c attach.Choice) []string {
	var texts []string
	for _, err := range c.Passed {
		texts = append(texts, reasonText(err))
	}
	return texts
}

// nameByte reports whether a character can be part of a function's name.
func nameByte(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
