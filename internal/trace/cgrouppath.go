// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/container"
)

// A Cgroups finds cgroups of version 2 by their IDs, and the names of containers. What it has found it keeps: what is
// printed and what is recorded say the same, also when the cgroup is gone. It is safe for concurrent use.
type Cgroups struct {
	// Pods names what the files of runtimes do not name. It may be nil.
	Pods Namer

	mount string
	files fs.FS                                    // has those of container runtimes
	open  func(id uint64) (path string, err error) // finds a cgroup

	mu     sync.Mutex
	root   *os.File // of the hierarchy; nil before it is opened, or if it cannot be
	tried  bool     // to open it
	groups recent[uint64, cgroup]
	rested time.Time // when all may be looked through again

	naming sync.Mutex
	named  recent[container.ID, naming]
}

// A Namer says what containers and pods are called, as far as it knows that at the moment.
type Namer interface {
	Names(container.ID) container.Names
}

// NewCgroups returns the cgroups of the running kernel.
func NewCgroups() *Cgroups {
	c := &Cgroups{mount: cgroupMount(), files: os.DirFS("/")}
	c.open = c.openHandle
	return c
}

// Check returns an error if no cgroup, and so no container, can be found.
func (c *Cgroups) Check() error {
	if c.mount == "" {
		return errNoCgroups
	}
	return nil
}

// A cgroup is what is kept of a cgroup.
type cgroup struct {
	container.Group
	whole  bool   // nothing of it is missing
	sought search // while its path is not known
}

// Group returns what is known of a cgroup. More may be known later.
func (c *Cgroups) Group(id uint64) container.Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.groups.get(id)
	if g.whole || g.Path == "" && !g.sought.due(time.Now()) {
		return g.Group
	}
	if g.Path == "" {
		g.Path = c.find(id)
	}
	return c.note(id, g)
}

// note keeps a cgroup, and what its container is called.
func (c *Cgroups) note(id uint64, g cgroup) container.Group {
	in := container.Of(g.Path)
	g.Names = c.names(in)
	g.whole = g.Path != "" && !lacks(in, g.Names)
	c.groups.put(id, g)
	return g.Group
}

// A naming is what a container is called.
type naming struct {
	container.Names
	sought search // while a name is missing
}

// lacks reports whether a name of a container or a pod is missing.
func lacks(id container.ID, n container.Names) bool {
	return id.Container != "" && n.Container == "" || id.Pod != "" && n.Pod == ""
}

// names returns what a container is called. Files that have the names are written one by one while it starts, some
// after its cgroup is made: they are read again while a name is missing.
func (c *Cgroups) names(id container.ID) container.Names {
	if id == (container.ID{}) {
		return container.Names{}
	}
	c.naming.Lock()
	defer c.naming.Unlock()
	n := c.named.get(id)
	if !lacks(id, n.Names) {
		return n.Names
	}
	if n.sought.due(time.Now()) {
		n.Names = n.Or(container.NamesOf(c.files, id))
	}
	if c.Pods != nil && lacks(id, n.Names) {
		n.Names = n.Or(c.Pods.Names(id))
	}
	c.named.put(id, n)
	return n.Names
}

// Close frees what it holds.
func (c *Cgroups) Close() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.root == nil {
		return nil
	}
	return c.root.Close()
}

// fileidKernfs is FILEID_KERNFS of linux/exportfs.h: a file handle that is an ID.
const fileidKernfs = 0xfe

// openHandle opens the cgroup by its ID, which takes no search (Linux 5.5). It takes CAP_DAC_READ_SEARCH.
func (c *Cgroups) openHandle(id uint64) (path string, err error) {
	if !c.tried {
		c.tried = true
		c.root, _ = os.Open(c.mount) // without it no path is known, and nothing else is
	}
	if c.root == nil {
		return "", fs.ErrNotExist
	}
	handle := unix.NewFileHandle(fileidKernfs, binary.NativeEndian.AppendUint64(nil, id))
	fd, err := unix.OpenByHandleAt(int(c.root.Fd()), handle, unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	path, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil || strings.HasSuffix(path, " (deleted)") {
		return "", err
	}
	return c.below(path), nil
}

// find returns the path of a cgroup, "" if it is not found. Without the right to open cgroups by their IDs, all are
// looked through, unless that was done a moment ago.
func (c *Cgroups) find(id uint64) string {
	path, err := c.open(id)
	if errors.Is(err, unix.EPERM) && !time.Now().Before(c.rested) {
		c.walk()
		return c.groups.get(id).Path
	}
	return path
}

// below returns a path as it is below the mount.
func (c *Cgroups) below(path string) string {
	rest, ok := strings.CutPrefix(path, c.mount)
	switch {
	case !ok:
		return ""
	case rest == "":
		return "/"
	}
	return rest
}

// walk notes the cgroups that there are.
func (c *Cgroups) walk() {
	begin := time.Now()
	eachCgroup(c.mount, func(path string, id uint64) (below bool) {
		if g := c.groups.get(id); !g.whole {
			g.Path = c.below(path)
			c.note(id, g)
		}
		return true
	})
	c.rested = time.Now().Add(rest(begin))
}

// mostCgroups is how many cgroups are looked through: no more than are kept.
const mostCgroups = mostRecent

// eachCgroup calls visit with the cgroups that there are below a mount, as long as it reports that those below are wanted, too. One that
// is gone is left out. A directory without others in it is not read: it has two links.
func eachCgroup(mount string, visit func(path string, id uint64) (below bool)) {
	count := 0
	var walk func(path string)
	walk = func(path string) {
		var st unix.Stat_t
		if count++; count > mostCgroups || unix.Stat(path, &st) != nil || !visit(path, st.Ino) || st.Nlink == 2 {
			return
		}
		entries, _ := os.ReadDir(path)
		for _, e := range entries {
			if e.IsDir() {
				walk(filepath.Join(path, e.Name()))
			}
		}
	}
	walk(mount)
}

// Follow notes the cgroups that there are until ctx ends, so that those of containers that have ended by then are known
// when a table is printed.
func (c *Cgroups) Follow(ctx context.Context) {
	if c.mount == "" {
		return
	}
	repeat(ctx, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.walk()
		return nil
	})
}

// Between two searches there are leastPause at least, and pauses times as long as one takes.
const (
	leastPause = 200 * time.Millisecond
	pauses     = 10
)

// rest returns how long to pause after a search.
func rest(begin time.Time) time.Duration { return max(leastPause, pauses*time.Since(begin)) }

// repeat searches until ctx ends, or an error.
func repeat(ctx context.Context, search func() error) {
	for {
		begin := time.Now()
		if search() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest(begin)):
		}
	}
}

// A search is for one thing that may not be there yet. It pauses for as long as it has lasted by then: what comes soon
// is found soon, and what never comes costs little. Its zero value is one that has not begun.
type search struct{ begun, next time.Time }

// due reports whether to look now. If so, the next pause begins.
func (s *search) due(now time.Time) bool {
	if now.Before(s.next) {
		return false
	}
	if s.begun.IsZero() {
		s.begun = now
	}
	s.next = now.Add(max(leastPause, now.Sub(s.begun)))
	return true
}
