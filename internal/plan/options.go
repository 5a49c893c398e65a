// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/glob"
	"github.com/ksnoop/ksnoop/internal/userfunc"
	"github.com/ksnoop/ksnoop/layout"
)

// A UserFile opens a program or library of user space by the name that a SPEC has.
type UserFile func(name string) (*userfunc.File, error)

// Options are the parts of a request other than SPECs.
type Options struct {
	// Deny removes functions from what globs select. It is a fault if there are some, and none matches
	// a function of the kernel.
	Deny []expr.Selector
	// Sources finds functions by source file. It is nil without debug info.
	Sources Sources
	// Inlined names a function into which a function without code of its own was inlined,
	// or returns "". It is nil without debug info.
	Inlined func(name string) string
	// Inlinings finds inlined copies of functions, to be traced too. It is nil if they are
	// not wanted.
	Inlinings Inlinings
	// UserFile opens programs and libraries. It is nil where none are to be looked at.
	UserFile UserFile
	// Listed says that functions are only to be listed, so that any number will do.
	Listed bool
	// unexplained keeps the reason why a name is unknown out of the error: finding it takes
	// long.
	unexplained bool
	// Described takes a function that is named in full from BTF alone, without its address:
	// reading all symbols takes long.
	Described bool
	// Arch is the kernel's architecture, as in GOARCH.
	Arch string
	// Method chooses how to attach to a function. Nil means layout.MethodFentry if the
	// function's signature allows it, else layout.MethodKprobe.
	Method func(*Probe) layout.Method
	// Warn receives warnings: requests that are possible but hardly meant. May be nil.
	Warn func(error)
	// Untyped receives why functions of a file have no types; nil: that is a warning, if it is more than a lack of debug info.
	Untyped func(file string, err error)
	// unplaced keeps the place of a call out of its records: see layout.Probe.Placed.
	unplaced bool
	// Paired makes the return of a call be sent exactly if its entry was sent. It is needed
	// where a filter may decide differently at return.
	Paired bool
	// Redact are globs over the labels of captured values, and over the names of arguments:
	// what they match is not captured.
	Redact []string
	// Owner is what events are to have of their task, if Redact does not match it.
	Owner layout.Owner

	denied func() (*denials, error) // built from Deny once for all SPECs; may be nil
}

// untyped says why functions of a file have no types, if that is more than a lack of debug info.
func (o *Options) untyped(file string, err error) {
	if o.Untyped != nil {
		o.Untyped(file, err)
		return
	}
	if !errors.Is(err, userfunc.ErrNoTypes) {
		o.warn("functions are traced without their types", fmt.Errorf("  %s: %w", file, err))
	}
}

// redacts reports whether what has this label is not to be captured. Containers are known by cgroups, so who leaves
// out one of them leaves out both.
func (o *Options) redacts(label string) bool {
	matches := func(label string) bool {
		return slices.ContainsFunc(o.Redact, func(pattern string) bool { return glob.Match(pattern, label) })
	}
	if slices.Contains(groupLabels, label) {
		return slices.ContainsFunc(groupLabels, matches)
	}
	return matches(label)
}

// groupLabels are the expressions that have the ID of a cgroup. It is never changed.
var groupLabels = []string{"$cgroup", "$container", "$pod"}

// ownerLabels are the expressions that have the same as an owner.
var ownerLabels = [...]struct {
	part  layout.Owner
	label string
}{{layout.OwnerUID, "$uid"}, {layout.OwnerCgroup, groupLabels[0]}, {layout.OwnerCgroup, groupLabels[1]}, {layout.OwnerCgroup, groupLabels[2]}}

// owner returns what of Owner is not redacted.
func (o *Options) owner() layout.Owner {
	owner := o.Owner
	for _, of := range ownerLabels {
		if o.redacts(of.label) {
			owner &^= of.part
		}
	}
	return owner
}

// Withholds reports whether a glob of Options.Redact matches anything that the plan would
// have captured.
func (p *Plan) Withholds(pattern string) bool {
	for label := range p.Labels() {
		if glob.Match(pattern, label) {
			return true
		}
	}
	return false
}

// Labels yields the labels of all values that the plan captures, or would if they were not
// withheld, and the names of all arguments. A label may come several times.
func (p *Plan) Labels() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, of := range ownerLabels {
			if p.asked&of.part != 0 && !yield(of.label) {
				return
			}
		}
		for _, probe := range p.Probes {
			for _, it := range probe.Items {
				captures := it.Captures
				if it.Aggregation != nil {
					captures = it.Aggregation.Keys
				}
				for i := range captures {
					if !yield(captures[i].Label) {
						return
					}
				}
			}
			for i := range probe.Args {
				if !yield(probe.Args[i].Param.Name) {
					return
				}
			}
		}
	}
}
