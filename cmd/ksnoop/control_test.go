// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/show"
	"github.com/ksnoop/ksnoop/internal/symbols"
)

// TestOrphans: a thread whose next session begins has lost the end of the one
// before, of which a part had come. That is said at the end, and not otherwise.
func TestOrphans(t *testing.T) {
	file, err := os.Open(typesFile(t))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	k, err := kernel.OpenBTF(file, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := expr.Parse("vfs_read")
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := plan.ResolveSession(k, plan.SessionRequest{Entry: []*expr.Spec{spec}}, plan.Options{Arch: hostArch})
	if err != nil {
		t.Fatal(err)
	}
	part := bpf.SessionHeader{Kind: bpf.SessionChunk, PID: 1, TID: 1, Start: 100}
	end := bpf.SessionHeader{Kind: bpf.SessionDrop, PID: 1, TID: 1, Start: 100}
	next := bpf.SessionHeader{Kind: bpf.SessionDrop, PID: 1, TID: 1, Start: 200}
	for _, c := range []struct {
		headers []bpf.SessionHeader
		want    string
	}{
		{[]bpf.SessionHeader{part, end, next}, ""},
		{[]bpf.SessionHeader{part, next}, "ksnoop: 1 sessions given up: their ends were lost, or their parts took too much memory\n"},
	} {
		v := show.NewSessions(s, show.SessionForm{Sessions: record.Sessions{Traced: true}}, k, symbols.New(k, nil, symbols.LevelNone))
		records := func(yield func([]byte, error) bool) {
			for _, h := range c.headers {
				if !yield(bpf.AppendSession(nil, &h), nil) {
					return
				}
			}
		}
		var out, errs strings.Builder
		if err := v.Write(&out, records, nil); err != nil {
			t.Fatal(err)
		}
		if err := v.Tally().Report(&out, &errs, false); err != nil {
			t.Fatal(err)
		}
		if errs.String() != c.want || out.String() != "" {
			t.Errorf("%d records: %q, want %q; printed %q", len(c.headers), errs.String(), c.want, out.String())
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]bpf.Rate{
		"100/s": {Most: 100, Window: time.Second}, "7": {Most: 7, Window: time.Second},
		"20/m": {Most: 20, Window: time.Minute}, "1/h": {Most: 1, Window: time.Hour},
	} {
		if got, err := parseRate(text); got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "/s", "0/s", "-1/s", "1.5/s", "10/d", "10/", "10/s/s", "99999999999/s"} {
		if got, err := parseRate(text); err == nil {
			t.Errorf("%q was taken for %+v", text, got)
		}
	}
}
