// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/agent"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
)

// TestReportsLast: what an agent is told of losses does not fall when probes are taken off, which takes a while and
// with them what the kernel has skipped.
func TestReportsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "reports")
		to, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		r := &reports{to: to}
		defer r.close()
		var missed atomic.Uint64
		missed.Store(5)
		end := r.begin(func() (counted [bpf.Counters]uint64, err error) {
			counted[bpf.Missed] = missed.Load()
			return counted, nil
		}, nil)
		defer end()
		time.Sleep(3 * reportEvery / 2)
		told := func() (last agent.Report) {
			t.Helper()
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
			if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
				t.Fatal(err)
			}
			return last
		}
		lost := output.LossText(bpf.Missed)
		if got := told(); !got.Attached || got.Lost[lost] != 5 {
			t.Errorf("while it runs: %+v", got)
		}
		final := &event.Losses{Cut: 3}
		final.Lost[bpf.Missed] = 7
		r.last(final)
		missed.Store(0)
		time.Sleep(3 * reportEvery)
		r.send(nil)
		if got := told(); got.Lost[lost] != 7 || len(got.Lost) != 2 {
			t.Errorf("in the end: %+v", got)
		}
	})
}
