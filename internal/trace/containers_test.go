// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/container"
)

// TestSelection finds containers in directories that stand for cgroups: the outermost ones, those that come, not those
// that have gone; and no more than the engine takes.
func TestSelection(t *testing.T) {
	id := func(n int) string { return strings.Repeat(string("0123456789abcdef"[n]), 64) }
	mount := t.TempDir()
	mkdir := func(path string) {
		if err := os.MkdirAll(filepath.Join(mount, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mkdir("docker/" + id(1) + "/docker/" + id(2))
	mkdir("system.slice/ssh.service")
	c := &Cgroups{mount: mount,
		files: fstest.MapFS{"var/lib/docker/containers/" + id(1) + "/config.v2.json": {Data: []byte(`{"Name":"/outer"}`)}}}
	var log bytes.Buffer
	s := &Selection{In: container.Selector{Containers: []string{"*"}}, Cgroups: c, Log: slog.New(slog.NewTextHandler(&log, nil))}
	var told [][]bpf.Cgroup
	search := func() {
		t.Helper()
		found, _ := s.find()
		if err := s.tell(found, func(list []bpf.Cgroup) error { told = append(told, list); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	search()
	search()
	if len(told) != 1 || len(told[0]) != 1 || told[0][0].Level != 2 {
		t.Errorf("told %+v", told)
	}
	mkdir("kubepods/pod" + id(3)[:32] + "/" + id(4))
	search()
	if len(told) != 2 || len(told[1]) != 2 || told[1][1].Level != 3 {
		t.Errorf("told %+v", told)
	}
	if err := os.RemoveAll(filepath.Join(mount, "docker")); err != nil {
		t.Fatal(err)
	}
	search()
	if len(told) != 3 || len(told[2]) != 1 {
		t.Errorf("told %+v", told)
	}
	s.In = container.Selector{Containers: []string{"outer"}}
	mkdir("docker/" + id(1))
	mkdir("docker/" + id(5))
	found, others := s.find()
	slices.Sort(others)
	if len(found) != 1 || found[0].group.Container != "outer" || strings.Join(others, " ") != id(4)[:12]+" "+id(5)[:12] {
		t.Errorf("found %+v, others %q", found, others)
	}
	many := make([]place, bpf.MaxCgroups+1)
	for i := range many {
		many[i].ID = uint64(i + 1)
	}
	if err := s.tell(many, func([]bpf.Cgroup) error { return nil }); err != nil || !strings.Contains(log.String(), "65 control groups of containers are selected, and 64 can be traced at a time") {
		t.Errorf("%v: %s", err, &log)
	}
	failed := errors.New("failed")
	if err := s.tell(nil, func([]bpf.Cgroup) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}

func TestListed(t *testing.T) {
	for want, names := range map[string][]string{": there is none": nil, ": there are a, b": {"b", "a", "b"}, ": there are 1, 2, 3, 4, 5, 6, 7, 8 and 1 more": {"1", "2", "3", "4", "5", "6", "7", "8", "9"}} {
		if got := listed(names); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}

// later is a Namer that knows a pod after it was asked for it twice.
type later struct{ asked int }

func (l *later) Names(id container.ID) (n container.Names) {
	if l.asked++; l.asked > 2 {
		n = container.Names{Container: "app", Pod: "web-0", Namespace: "prod"}
	}
	return n
}

// TestPods: what files do not name is asked for, also when the cgroup was seen before; what they name is not.
func TestPods(t *testing.T) {
	id, named := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	pods := &later{}
	c := &Cgroups{Pods: pods,
		files: fstest.MapFS{"var/log/containers/db-0_prod_db-" + named + ".log": {}}}
	for i, path := range []string{"/kubepods/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/" + id, "/kubepods/pod068e8fa0-9213-11e7-a01f-507b9d4141fa/" + named, "/user.slice"} {
		c.note(uint64(1+i), cgroup{Group: container.Group{Path: path}})
	}
	for i, want := range []string{id[:12], "prod/web-0/app", "prod/web-0/app"} {
		if got := c.Group(1).ContainerText(); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
	if got := c.Group(2).ContainerText() + c.Group(3).ContainerText(); got != "prod/db-0/db" || pods.asked != 3 {
		t.Errorf("%q, asked %d times", got, pods.asked)
	}
}
