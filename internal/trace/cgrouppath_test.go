// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/container"
)

// closed returns the cgroups below a directory that stands for the mount, where none can be opened by its ID, what makes
// one, and how often one was asked for.
func closed(t *testing.T) (c *Cgroups, mkdir func(path string) (id uint64), asked *int) {
	asked = new(int)
	c = &Cgroups{mount: t.TempDir(), files: fstest.MapFS{}, open: func(uint64) (string, error) { *asked++; return "", unix.EPERM }}
	return c, func(path string) uint64 {
		var st unix.Stat_t
		path = filepath.Join(c.mount, path)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}, asked
}

// TestCgroupWithoutHandles: where cgroups cannot be opened by their IDs, those that are made later are found as well.
func TestCgroupWithoutHandles(t *testing.T) {
	c, mkdir, _ := closed(t)
	synctest.Test(t, func(t *testing.T) {
		path := func(id uint64, want string) {
			t.Helper()
			if got := c.Group(id).Path; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		path(mkdir("a"), "/a")
		b := mkdir("b")
		path(b, "") // all were looked through a moment ago
		time.Sleep(leastPause)
		path(b, "/b")
		time.Sleep(time.Hour)
		path(mkdir("b/c"), "/b/c")
	})
}

// TestCgroupFlood: however many records there are of cgroups that are not found, all are looked through at times only; and
// less and less often for the sake of one.
func TestCgroupFlood(t *testing.T) {
	c, _, asked := closed(t)
	const unknown = 1 << 40
	synctest.Test(t, func(t *testing.T) {
		begin, walks, last := time.Now(), 0, time.Time{}
		for i := range uint64(10_000) {
			for id := range uint64(10) {
				c.Group(unknown + 10*i + id)
			}
			if c.rested != last {
				walks, last = walks+1, c.rested
			}
			time.Sleep(time.Millisecond)
		}
		if most := int(time.Since(begin) / leastPause); walks < most-1 || walks > most+1 {
			t.Errorf("%d searches, want %d", walks, most)
		}
		*asked = 0
		for range 36_000 {
			c.Group(unknown - 1)
			time.Sleep(100 * time.Millisecond)
		}
		if *asked < 10 || *asked > 20 {
			t.Errorf("asked %d times for one in an hour", *asked)
		}
	})
}

// TestCgroupsRace: cgroups are looked for and followed at the same time.
func TestCgroupsRace(t *testing.T) {
	c, mkdir, _ := closed(t)
	s := &Selection{In: container.Selector{Containers: []string{"none"}}, Cgroups: c}
	id := mkdir("docker/" + strings.Repeat("a1", 32))
	var done sync.WaitGroup
	for range 3 {
		done.Go(func() {
			for i := range uint64(100) {
				c.Group(id + i)
				s.find()
				c.mu.Lock()
				c.walk()
				c.mu.Unlock()
			}
		})
	}
	done.Wait()
}

// counted counts how often a directory is read.
type counted struct {
	fstest.MapFS
	opened *int
}

func (f counted) Open(name string) (fs.File, error) {
	if name == "var/log/containers" {
		*f.opened++
	}
	return f.MapFS.Open(name)
}

// TestNamesLater: the link that names a container comes after its cgroup, and after the directory that names its pod. It
// is found when it has come, without reading the files at each call until then.
func TestNamesLater(t *testing.T) {
	const uid = "068e8fa0-9213-11e7-a01f-507b9d4141fa"
	id, other := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	c, mkdir, _ := closed(t)
	files := fstest.MapFS{"var/log/pods/prod_web-0_" + uid + "/app/0.log": {}}
	opened := 0
	c.files = counted{files, &opened}
	s := &Selection{In: container.Selector{Containers: []string{"app"}}, Cgroups: c}
	synctest.Test(t, func(t *testing.T) {
		group := mkdir("kubepods/pod" + uid + "/" + id)
		never := mkdir("kubepods/pod" + uid + "/" + other)
		look := func(wanted string, selected int) {
			t.Helper()
			found, _ := s.find()
			if got := c.Group(group); len(found) != selected || got.Names != (container.Names{Container: wanted, Pod: "web-0", Namespace: "prod"}) {
				t.Errorf("%+v, %d are selected", got, len(found))
			}
		}
		look("", 0)
		time.Sleep(time.Second)
		look("", 0)
		files["var/log/containers/web-0_prod_app-"+id+".log"] = &fstest.MapFile{}
		time.Sleep(time.Second)
		look("app", 1)
		opened = 0
		for range 3_600 {
			look("app", 1)
			c.Group(never)
			time.Sleep(time.Second)
		}
		if opened < 5 || opened > 20 {
			t.Errorf("files are read %d times in an hour", opened)
		}
	})
}
