// SPDX-License-Identifier: Apache-2.0

package expr

// An Item is a checked item of a SPEC: a predicate with the values it compares, a capture, or
// an aggregation.
type Item struct {
	Pos Span
	// Predicate is a scalar term that must not be 0. It is nil for a capture.
	Predicate Term
	// Phase says when the predicate can be decided, or the call be added up. It is AtEntry for a
	// capture.
	Phase Phase
	// Captures are the values that the item shows, in the order of the text. None are shown beside
	// an aggregation.
	Captures []Capture
	// Path is set for path(), which shows the way that a call has taken. It has no captures.
	Path bool
	// Aggregation is set for an item that adds calls up. It has neither Predicate nor Captures.
	Aggregation *Aggregation
}

// Withhold has the captures and the keys not captured whose labels hide names. They keep the moment
// at which they would have been read. What predicates compare is not shown then, and decides as
// before. A hidden value cannot be added up: that is a fault of the SPEC, in an *ErrorList.
func Withhold(spec *Spec, items []Item, hide func(label string) bool) error {
	var faults []*Error
	for i := range items {
		withhold(items[i].Captures, hide)
		g := items[i].Aggregation
		if g == nil {
			continue
		}
		withhold(g.Keys, hide)
		if g.Value != nil && (hide(g.Of) || hide(g.Label)) {
			faults = append(faults, &Error{CodeUnsupported, items[i].Pos, g.Of + " is hidden, and so cannot be added up", ""})
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return &ErrorList{spec.Text, faults}
}

func withhold(captures []Capture, hide func(label string) bool) {
	for i := range captures {
		if c := &captures[i]; hide(c.Label) {
			*c = c.withheld()
		}
	}
}
