// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ksnoop/ksnoop/internal/show"
)

// An expectFlag is --expect: how many calls or sessions there are to be.
type expectFlag struct {
	text string // "" if it is not given
	op   string // "==" and the like
	n    uint64
}

const expectUsage = "end with status 3 unless there were so many calls or sessions, as `N`, 0 or '>0'"

// comparisons of --expect; what begins with another one comes first.
var comparisons = [...]string{"==", "!=", "<=", ">=", "=", "<", ">"}

func (f *expectFlag) String() string { return f.text }
func (f *expectFlag) Type() string   { return "string" }

func (f *expectFlag) Set(text string) error {
	number := strings.TrimSpace(text)
	f.op = "=="
	for _, op := range comparisons {
		if rest, ok := strings.CutPrefix(number, op); ok {
			number, f.op = strings.TrimSpace(rest), op
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil {
		return errors.New("write a number, or a comparison with one: 3, 0, '>0', '<=10', '!=1'")
	}
	f.text, f.n = text, n
	return nil
}

// meets reports whether a number is one that is expected.
func (f *expectFlag) meets(n uint64) bool {
	switch f.op {
	case "!=":
		return n != f.n
	case "<":
		return n < f.n
	case "<=":
		return n <= f.n
	case ">":
		return n > f.n
	case ">=":
		return n >= f.n
	}
	return n == f.n
}

// An unmetError says that an expectation was not met.
type unmetError struct{ error }

// check returns an unmetError if there were other calls than expected, or if it cannot be
// told since some were not seen, or undecided.
func (f *expectFlag) check(t *show.Tally, undecided uint64) error {
	if f.text == "" {
		return nil
	}
	least, unseen := t.Calls, min(t.Unseen()+undecided, show.Unknown)
	most := least + unseen
	// Between least and most the answer changes at the number that is compared with, if at all.
	same := true
	for _, n := range [...]uint64{most, f.n - 1, f.n, f.n + 1} {
		if least <= n && n <= most {
			same = same && f.meets(n) == f.meets(least)
		}
	}
	switch {
	case !same && unseen == show.Unknown:
		return unmetError{fmt.Errorf("--expect %s: there were %d, and an unknown number was not seen", f.text, least)}
	case !same:
		return unmetError{fmt.Errorf("--expect %s: there were %d, and up to %d were not seen", f.text, least, unseen)}
	case !f.meets(least):
		return unmetError{fmt.Errorf("--expect %s: there were %d", f.text, least)}
	}
	return nil
}
