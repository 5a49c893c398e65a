// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/terminal"
)

// TestRedrawAnywhere: what is no terminal has no size.
func TestRedrawAnywhere(t *testing.T) {
	var out strings.Builder
	w := terminal.NewWriter(&out)
	if err := w.Redraw([]byte("x\n")); err != nil || out.String() != "\x1b[H\x1b[Kx\r\n\x1b[J" {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	if err := w.Clear(); err != nil || out.String() != "\x1b[H\x1b[J" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
