// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// What a kernel has, works as a whole; what it does not have is named as such.
func TestLiveTrials(t *testing.T) {
	guest.Require(t)
	view := kernel.OpenRunning()
	before := links(t)
	for _, trial := range Trials() {
		has, err := Supported(trial.Method, nil), trial.Run(t.Context(), view, runtime.GOARCH)
		switch {
		case has == nil && err != nil:
			t.Errorf("%s: %v", trial, err)
		case has != nil && !errors.Is(err, ebpf.ErrNotSupported):
			t.Errorf("%s: %v, want %v", trial, err, has)
		}
	}
	if after := links(t); after != before {
		t.Errorf("%d links afterwards, %d before", after, before)
	}
}
