// SPDX-License-Identifier: Apache-2.0

package record

import (
	"testing"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/userfunc"
)

// TestPlaces: a recording says whether its records tell the place of a call. Those made before there were places are
// read as they were written.
func TestPlaces(t *testing.T) {
	for _, placed := range []bool{true, false} {
		root := fakeKernel(t)
		f := &fixture{source: Source{Root: root, View: kernel.Open(root), Arch: "amd64", Writer: "test"}}
		spec, err := expr.Parse("uprobe:../livetest/user/testdata/user_amd64:user_depth(*(int *)$arg1, return)")
		if err != nil {
			t.Fatal(err)
		}
		if f.plan, _, err = plan.Resolve(f.source.View, []*expr.Spec{spec}, plan.Options{Arch: "amd64", UserFile: userfunc.Opener("", "amd64")}); err != nil {
			t.Fatal(err)
		}
		p := f.plan.Probes[0]
		p.Placed = placed
		if err := p.Lay(); err != nil {
			t.Fatal(err)
		}
		f.records(10)
		r, raw, err := read(f.bytes(t))
		if err != nil {
			t.Fatal(err)
		}
		got := r.Plan().Probes[0]
		if got.Entry.Record.Placed != placed || got.Return.Record.Placed != placed || got.RecordSize() != p.RecordSize() {
			t.Errorf("with places, %t: %+v, %+v", placed, got.Entry.Record, got.Return.Record)
		}
		if got, want := text(t, r.Plan(), raw), text(t, f.plan, f.raw); got != want || len(raw) != 10 {
			t.Errorf("with places, %t: got\n%s\nwant\n%s", placed, got, want)
		}
	}
}
