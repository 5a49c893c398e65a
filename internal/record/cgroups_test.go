// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/container"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// ownedFixture has records of the cgroups that are given, one after the other.
func ownedFixture(t *testing.T, owner layout.Owner, groups ...uint64) *fixture {
	t.Helper()
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	spec, err := expr.Parse("vfs_read(count)")
	if err != nil {
		t.Fatal(err)
	}
	if f.plan, _, err = plan.Resolve(f.source.View, []*expr.Spec{spec}, plan.Options{Arch: "amd64", Owner: owner}); err != nil {
		t.Fatal(err)
	}
	for i, id := range groups {
		raw := bpf.AppendOwner(bpf.AppendEvent(nil, &bpf.Event{Time: uint64(i), PID: 7}), bpf.Owner{UID: 3, Cgroup: id})
		f.raw = append(f.raw, binary.LittleEndian.AppendUint64(raw, 5))
	}
	return f
}

// TestCgroups: a recording has the path of each cgroup, which is asked for once, before the
// first record of it. One that is not known has none.
func TestCgroups(t *testing.T) {
	f := ownedFixture(t, layout.OwnerCgroup, 1, 2, 1, 3, 2, 1, 4)
	asked := map[uint64]int{}
	groups := map[uint64]container.Group{1: {Path: "/group\n1"}, 2: {Path: "/2", Names: container.Names{Container: "app", Pod: "web-0", Namespace: "prod"}}, 4: {Path: "/4", Names: container.Names{Pod: "x"}}}
	f.source.Cgroup = func(id uint64) container.Group {
		asked[id]++
		return groups[id]
	}
	r, err := NewReader(bytes.NewReader(f.bytes(t)))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Info().Owner; got != layout.OwnerCgroup {
		t.Errorf("owner %d", got)
	}
	for raw, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		owner, _ := bpf.OwnerOf(raw, false)
		if got, want := r.Cgroup(owner.Cgroup), groups[owner.Cgroup]; got != want {
			t.Errorf("cgroup %d is %+v, want %+v", owner.Cgroup, got, want)
		}
	}
	for id, n := range asked {
		if n != 1 {
			t.Errorf("cgroup %d was asked for %d times", id, n)
		}
	}
	if len(asked) != 4 {
		t.Errorf("%d cgroups were asked for", len(asked))
	}
	// Records of the user alone ask for none.
	f = ownedFixture(t, layout.OwnerUID, 1, 2)
	f.source.Cgroup = func(uint64) container.Group { t.Error("a cgroup was asked for"); return container.Group{} }
	f.bytes(t)
}

