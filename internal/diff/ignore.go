// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// usual returns globs of what is never compared, unless the user wants it: it differs between any
// two runs. They stand for names of values, or of their last members.
func usual() []string {
	return []string{"$time", "$duration", "$cpu", "$pid", "$tid", "*time*", "*jiffies*", "*stamp*", "*_ns", "pid", "tid", "tgid", "*_pid", "*_tid", "*_tgid"}
}

// Ignore says what is not compared.
type Ignore struct {
	often  []string
	values []string // globs of names
	within []string // globs of FUNC(NAME)
	calls  []string // globs of functions
}

// IsIgnore reports whether NewIgnore takes a glob.
func IsIgnore(g string) bool {
	fn, _, within := strings.Cut(g, "(")
	return fn != "" && strings.Count(g, "(") == strings.Count(g, ")") && strings.Count(g, ")") < 2 && within == strings.HasSuffix(g, ")")
}

// NewIgnore understands globs: VALUE, FUNC(VALUE), or FUNC() for whole calls. The result of a call is its
// value "return". With exact, nothing else is ignored.
func NewIgnore(globs []string, exact bool) *Ignore {
	var i Ignore
	if !exact {
		i.often = usual()
	}
	for _, g := range globs {
		switch fn, call := strings.CutSuffix(g, "()"); {
		case call:
			i.calls = append(i.calls, fn)
		case strings.HasSuffix(g, ")"):
			i.within = append(i.within, g)
		default:
			i.values = append(i.values, g)
		}
	}
	return &i
}

// call reports whether calls of a function are left out, with all that they call.
func (i *Ignore) call(fn string) bool {
	return slices.ContainsFunc(i.calls, func(g string) bool { return glob.Match(g, fn) })
}

// value reports whether a value of calls of a function is left out.
func (i *Ignore) value(fn, name string) bool {
	matches := func(g string) bool { return glob.Match(g, name) }
	if slices.ContainsFunc(i.values, matches) {
		return true
	}
	if len(i.within) > 0 {
		whole := fn + "(" + name + ")"
		if slices.ContainsFunc(i.within, func(g string) bool { return glob.Match(g, whole) }) {
			return true
		}
	}
	last := name
	if at := strings.LastIndexAny(last, ".>"); at >= 0 {
		last = last[at+1:]
	}
	return slices.ContainsFunc(i.often, func(g string) bool { return glob.Match(g, last) })
}
