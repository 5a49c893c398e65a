// SPDX-License-Identifier: Apache-2.0

package output

import (
	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
)

func (t *Tails) appendBranches(dst []byte, e *event.Event, s bpf.Section) []byte {
	t.branches = event.AppendBranches(t.branches[:0], s)
	return dst
}
