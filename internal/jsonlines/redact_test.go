// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"runtime"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// TestRedacted: what was redacted is null for that reason, and the header has its type.
func TestRedacted(t *testing.T) {
	view := testKernel(t)
	spec, err := expr.Parse("ksys(i, u, p)")
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.Resolve(view, []*expr.Spec{spec}, plan.Options{Arch: runtime.GOARCH, Redact: []string{"u", "p"}})
	if err != nil {
		t.Fatal(err)
	}
	printer := newTestPrinter(t, view, p, false)
	header, err := printer.AppendHeader(nil)
	if err != nil {
		t.Fatal(err)
	}
	check(t, header)
	if want := `{"expr":"p","type":"struct point *","when":"entry"}`; !strings.Contains(string(header), want) {
		t.Errorf("%s is not in %s", want, header)
	}
	e := recordOf(t, p, 0, func(_ *layout.Slot, raw []byte) { raw[0] = 7 })
	got, err := printer.AppendCall(nil, &calls.Call{Return: e, End: calls.Whole})
	if err != nil {
		t.Fatal(err)
	}
	check(t, got)
	if want := `values:{"i":7,"u":null,"p":null} unreadable:{"u":"redacted","p":"redacted"}`; members(t, got, "values", "unreadable") != want {
		t.Errorf("%s", got)
	}
}
