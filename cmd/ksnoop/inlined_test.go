// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

func TestInlinedNotices(t *testing.T) {
	into := func(callers ...string) (places []debuginfo.Inlining) {
		for _, c := range callers {
			places = append(places, debuginfo.Inlining{Caller: c})
		}
		return places
	}
	funcs := []kernel.Function{{Name: "a"}, {Name: "b", Module: "m"}, {Name: "c"}, {Name: "d"}, {Name: "e"}}
	for _, test := range []struct {
		places [][]debuginfo.Inlining
		want   []string
	}{
		{[][]debuginfo.Inlining{nil, nil}, nil},
		{[][]debuginfo.Inlining{into("x"), into("x", "y", "x")}, []string{
			"a is inlined into x: calls from there are not seen",
			"b[m] is inlined into x and y: calls from there are not seen"}},
		{[][]debuginfo.Inlining{nil, nil, into("v", "w", "x", "y", "z")}, []string{
			"c is inlined into v, w, x and 2 more: calls from there are not seen"}},
		{[][]debuginfo.Inlining{into("x"), into("x"), into("x"), nil, into("x")}, []string{
			"4 of the 5 functions are inlined somewhere: calls from there are not seen; ksnoop info -v lists them"}},
	} {
		if diff := cmp.Diff(test.want, inlinedNotices(funcs, test.places)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestPlacesOfKernel finds inlined calls in a kernel and in its module, whose
// functions have the same names.
func TestPlacesOfKernel(t *testing.T) {
	info, err := symbols.OpenDebugInfo(fakeKernel(t), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	funcs := []kernel.Function{{Name: "send"}, {Name: "send", Module: "m"}, {Name: "push", Module: "m"}, {Name: "nothing"}}
	s := sourcePlaces{info, funcs, info.Definitions(funcs), info.Inlined(funcs, false)}
	defer info.Close()
	var got []string
	for i := range funcs {
		for line := range strings.Lines(string(s.append(nil, i))) {
			// The offset is the compiler's choice.
			begin, end, _ := strings.Cut(strings.TrimSpace(line), "+0x")
			got = append(got, begin+strings.TrimLeft(end, "0123456789abcdef"))
		}
	}
	want := []string{
		"defined at three.c:44", "inlined into push at three.c:52:10",
		"defined at three.c:44", "inlined into push [m] at three.c:52:10",
		"defined at three.c:49",
	}
	if !slices.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

func TestAppendParams(t *testing.T) {
	at := func(name string, ops ...debuginfo.Op) debuginfo.Param {
		return debuginfo.Param{Name: name, Place: debuginfo.Place{Ops: ops}}
	}
	known := debuginfo.Op{Code: debuginfo.OpConst}
	for want, params := range map[string][]debuginfo.Param{
		"f":                        nil,
		"f, with a, b":             {at("a", known), at("b", known)},
		"f, without a":             {at("a")},
		"f, with $arg2, without a": {at("a"), at("", known)},
		"f, with b, without a, c":  {at("a"), at("b", known), at("c")},
	} {
		if got := string(appendParams([]byte("f"), params)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestForInlining tells faults of inlined calls only from those that the function
// itself has as well.
func TestForInlining(t *testing.T) {
	fault := func(code expr.Code) error {
		return &expr.ErrorList{Text: "f(x)", Errors: []*expr.Error{{Code: code, Span: expr.Span{Start: 2, End: 3}, Msg: "a fault", Hint: "mend it"}}}
	}
	for code, want := range map[expr.Code]bool{expr.CodeAbsent: true, expr.CodeNoReturn: true, expr.CodeUnknownName: false, expr.CodeType: false} {
		if got := forInlining(fault(code)); got != want {
			t.Errorf("%s: %v", code, got)
		}
	}
	if !forInlining(errors.New("too large")) {
		t.Error("an error that is no fault of the text is not said")
	}
	if got, want := faultText(fault(expr.CodeType)), "column 3: a fault; mend it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
