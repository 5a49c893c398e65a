// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ksnoop/ksnoop/layout"
)

// TestRuns: parts of a run are one stream, in whatever order they are given, with the names
// of all their addresses. Where one is missing, another stream begins.
func TestRuns(t *testing.T) {
	f := fixtureOf(t, symbolsOfTest(t), layout.MethodKprobe, "ip_send_skb(*skb)")
	f.records(2000)
	dir := t.TempDir()
	shelf, err := OpenShelf(dir, 20_000, 0)
	if err != nil {
		t.Fatal(err)
	}
	shelved(t, f, shelf)
	open := func(name string) *Reader {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	other, err := NewReader(bytes.NewReader(f.bytes(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, missing := range []int{-1, 1} {
		readers := []*Reader{other}
		for i, name := range slices.Backward(names(t, dir)) {
			if i != missing {
				readers = append(readers, open(name))
			}
		}
		runs := Runs(readers)
		if missing >= 0 {
			if len(runs) != 3 || len(runs[1]) != 1 || len(runs[2]) != len(readers)-2 {
				t.Errorf("%d runs without a part", len(runs))
			}
			continue
		}
		if len(runs) != 2 || len(runs[0]) != 1 || len(runs[1]) != len(readers)-1 {
			t.Fatalf("%d runs", len(runs))
		}
		var raw [][]byte
		for _, part := range runs[1] {
			for rec, err := range part.Records() {
				if err != nil {
					t.Fatal(err)
				}
				raw = append(raw, slices.Clone(rec))
			}
		}
		if !slices.EqualFunc(raw, f.raw, bytes.Equal) || runs[1].Losses() != lostInTest || runs[1].More() {
			t.Errorf("%d records of %d, losses %v", len(raw), len(f.raw), runs[1].Losses())
		}
	}
}
