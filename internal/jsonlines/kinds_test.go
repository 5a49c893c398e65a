// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
)

// TestKinds: each kind of record of a call has a name, and no other has. A mark of losses is no call.
func TestKinds(t *testing.T) {
	for kind := bpf.KindEntry; kind < bpf.KindLost; kind++ {
		if kinds[kind] == "" {
			t.Errorf("records of kind %d have no name", kind)
		}
	}
	if len(kinds) != int(bpf.KindLost-bpf.KindEntry) {
		t.Errorf("%d names: %v", len(kinds), kinds)
	}
}
