// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/layout"
)

// TestOwner: user and cgroup are known of what has an owner, at the ends of calls of which a
// record was sent. The answer's records have the owner, too.
func TestOwner(t *testing.T) {
	const whole = layout.OwnerUID | layout.OwnerCgroup
	for _, c := range []struct {
		owner       layout.Owner
		base, asked string
		want        string // of text, or of the fault
	}{
		{whole, "ip_send_skb(id)", "ip_send_skb($uid, $cgroup)", "$cgroup = (long unsigned int)8589934597"},
		{whole, "ip_send_skb(id)", "ip_send_skb($uid == 1000, id)", "$uid = (unsigned int)1000"},
		{whole, "ip_send_skb(id)", "ip_send_skb($uid == 1001, id)", ""},
		{whole, "ip_send_skb(id)", "ip_send_skb", "id = (int)3"},
		{whole, "ip_send_skb(id, return == 0)", "ip_send_skb(exit($cgroup))", "exit($cgroup) = (long unsigned int)8589934597"},
		{whole, "ip_send_skb(id, return == 0)", "ip_send_skb($cgroup)", "`$cgroup` was recorded as it is at return; ask for `exit($cgroup)`"},
		{layout.OwnerCgroup, "ip_send_skb(id)", "ip_send_skb($uid)", "`$uid` was not captured; record `$uid` too"},
		{layout.OwnerUID, "ip_send_skb(id)", "ip_send_skb($cgroup)", "`$cgroup` was not captured; record `$cgroup` too"},
	} {
		view := packets(t)
		recorded := ownedPlanOf(t, view, c.owner, layout.MethodFentry, c.base)
		call := newSimulated(kernelMemory, 3)
		call.UID = 1000
		a, err := New(recorded, view, Question{Specs: parse(t, c.asked), Arch: "amd64"})
		if err != nil {
			if !strings.Contains(faults(err), c.want) {
				t.Errorf("recorded %s, asked %s: %s\nwant %s", c.base, c.asked, faults(err), c.want)
			}
			continue
		}
		moments := both(call)
		for raw, err := range a.Records(sent(recorded, moments)) {
			var e event.Event
			if err == nil {
				err = event.Decode(a.Plan(), raw, &e)
			}
			if err != nil || e.Owner != (bpf.Owner{UID: 1000, Cgroup: cgroup}) {
				t.Errorf("recorded %s, asked %s: owner %+v, %v", c.base, c.asked, e.Owner, err)
			}
		}
		if got := printed(t, a.Plan(), a.Records(sent(recorded, moments)), a.Pairs()); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("recorded %s, asked %s: %s\nwant %s", c.base, c.asked, got, c.want)
		}
	}
}

// TestOwnerFilter: calls of other users and cgroups are left out. A cgroup is inside of those
// above it.
func TestOwnerFilter(t *testing.T) {
	id := strings.Repeat("8a", 32)
	paths := map[uint64]string{1: "/", 5: "/a", 6: "/a/b", 7: "/ab", 8: "/docker/" + id + "/x"}
	for _, c := range []struct {
		f    Filter
		uid  uint32
		id   uint64
		want bool
	}{
		{Filter{}, 3, 9, true},
		{Filter{UIDs: []uint32{3, 4}}, 4, 9, true}, {Filter{UIDs: []uint32{3}}, 4, 9, false}, {Filter{UIDs: []uint32{0}}, 0, 9, true},
		{Filter{Cgroup: "/a"}, 0, 5, true}, {Filter{Cgroup: "/a"}, 0, 6, true}, {Filter{Cgroup: "/a"}, 0, 7, false}, {Filter{Cgroup: "/a"}, 0, 1, false},
		{Filter{Cgroup: "/a"}, 0, 9, false}, {Filter{Cgroup: "/a/b"}, 0, 5, false}, {Filter{Cgroup: "/"}, 0, 6, true}, {Filter{Cgroup: "/"}, 0, 9, true},
		{Filter{In: container.Selector{Containers: []string{id}}}, 0, 8, true}, {Filter{In: container.Selector{Containers: []string{"web"}}}, 0, 8, true},
		{Filter{In: container.Selector{Containers: []string{"web"}}}, 0, 5, false}, {Filter{In: container.Selector{Pods: []string{"web"}}}, 0, 8, false},
	} {
		c.f.CgroupOf = func(id uint64) container.Group {
			return container.Group{Path: paths[id], Names: container.Names{Container: "web"}}
		}
		if got := c.f.passes(1, 1, bpf.Inner{}, nil, bpf.Owner{UID: c.uid, Cgroup: c.id}); got != c.want {
			t.Errorf("%v %q: user %d, cgroup %d: %t", c.f.UIDs, c.f.Cgroup, c.uid, c.id, got)
		}
	}
}
