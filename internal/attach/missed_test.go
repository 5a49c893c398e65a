// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// A misses is a link that the kernel has skipped so often.
type misses uint64

func (m misses) Close() error                   { return nil }
func (m misses) missed() (n uint64, known bool) { return uint64(m), true }

// TestPair: what a kretprobe has missed that the kprobe at the entry of its function has not, the kernel had no room for.
func TestPair(t *testing.T) {
	unknown := kernel.Open(fstest.MapFS{})
	for name, c := range map[string]struct {
		entries, returns, entriesLater, returnsLater misses
		busy, flight                                 uint64
	}{
		"skipped":               {0, 0, 216, 216, 432, 0},
		"no room":               {0, 0, 0, 30, 0, 30},
		"both":                  {5, 3, 15, 43, 20, 30},
		"skipped at entry only": {0, 0, 9, 4, 13, 0},
		"before":                {7, 7, 7, 7, 0, 0},
	} {
		missed := func(entries, returns misses) skipped {
			hooks := []closer{awaiting{returns}, entries}
			pair(hooks)
			n, uncounted := (&Tracer{probes: hooks, options: Options{Kernel: unknown}}).missed()
			if uncounted {
				t.Errorf("%s: uncounted", name)
			}
			return n
		}
		if n := missed(c.entriesLater, c.returnsLater).since(missed(c.entries, c.returns)); n != (skipped{busy: c.busy, flight: c.flight}) {
			t.Errorf("%s: %+v, want %d skipped, %d without room", name, n, c.busy, c.flight)
		}
	}
	alone := []closer{awaiting{misses(3)}}
	pair(alone)
	if n, _ := (&Tracer{probes: alone, options: Options{Kernel: unknown}}).missed(); n != (skipped{flight: 3}) {
		t.Errorf("returns alone: %+v", n)
	}
}

func TestMissedInProfile(t *testing.T) {
	profile := "  entry1_77                                                   12               3\n" +
		"  entry1_7                                                     5               9\n" +
		"  entry1_77                                                    0               4\n"
	for name, want := range map[string]uint64{"entry1_77": 7, "entry1_7": 9, "entry1": 0} {
		if got, err := missedInProfile([]byte(profile), name); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", name, got, err, want)
		}
	}
	if _, err := missedInProfile([]byte("a 1 b\n"), "a"); err == nil {
		t.Error("letters were taken for a number")
	}
}
