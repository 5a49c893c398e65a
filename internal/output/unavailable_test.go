// SPDX-License-Identifier: Apache-2.0

package output

import (
	"testing"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/layout"
)

// TestUnavailableArguments: of an argument that no program can read the reason is told: it is not memory that could
// not be read.
func TestUnavailableArguments(t *testing.T) {
	for _, tt := range []struct {
		param expr.Param
		want  string
	}{
		{expr.Param{Absent: true, Why: "is passed in floating-point registers"}, "? (passed in floating-point registers)"},
		{expr.Param{Absent: true, Why: "may be passed anywhere"}, "? (may be passed anywhere)"},
		{expr.Param{Absent: true}, "? (optimised out)"},
		{expr.Param{Lost: 2}, "? (partly passed in floating-point registers)"},
		{expr.Param{}, "? (unreadable)"},
	} {
		got, err := new(valuePrinter).appendArg(nil, &session.Arg{Param: &layout.Param{Param: tt.param}})
		if err != nil || string(got) != tt.want {
			t.Errorf("%+v is shown as %s, %v; want %s", tt.param, got, err, tt.want)
		}
	}
}
