// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
)

func TestMoment(t *testing.T) {
	zone := time.FixedZone("", 3600)
	boot := time.Date(2026, 1, 31, 22, 0, 0, 0, zone)
	const first = 3 * 3600 * 1e9 // 01:00 of the next day
	for text, want := range map[string]uint64{
		"+2s":                         first + 2e9,
		"+1.5":                        first + 15e8,
		"+150ms":                      first + 15e7,
		"251523.6":                    2515236e8,
		"01:00:02.5":                  first + 25e8,
		"01:10:00":                    first + 600e9,
		"01:10":                       first + 600e9,
		"2026-02-01T01:00:01":         first + 1e9,
		"2026-02-01T01:01":            first + 60e9,
		"2026-02-01 01:01":            first + 60e9,
		"2026-02-01":                  first - 3600e9, // midnight
		"2026-02-01 01:00:01.25":      first + 125e7,
		"2026-02-01T00:00:01Z":        first + 1e9,
		"2020-01-01T00:00:00Z":        0, // before the boot
		"2026-02-01T02:00:01.5+02:00": first + 15e8,
	} {
		m, err := ParseMoment(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := m.in(boot, first); got != want {
			t.Errorf("%s is %d, want %d", text, got, want)
		}
	}
	for _, text := range []string{"", "+", "now", "-3", "+-3s", "1e300", "NaN", "25:00:00", "2026-13-01T00:00:00", "0x"} {
		if m, err := ParseMoment(text); err == nil {
			t.Errorf("%q is %+v", text, m)
		}
	}
	day, err := ParseMoment("10:00:00")
	if err != nil {
		t.Fatal(err)
	}
	if r := (Range{Since: day}); r.Check() == nil {
		t.Error("a time of day without the time of boot")
	}
	if r := (Range{Since: day, Boot: boot}); r.Check() != nil {
		t.Error(r.Check())
	}
}

// TestSpan: the time that is shown follows the time of day, which may be set between parts of a run.
func TestSpan(t *testing.T) {
	since, err := ParseMoment("10:00:00")
	if err != nil {
		t.Fatal(err)
	}
	boot := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	r := Range{Since: since, Boot: boot, Booted: func() time.Time { return boot }}
	var s span
	for _, want := range []uint64{3600e9, 1800e9} {
		s.begin(&r, 5)
		s.begin(&r, 7)
		if s.from != want || s.first != 5 {
			t.Errorf("from %d, want %d; the first is %d", s.from, want, s.first)
		}
		boot = boot.Add(30 * time.Minute)
	}
}

// Sessions are kept by how they ended, who made them and when they were open.
func TestSessions(t *testing.T) {
	f := &plan.Probe{}
	made := func(start, end uint64, result int64, failed bool) *session.Session {
		return &session.Session{PID: 1, TID: 2, Comm: "sh", Start: start, End: end, Func: f, Failed: failed,
			Chain: session.Chain{Frames: []session.Frame{{Func: f, Result: uint64(result), Failed: failed, Finished: true}}}}
	}
	fine, invalid, null, missing := made(100, 200, 0, false), made(150, 400, -22, true), made(300, 310, 0, true), made(500, 900, -2, true)
	late, err := ParseMoment("+201ns")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		filter Sessions
		want   [4]bool
	}{
		"all":          {Sessions{}, [4]bool{true, true, true, true}},
		"-x any":       {Sessions{Failed: true}, [4]bool{false, true, true, true}},
		"-x EINVAL":    {Sessions{Failed: true, Only: []uint16{22}}, [4]bool{false, true, false, false}},
		"-x NULL":      {Sessions{Failed: true, Only: []uint16{0}}, [4]bool{false, false, true, false}},
		"-X ENOENT":    {Sessions{Except: []uint16{2}}, [4]bool{true, true, true, false}},
		"-L 101ns":     {Sessions{Longer: 101}, [4]bool{false, true, false, true}},
		"-p 2":         {Sessions{Filter: Filter{PIDs: []uint32{2}}}, [4]bool{}},
		"-n sh":        {Sessions{Filter: Filter{Comms: []string{"sh"}}}, [4]bool{true, true, true, true}},
		"--since":      {Sessions{Filter: Filter{Range: Range{Since: late}}}, [4]bool{false, true, true, true}},
		"--until":      {Sessions{Filter: Filter{Range: Range{Until: late}}}, [4]bool{true, true, true, false}},
		"-x EINVAL -L": {Sessions{Failed: true, Only: []uint16{22}, Longer: 251}, [4]bool{}},
	} {
		for i, s := range []*session.Session{fine, invalid, null, missing} {
			if got := test.filter.Keep(s); got != test.want[i] {
				t.Errorf("%s: session %d: %t", name, i, got)
			}
		}
	}
	// A function that returns void lets an error pass; what is in the register means nothing.
	passed := made(500, 900, 1, false)
	passed.Failed = true
	passed.Chain.Frames = append(passed.Chain.Frames, session.Frame{Func: f, Result: 1<<64 - 12, Failed: true, Finished: true})
	for name, test := range map[string]struct {
		filter Sessions
		want   bool
	}{
		"-x any":    {Sessions{Failed: true}, true},
		"-x ENOMEM": {Sessions{Failed: true, Only: []uint16{12}}, true},
		"-x NULL":   {Sessions{Failed: true, Only: []uint16{0}}, false},
		"-X ENOMEM": {Sessions{Except: []uint16{12}}, false},
		"-X NULL":   {Sessions{Except: []uint16{0}}, true},
	} {
		if got := test.filter.Keep(passed); got != test.want {
			t.Errorf("%s: a session of a function that returns void: %t", name, got)
		}
	}
	ours := made(1, 2, 0, false)
	ours.Inner = bpf.Inner{PID: 7, TID: 8, Ours: true}
	if f := (Sessions{Filter: Filter{PIDs: []uint32{7}}}); !f.Keep(ours) {
		t.Error("the PID of ksnoop's own namespace is not the one that is compared")
	}
	if f := (Sessions{Failed: true}); f.Check(true) == nil || f.Check(false) != nil {
		t.Error("sessions that are printed before they end can be filtered by how they end")
	}
}
