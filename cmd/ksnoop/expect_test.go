// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/show"
)

func TestExpect(t *testing.T) {
	for _, c := range []struct {
		text          string
		calls, unseen uint64
		want          string // "" if it is met
	}{
		{"0", 0, 0, ""},
		{"0", 2, 0, "--expect 0: there were 2"},
		{"0", 0, 3, "--expect 0: there were 0, and up to 3 were not seen"},
		{"0", 2, 3, "--expect 0: there were 2"},
		{">0", 1, 0, ""},
		{">0", 1, 9, ""},
		{">0", 0, 0, "--expect >0: there were 0"},
		{">0", 0, 9, "--expect >0: there were 0, and up to 9 were not seen"},
		{"> 0", 1, 0, ""},
		{"3", 3, 0, ""},
		{"=3", 3, 0, ""},
		{"==3", 2, 1, "--expect ==3: there were 2, and up to 1 were not seen"},
		{"3", 2, 5, "--expect 3: there were 2, and up to 5 were not seen"},
		{"!=3", 4, 5, ""},
		{"!=3", 2, 5, "--expect !=3: there were 2, and up to 5 were not seen"},
		{"!=3", 3, 0, "--expect !=3: there were 3"},
		{"<=10", 10, 0, ""},
		{"<=10", 9, 1, ""},
		{"<=10", 9, 2, "--expect <=10: there were 9, and up to 2 were not seen"},
		{">=10", 9, 0, "--expect >=10: there were 9"},
		{"<1", 0, 0, ""},
		{"0", 0, show.Unknown, "--expect 0: there were 0, and an unknown number was not seen"},
		{">5", 6, show.Unknown, ""},
	} {
		var f expectFlag
		if err := f.Set(c.text); err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		tally := &show.Tally{Totals: output.Totals{Calls: c.calls}}
		if tally.Lost[bpf.LostRingbuf] = c.unseen; c.unseen == show.Unknown {
			tally.Lost[bpf.LostRingbuf], tally.Lost[bpf.PausedTime] = 0, 1
		}
		err := f.check(tally, 0)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want || err != nil && statusOf(err) != exitUnmet {
			t.Errorf("%s of %d and %d: %q, want %q", c.text, c.calls, c.unseen, got, c.want)
		}
	}
	for _, text := range []string{"", "x", "-1", ">", "3 calls", "0x10", "1.5", "=>3", "99999999999999999999"} {
		if err := new(expectFlag).Set(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestReplayExpect: calls are counted once, with both ends recorded or one.
func TestReplayExpect(t *testing.T) {
	file := writeRecording(t, event.Losses{}, recorded{bpf.KindEntry, 1, 5}, recorded{bpf.KindReturn, 2, 5}, recorded{bpf.KindEntry, 3, 6}, recorded{bpf.KindReturn, 4, 6},
		recorded{bpf.KindEntry, 5, 7})
	for _, c := range []struct {
		args   []string
		status int
	}{
		{[]string{"--expect", "3"}, 0},
		{[]string{"--expect", "5"}, exitUnmet},
		{[]string{"--expect", "3", "--join"}, 0},
		{[]string{"--expect", ">0", "-c", "1"}, 0},
		{[]string{"--expect", "0"}, exitUnmet},
		{[]string{"--expect", "many"}, exitUsage},
	} {
		if _, errs, status := ran(append([]string{"replay", file}, c.args...)...); status != c.status {
			t.Errorf("%v: status %d, want %d: %s", c.args, status, c.status, errs)
		}
	}
}

func TestFlightFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--flight", "64M"}, "--flight goes with --record FILE"},
		{[]string{"--trigger", "vfs_read"}, "--trigger goes with --flight SIZE"},
		{[]string{"--record", "x", "--flight", "1K"}, "--flight 1K: give a size from 1M to 16G"},
		{[]string{"--record", "x", "--flight", "many"}, "--flight many: give a size from 1M to 16G"},
		{[]string{"--record", "x", "--flight", "4000000000G"}, "give a size from 1M to 16G"},
		{[]string{"--record", "x", "--flight", "64M", "--print"}, "--flight does not go with --print"},
		{[]string{"--record", "x", "--flight", "64M", "-c", "3"}, "-c goes with --flight and --trigger"},
	} {
		_, errs, status := ran(append([]string{"trace", "vfs_read"}, c.args...)...)
		if status != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: status %d: %s", c.args, status, errs)
		}
	}
}