// TestCgroupsLater: a path that is not known at the first record of its cgroup is there from when it is.
func TestCgroupsLater(t *testing.T) {
	f := ownedFixture(t, layout.OwnerCgroup, 1, 1, 1, 2, 1)
	asked := 0
	f.source.Cgroup = func(id uint64) (g container.Group) {
		if id == 1 {
			if asked++; asked > 2 {
				g.Path = "/1"
			}
		}
		return g
	}
	r, err := NewReader(bytes.NewReader(f.bytes(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := r.Cgroup(1).Path; got != "/1" || asked != 3 {
		t.Errorf("%q, asked %d times", got, asked)
	}
}

// TestCgroupsOfParts: each part has the paths of its records.
func TestCgroupsOfParts(t *testing.T) {
	var groups []uint64
	for i := range 2000 {
		groups = append(groups, uint64(1+i%3))
	}
	f := ownedFixture(t, layout.OwnerUID|layout.OwnerCgroup, groups...)
	for i := range f.raw { // which do not compress
		binary.LittleEndian.PutUint64(f.raw[i][len(f.raw[i])-8:], uint64(i)*0x9e3779b97f4a7c15)
	}
	f.source.Cgroup = func(id uint64) container.Group { return container.Group{Path: fmt.Sprint("/", id)} }
	dir := filepath.Join(t.TempDir(), "recordings")
	shelf, err := OpenShelf(dir, 20_000, 0)
	if err != nil {
		t.Fatal(err)
	}
	shelved(t, f, shelf)
	parts := names(t, dir)
	if len(parts) < 3 {
		t.Fatalf("%d parts", len(parts))
	}
	for _, name := range parts {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		r, raw, err := read(data)
		if err != nil || len(raw) == 0 {
			t.Fatalf("%d records, %v", len(raw), err)
		}
		for id := uint64(1); id <= 3; id++ {
			if got := r.Cgroup(id); got.Path != fmt.Sprint("/", id) {
				t.Errorf("%s: cgroup %d is %+v", name, id, got)
			}
		}
	}
}

// TestCgroupsNamed: names that only a later part of a run has are those of the cgroup from there on, and
// stay, one by one. They have room in place of what was known before.
func TestCgroupsNamed(t *testing.T) {
	entry := func(id uint64, g container.Group) []byte {
		text := groupText(g)
		return append(binary.AppendUvarint(binary.AppendUvarint(nil, id), uint64(len(text))), text...)
	}
	bare := container.Group{Path: "/" + strings.Repeat("x", 1000)}
	first, named, other := bare, bare, bare
	first.Names, named.Names, other.Names = container.Names{Container: "app"}, container.Names{Container: "app", Pod: "web-0"}, container.Names{Container: "other"}
	pod := bare
	pod.Names = container.Names{Pod: "web-0"}
	var c cgroups
	for i, next := range []struct{ add, want container.Group }{{bare, bare}, {first, first}, {pod, named}, {bare, named}, {named, named}, {other, named}} {
		if err := c.add(entry(1, next.add)); err != nil || c.groups[1] != next.want {
			t.Errorf("%d: %+v, %v", i, c.groups[1], err)
		}
	}
	if want := len(named.Path + named.Container + named.Pod); c.text != want {
		t.Errorf("%d bytes, want %d", c.text, want)
	}
	c = cgroups{}
	for id := range uint64(maxCgroups) {
		if err := c.add(entry(id, container.Group{Path: "/"})); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.add(entry(7, named)); err != nil || c.groups[7] != named {
		t.Errorf("as many as there may be: %v", err)
	}
	c.text = maxCgroupText
	if err := c.add(entry(8, named)); !errors.Is(err, errDamaged) {
		t.Errorf("too long a name: %v", err)
	}
}

// TestCgroupsDamaged: paths that claim too much are refused.
func TestCgroupsDamaged(t *testing.T) {
	entry := func(id, size uint64, path string) []byte {
		return append(binary.AppendUvarint(binary.AppendUvarint(nil, id), size), path...)
	}
	long := strings.Repeat("x", maxCgroupPath)
	var much []byte
	for id := range uint64(maxCgroupText/maxCgroupPath + 1) {
		much = append(much, entry(id, maxCgroupPath, long)...)
	}
	for _, c := range []struct {
		block []byte
		want  string
	}{
		{entry(1, 2, "/a"), ""},
		{slices.Concat(entry(1, 2, "/a"), entry(1, 0, "")), ""},
		{entry(1, 3, "/a"), "is cut off"},
		{[]byte{1}, "is cut off"},
		{[]byte{0x80}, "is cut off"},
		{entry(1, maxCgroupPath+1, strings.Repeat("x", maxCgroupPath+1)), "is cut off, or it has more than"},
		{much, "too many"},
		// Each part of a run names its cgroups anew.
		{bytes.Repeat(entry(1, maxCgroupPath, long), maxCgroupText/maxCgroupPath+1), ""},
	} {
		var got cgroups
		err := got.add(c.block)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, errDamaged) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.20q: %v, want %q", c.block, err, c.want)
		}
	}
	var many cgroups
	for id := range uint64(maxCgroups) {
		if err := many.add(entry(id, 1, "/")); err != nil {
			t.Fatal(err)
		}
	}
	if err := many.add(entry(maxCgroups, 1, "/")); !errors.Is(err, errDamaged) {
		t.Errorf("one cgroup too many: %v", err)
	}
}

// TestCgroupsOfFlight: a flight recorder asks for a path while the cgroup is there, not when
// records are written.
func TestCgroupsOfFlight(t *testing.T) {
	f := ownedFixture(t, layout.OwnerCgroup, 1, 1, 2)
	asked := map[uint64]bool{}
	f.source.Cgroup = func(id uint64) container.Group { asked[id] = true; return container.Group{Path: "/"} }
	r := &Recording{source: f.source, w: &Writer{plan: f.plan}}
	r.Fly(1<<20, Takeoff{})
	i := 0
	for range r.Tee(func(yield func([]byte, error) bool) {
		for _, raw := range f.raw {
			if !yield(raw, nil) {
				return
			}
		}
	}) {
		if owner, _ := bpf.OwnerOf(f.raw[i], false); !asked[owner.Cgroup] {
			t.Errorf("record %d is kept, and nobody asked for the path of its cgroup", i)
		}
		i++
	}
}

// FuzzCgroups: whatever is in a block of cgroups, its paths take no more than they may.
func FuzzCgroups(f *testing.F) {
	f.Add([]byte("\x05\x02/a\x80\x01\x01/\x07\x07/a\x00b\x00c\x00"))
	f.Add([]byte("\x07\x04/a\x00b\x07\x05/\x00\x00c\x00\x07\x02\x00b\x08\x02\x00b"))
	f.Fuzz(func(t *testing.T, block []byte) {
		var c cgroups
		err := c.add(block)
		if err != nil && !errors.Is(err, errDamaged) {
			t.Error(err)
		}
		sum := 0
		for _, g := range c.groups {
			sum += groupSize(g)
			if len(g.Path) > maxCgroupPath {
				t.Errorf("a path of %d bytes", len(g.Path))
			}
		}
		if len(c.groups) > maxCgroups || sum > len(block) || err == nil && sum != c.text {
			t.Errorf("%d paths of %d bytes, counted as %d, from %d", len(c.groups), sum, c.text, len(block))
		}
	})
}
