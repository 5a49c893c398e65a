// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// ownedPrinter prints calls of ksys(i) by which records have this of their owners.
func ownedPrinter(t *testing.T, owner layout.Owner, cgroup func(uint64) container.Group) (*Printer, *plan.Plan) {
	t.Helper()
	view := testKernel(t)
	spec, err := expr.Parse("ksys(i)")
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.Resolve(view, []*expr.Spec{spec}, plan.Options{Arch: runtime.GOARCH, Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	printer := newTestPrinter(t, view, p, false)
	printer.run.Cgroup = cgroup
	return printer, p
}

// TestOwner: an event has its user and its cgroup as far as they were recorded, and a path
// stands before the first event of its cgroup.
func TestOwner(t *testing.T) {
	path := func(id uint64) (g container.Group) {
		if id != 9 {
			g.Path = fmt.Sprintf("/a\x1b/%d", id)
		}
		return g
	}
	for _, c := range []struct {
		owner layout.Owner
		path  func(uint64) container.Group
		want  string
	}{
		{0, path, "entry;entry;entry;entry;entry"},
		{layout.OwnerUID, path, "entry uid:1;entry uid:2;entry uid:3;entry uid:4;entry uid:5"},
		{layout.OwnerUID | layout.OwnerCgroup, nil, "entry uid:1 cgroup:7;entry uid:2 cgroup:8;entry uid:3 cgroup:7;entry uid:4 cgroup:9;entry uid:5"},
		{layout.OwnerCgroup, path, `cgroup id:7 path:"/a\u001b/7";entry cgroup:7;cgroup id:8 path:"/a\u001b/8";entry cgroup:8;entry cgroup:7;entry cgroup:9;entry`},
	} {
		printer, p := ownedPrinter(t, c.owner, c.path)
		var out []byte
		for i, id := range []uint64{7, 8, 7, 9, 0} {
			e := recordOf(t, p, 0, func(*layout.Slot, []byte) {})
			e.Owner = bpf.Owner{UID: uint32(i + 1), Cgroup: id}
			var err error
			if out, err = printer.AppendCall(out, &calls.Call{Entry: e, End: calls.Whole}); err != nil {
				t.Fatal(err)
			}
		}
		check(t, out)
		var got []string
		for line := range strings.Lines(string(out)) {
			var kind string
			if strings.HasPrefix(line, `{"kind":"cgroup"`) {
				kind = "cgroup"
			} else {
				kind = "entry"
			}
			got = append(got, strings.TrimSpace(kind+" "+members(t, []byte(line), "id", "path", "uid", "cgroup")))
		}
		if text := strings.Join(got, ";"); text != c.want {
			t.Errorf("owner %d:\n got %s\nwant %s", c.owner, text, c.want)
		}
	}
}

// TestContainer: the line of a cgroup says which container it is.
func TestContainer(t *testing.T) {
	printer, p := ownedPrinter(t, layout.OwnerCgroup, func(uint64) container.Group {
		return container.Group{Path: "/kubepods/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/crio-81e5c2990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75d5f",
			Names: container.Names{Container: "app", Pod: "web-0", Namespace: "prod"}}
	})
	e := recordOf(t, p, 0, func(*layout.Slot, []byte) {})
	e.Owner.Cgroup = 7
	out, err := printer.AppendCall(nil, &calls.Call{Entry: e, End: calls.Whole})
	if err != nil {
		t.Fatal(err)
	}
	check(t, out)
	if want := `","container":"81e5c2990803c383229c9680ce964738d5e566d97f5bd436ac34808d2ec75d5f","pod":"068e8fa0-9213-11e7-a01f-507b9d4141fa","runtime":"cri-o","container_name":"app","pod_name":"web-0","namespace":"prod"}` + "\n"; !strings.Contains(string(out), want) {
		t.Errorf("%s", out)
	}
}

// TestCgroupLater: what comes to be known of a cgroup is written when it is, once.
func TestCgroupLater(t *testing.T) {
	known := []container.Group{{}, {Path: "/a"}, {Path: "/a"}, {Path: "/a", Names: container.Names{Container: "app"}}, {Path: "/a", Names: container.Names{Container: "app"}}}
	next := 0
	printer, p := ownedPrinter(t, layout.OwnerCgroup, func(uint64) container.Group { next++; return known[next-1] })
	var got []string
	for range known {
		e := recordOf(t, p, 0, func(*layout.Slot, []byte) {})
		e.Owner.Cgroup = 7
		out, err := printer.AppendCall(nil, &calls.Call{Entry: e, End: calls.Whole})
		if err != nil {
			t.Fatal(err)
		}
		check(t, out)
		line, _, _ := strings.Cut(string(out), "\n")
		got = append(got, members(t, []byte(line), "path", "container_name"))
	}
	if text := strings.Join(got, ";"); text != `;path:"/a";;path:"/a" container_name:"app";` {
		t.Errorf("%s", text)
	}
}

// TestManyCgroups: the memory for cgroups is bounded. One that was forgotten is written again.
func TestManyCgroups(t *testing.T) {
	printer, p := ownedPrinter(t, layout.OwnerCgroup, func(uint64) container.Group { return container.Group{Path: "/"} })
	lines := 0
	for i := range mostCgroups + 2 {
		e := recordOf(t, p, 0, func(*layout.Slot, []byte) {})
		e.Owner.Cgroup = uint64(1 + i%(mostCgroups+1))
		out, err := printer.AppendCall(nil, &calls.Call{Entry: e, End: calls.Whole})
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(out), `"kind":"cgroup"`)
	}
	if lines != mostCgroups+2 || len(printer.cgroups) > mostCgroups {
		t.Errorf("%d lines, %d cgroups known", lines, len(printer.cgroups))
	}
}

// TestSessionOwner: a session has the owner; one of an old recording has none.
func TestSessionOwner(t *testing.T) {
	trace := formattest.New(t, "")
	trace.Sessions(false, "open", "read", "alloc")
	trace.Run.Plan.Owner = layout.OwnerUID | layout.OwnerCgroup
	trace.Run.Cgroup = func(id uint64) container.Group { return container.Group{Path: fmt.Sprint("/", id)} }
	printer := New(trace.Run, false)
	s := trace.Failed()
	old, err := printer.AppendSession(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	check(t, old)
	s.HasOwner, s.Owner = true, bpf.Owner{UID: 1000, Cgroup: 45}
	got, err := printer.AppendSession(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	check(t, got)
	if strings.Contains(string(old), `"uid"`) || strings.Contains(string(old), `"cgroup"`) {
		t.Errorf("%s", old)
	}
	if !strings.HasPrefix(string(got), `{"kind":"cgroup","id":45,"path":"/45"}`+"\n") || !strings.Contains(string(got), `"comm":"cat","uid":1000,"cgroup":45,"leader":"sh"`) {
		t.Errorf("%s", got)
	}
}

// TestPlace: $container and $pod are objects, null outside of them, and the cgroup's ID where nothing is known of it.
func TestPlace(t *testing.T) {
	trace := formattest.New(t, "t_")
	id := strings.Repeat("9b", 32)
	trace.Run.Cgroup = func(n uint64) container.Group {
		return map[uint64]container.Group{1: {Path: "/user.slice"}, 2: {Path: "/docker/" + id},
			3: {Path: "/kubepods/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/crio-" + id, Names: container.Names{Container: "app", Pod: "web-0", Namespace: "prod"}}}[n]
	}
	trace.Calls("t_read($container, $pod)")
	printer := New(trace.Run, false)
	want := map[uint64]string{
		1: `"$container":null,"$pod":null`, 2: `"$container":{"id":"` + id + `"},"$pod":null`, 4: `"$container":{"cgroup":4},"$pod":{"cgroup":4}`,
		3: `"$container":{"id":"` + id + `","name":"app"},"$pod":{"uid":"068e8fa0-9213-11e7-a01f-507b9d4141fa","name":"web-0","namespace":"prod"}`,
	}
	for n, values := range want {
		for c := range trace.Joined(trace.Raw(formattest.Record{Func: "read", Event: bpf.Event{Kind: bpf.KindEntry, Time: 1, PID: 7, TID: 7}, Words: []uint64{n, n}})) {
			out, err := printer.AppendCall(nil, c)
			if err != nil {
				t.Fatal(err)
			}
			check(t, out)
			if !strings.Contains(string(out), `"values":{`+values+`}`) {
				t.Errorf("%s\nwant %s", out, values)
			}
		}
	}
}
