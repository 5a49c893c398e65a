// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/ksnoop/ksnoop/internal/attach"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/terminal"
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

// sayGroups logs what befell functions: a line each where they are few, or one
// for all that share a text. what says what they are. Functions and texts are of the same length.
func sayGroups(what string, functions, texts []string, say func(function, text string)) {
	groups := map[string][]string{}
	var order []string
	for i, text := range texts {
		if groups[text] == nil {
			order = append(order, text)
		}
		groups[text] = append(groups[text], functions[i])
	}
	for _, text := range order {
		names := groups[text]
		if len(names) <= fewNames {
			for _, name := range names {
				say(name, text)
			}
			continue
		}
		say(fmt.Sprintf("%d %s (%s, ...)", len(names), what, strings.Join(names[:fewNames], ", ")), text)
	}
}

// sayLeftOut logs which functions a glob has selected in vain.
func sayLeftOut(log *slog.Logger, skipped []plan.Skipped) {
	var functions, reasons []string
	for _, s := range skipped {
		if !s.Inlined() {
			functions, reasons = append(functions, s.Func.Name), append(reasons, generalReason(s.Why, s.Func.Name))
		}
	}
	sayGroups("functions", functions, reasons, func(f, why string) { log.Info("left out", "function", f, "reason", why) })
}

// sayAttached logs what is traced and how, and what could not be.
func sayAttached(log *slog.Logger, p *plan.Plan, failed []attach.Failure) {
	bad := map[*plan.Probe]bool{}
	var functions, reasons []string
	for _, f := range failed {
		bad[f.Probe] = true
		functions, reasons = append(functions, f.Probe.Name()), append(reasons, generalReason(f.Err, f.Probe.Name()))
	}
	sayGroups("functions", functions, reasons, func(f, why string) { log.Warn("not traced", "function", f, "reason", why) })
	var names, methods []string
	for _, probe := range p.Probes {
		if !bad[probe] {
			names, methods = append(names, probe.Name()), append(methods, "attached with "+probe.Method.String())
		}
	}
	sayGroups("functions", names, methods, func(f, how string) { log.Info(how, "function", f) })
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

// generalReason is the text of an error, on one line, without the name of the
// function that it is about, so that those of several functions can be told to be
// the same. Whoever prints it names the function on that line.
func generalReason(err error, function string) string {
	text := strings.TrimSpace(reasonText(err))
	if function == "" {
		return text
	}
	var b strings.Builder
	for last := byte(' '); text != ""; {
		if rest, found := strings.CutPrefix(text, function); found && !nameByte(last) && (rest == "" || !nameByte(rest[0])) {
			b.WriteString("it")
			text, last = rest, ' '
			continue
		}
		last = text[0]
		b.WriteByte(last)
		text = text[1:]
	}
	return b.String()
}

// nameByte reports whether a character can be part of a function's name.
func nameByte(c byte) bool {
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
