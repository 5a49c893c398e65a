// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"errors"
	"testing"

	"github.com/ksnoop/ksnoop/internal/trace"
)

// TestInterrupted: after an interrupt no other run begins, nor is anything looked up for it.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &Runner{Command: []string{"/does/not/exist"}} // without a kernel to look into
	if _, err := r.run(ctx, true, trace.Request{}, trace.Settings{}, nil); !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
	if p, err := (&narrowing{runner: r}).find(ctx); p != nil || !errors.Is(err, ErrInterrupted) {
		t.Error(p, err)
	}
}
