// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"iter"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
)

// Each yields a Call for each event as it comes: of a call with two records, each half is
// one of its own. A Call is valid until the next one is asked for.
func Each(events iter.Seq2[*event.Event, error]) iter.Seq2[*Call, error] {
	return func(yield func(*Call, error) bool) {
		var call Call
		for e, err := range events {
			call = Call{Return: e, End: Whole}
			if err == nil && e.Kind == bpf.KindLost {
				call.End = Gap
			}
			if !yield(&call, err) {
				return
			}
		}
	}
}
