// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/layout"
)

// TestPath: a call with path() is one record, by kprobes, whatever else is asked for; its entry has
// a program, since the way begins there.
func TestPath(t *testing.T) {
	view := testView(t)
	for _, text := range []string{"send(path())", "send(path(), count)", "send(count == 1, path())", "send(path(), return < 0)"} {
		spec, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := Resolve(view, []*expr.Spec{spec}, Options{Arch: "amd64", Method: func(*Probe) layout.Method { return layout.MethodFentry }})
		if err != nil {
			t.Fatal(err)
		}
		if p, err = p.With(func(*Probe) layout.Method { return layout.MethodFsession }); err != nil {
			t.Fatal(err)
		}
		probe := p.Probes[0]
		if !p.Paths() || probe.Method != layout.MethodKprobe || !probe.Joined || !probe.Stashed || probe.Entry == nil || probe.Entry.Record != nil || probe.Return == nil || probe.Return.Record == nil {
			t.Errorf("%s: %+v", text, probe.Probe)
		}
	}
}

func TestPathFaults(t *testing.T) {
	view := testView(t)
	for _, tt := range []struct {
		specs  string
		redact []string
		want   string
	}{
		{"send(path() > 1)", nil, "it has no value"},
		{"send(path() + 1)", nil, "it has no value"},
		{"send(path(count))", nil, "path() takes no arguments, not 1"},
		{"send(path(), path())", nil, "stands here twice"},
		{"send(path(), count())", nil, "shows no values of single calls"},
		{"send(count()[path()])", nil, "it has no value"},
		{"kprobe:send+0x4(path())", nil, "does not see"},
		{"send(path()) send(path(), count)", nil, "it is asked for by two SPECs"},
		{"send(path())", []string{"nothing"}, "is to be redacted"},
	} {
		var specs []*expr.Spec
		for _, text := range strings.Split(strings.ReplaceAll(tt.specs, ") send", ")\nsend"), "\n") {
			spec, err := expr.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			specs = append(specs, spec)
		}
		_, _, err := Resolve(view, specs, Options{Arch: "amd64", Redact: tt.redact})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.specs, err, tt.want)
		}
	}
	spec, err := expr.Parse("send(path())")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ResolveSession(view, SessionRequest{Entry: []*expr.Spec{spec}}, Options{Arch: "amd64"}); err == nil || !strings.Contains(err.Error(), "sessions cannot show it yet") {
		t.Errorf("sessions: %v", err)
	}
}
