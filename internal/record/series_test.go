// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/destination"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/layout"
)

// writeSeries writes a series of the records of some plans, and returns the file's contents.
func writeSeries(t *testing.T, page string, runs ...*fixture) []byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "why.ks")
	file, err := destination.Create(name, false)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSeries(file, runs[0].source)
	for _, f := range runs {
		s.source = f.source // whose kernel the plan is of
		if err := s.Begin(f.plan, nil); err != nil {
			t.Fatal(err)
		}
		for _, raw := range f.raw {
			if err := s.Append(raw); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.EndRun(lostInTest); err != nil {
			t.Fatal(err)
		}
		if err := s.EndRun(event.Losses{}); err != nil { // it has ended
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.End([]byte(page)), s.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// readSeries reads the records of all runs, and the page.
func readSeries(data []byte) (raw [][]byte, page string, err error) {
	_, s, err := TrySeries(bytes.NewReader(data))
	if err != nil {
		return nil, "", err
	}
	for {
		r, err := s.Next()
		if err != nil {
			return raw, "", err
		}
		if r == nil {
			text, err := s.Page()
			return raw, string(text), err
		}
		for rec, err := range r.Records() {
			if err != nil {
				return raw, "", err
			}
			raw = append(raw, slices.Clone(rec))
		}
		if r.Losses() != lostInTest {
			return raw, "", errors.New("the losses of a run differ")
		}
	}
}

func TestSeries(t *testing.T) {
	calls, other := newFixture(t, layout.MethodAuto, "ip_send_skb"), newFixture(t, layout.MethodAuto, "vfs_read", "mod_probe(*arg)")
	calls.records(100)
	other.records(50)
	data := writeSeries(t, `{"page":1}`, calls, other, calls)
	raw, page, err := readSeries(data)
	if err != nil || page != `{"page":1}` {
		t.Fatalf("%v, page %q", err, page)
	}
	if want := slices.Concat(calls.raw, other.raw, calls.raw); !slices.EqualFunc(raw, want, bytes.Equal) {
		t.Error("the records are not those that were written")
	}
	if _, s, err := TrySeries(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	} else if page, err := s.Page(); err != nil || string(page) != `{"page":1}` || s.Runs() != 3 {
		t.Errorf("without its runs: %q, %v; %d runs", page, err, s.Runs())
	}
	if _, err := NewReader(bytes.NewReader(data)); !errors.Is(err, errSeries) {
		t.Errorf("read as one recording: %v", err)
	}
	whole := calls.bytes(t)
	in, s, err := TrySeries(bytes.NewReader(whole))
	if err != nil || s != nil {
		t.Fatalf("a recording of one run: %v, %v", s, err)
	}
	if _, err := NewReader(in); err != nil {
		t.Errorf("a recording of one run: %v", err)
	}
}

// TestSeriesDamaged: a series that ends early, or has something behind its end, is refused. What
// was whole has been read before.
func TestSeriesDamaged(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "ip_send_skb")
	f.records(100)
	data := writeSeries(t, `{}`, f, f)
	for n := len(magic) + versionSize; n < len(data); n += 7 {
		if _, _, err := readSeries(data[:n]); !errors.Is(err, errCut) {
			t.Fatalf("cut off at %d of %d: %v", n, len(data), err)
		}
	}
	if _, _, err := readSeries(append(slices.Clone(data), data...)); !errors.Is(err, errDamaged) {
		t.Errorf("something behind the end: %v", err)
	}
	if _, _, err := readSeries(writeSeries(t, strings.Repeat("x", maxPage+1), f)); !errors.Is(err, errDamaged) {
		t.Errorf("a large page: %v", err)
	}
	if _, _, err := readSeries(writeSeries(t, `{}`, slices.Repeat([]*fixture{f}, maxRuns+1)...)); !errors.Is(err, errDamaged) {
		t.Errorf("many runs: %v", err)
	}
}
