// SPDX-License-Identifier: Apache-2.0

package output

import (
	"strings"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// TestColumns has the text of each column, and that headings stand above what they name.
func TestColumns(t *testing.T) {
	id := strings.Repeat("9b", 32)
	run := Run{Boot: time.Date(2026, 11, 23, 7, 0, 0, 0, time.FixedZone("", 3600)), Host: "web\x1b1", Cgroup: func(n uint64) container.Group {
		return map[uint64]container.Group{5: {Path: "/kubepods/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/crio-" + id, Names: container.Names{Container: "app", Pod: "web-0", Namespace: "prod"}}, 6: {Path: "/a\x1b"}}[n]
	}}
	e := event.Event{Probe: &plan.Probe{}, Owner: bpf.Owner{UID: 1000, Cgroup: 5}}
	e.PID, e.TID, e.CPU, e.Time = 7, 8, 3, 5_000_001_000
	e.Probe.Name = "f"
	copy(e.Comm[:], "ca\xff\x01")
	for _, c := range []struct {
		fields string
		cgroup uint64
		want   string // the fields, without blanks between them
	}{
		{"comm,pid,cpu,time", 5, `ca\xff\x01 7 3 5.000001`},
		{"time,tid,pid", 5, "5.000001 8 7"},
		{" wall , host", 5, `2026-11-23T06:00:05.000001Z web\x1b1`},
		{"uid,cgroup", 5, "1000 /kubepods/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/crio-" + id},
		{"container,pod", 5, "prod/web-0/app prod/web-0"},
		{"container,pod,cgroup", 6, `- - /a\x1b`},
		{"container,cgroup", 4, "cgroup 4 cgroup 4"},
		{"+tid", 5, `ca\xff\x01 7 3 5.000001 8`},
		{"pid,pid", 5, "7 7"},
	} {
		list, err := ParseColumns(c.fields)
		if err != nil {
			t.Fatal(err)
		}
		e.Owner.Cgroup = c.cgroup
		p := NewCompactCalls(run.Names(), 80)
		p.SetColumns(list, &run)
		line := string(p.appendHead(nil, &e))
		if got := strings.Join(strings.Fields(line), " "); got != c.want+" f(" {
			t.Errorf("%s: %q, want %q", c.fields, got, c.want)
		}
		head, err := p.AppendHeader(nil)
		if title := strings.TrimSuffix(string(head), "FUNCTION\n\n"); err != nil || len(title) != len(strings.TrimSuffix(line, "f(")) && c.fields != "uid,cgroup" && c.fields != "container,cgroup" {
			t.Errorf("%s: %q above %q", c.fields, title, line)
		}
	}
	run.Booted = func() time.Time { return run.Boot.Add(time.Hour) } // the clock was set
	set := NewCalls(Names{})
	set.SetColumns(Columns(), &run)
	if got := string(set.appendHead(nil, &e)); !strings.Contains(got, " 2026-11-23T07:00:05.000001Z ") {
		t.Errorf("got %s", got)
	}
	p := NewCalls(Names{})
	p.SetColumns(Columns(), &Run{})
	if got := strings.Join(strings.Fields(string(p.appendHead(nil, &e))), " "); !strings.Contains(got, " - - 1000 cgroup 5 ") {
		t.Errorf("of a run of which nothing is known: %q", got)
	}
}

// TestUsualColumns: what is printed without a choice is what the original prints, and takes no memory.
func TestUsualColumns(t *testing.T) {
	e := event.Event{Probe: &plan.Probe{}}
	e.Probe.Name = "ip_send_skb"
	e.PID, e.CPU, e.Time = 3833, 1, 251_523_617_250_000
	copy(e.Comm[:], "ping")
	p := NewCalls(Names{})
	head, err := p.AppendHeader(nil)
	if got, want := string(p.appendHead(head, &e)), "            TASK     PID CPU#        TIMESTAMP FUNCTION\n\n            ping    3833    1    251523.617250 ip_send_skb("; got != want || err != nil {
		t.Errorf("%q, want %q", got, want)
	}
	buf := make([]byte, 0, 1000)
	if n := testing.AllocsPerRun(100, func() { p.appendHead(buf, &e) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
}

func TestParseColumns(t *testing.T) {
	for text, want := range map[string]string{
		"contianer": `there is no field "contianer"; did you mean "container"? There are comm, pid, `,
		"pid,TASK":  `there is no field "TASK"; did you mean "comm"? There`,
		"PID":       `there is no field "PID"; did you mean "pid"? There`,
		"nothing":   `there is no field "nothing". There are comm`,
		"pid,":      `there is no field "". There are comm`,
		"+":         `there is no field "". There`,
		"\x1b":      `there is no field "\\x1b". There`,
	} {
		if _, err := ParseColumns(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for _, c := range Columns() {
		if list, err := ParseColumns(c.Name); err != nil || len(list) != 1 || c.About == "" || strings.ToLower(c.Name) != c.Name {
			t.Errorf("%+v: %v", c, err)
		}
		if places := strings.Contains("cgroup container pod", c.Name); places != (c.Needs == layout.OwnerCgroup) {
			t.Errorf("%s needs %v", c.Name, c.Needs)
		}
	}
}
