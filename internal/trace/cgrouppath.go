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

// mostCgroups is of how many cgroups it is kept what is known. Those of more are not looked for.
const mostCgroups = 1 << 16

// A Cgroups finds cgroups of version 2 by their IDs, and the names of containers, each once: what is printed and
// what is recorded say the same, also when the cgroup is gone. It is safe for concurrent use.
type Cgroups struct {
	// Pods names what the files of runtimes do not name. It may be nil.
	Pods Namer

	mount string
	files fs.FS // has those of container runtimes

	mu     sync.Mutex
	root   *os.File // of the hierarchy; nil before it is opened, or if it cannot be
	tried  bool     // to open it
	walked bool
	groups map[uint64]container.Group // the zero value: it is not known

	naming sync.Mutex
	named  map[container.ID]container.Names
}

// A Namer says what containers and pods are called, as far as it knows that at the moment.
type Namer interface {
	Names(container.ID) container.Names
}

// NewCgroups returns the cgroups of the running kernel.
func NewCgroups() *Cgroups {
	return &Cgroups{mount: cgroupMount(), groups: map[uint64]container.Group{}, named: map[container.ID]container.Names{}, files: os.DirFS("/")}
}

// Check returns an error if no cgroup, and so no container, can be found.
func (c *Cgroups) Check() error {
	if c.mount == "" {
		return errNoCgroups
	}
	return nil
}

// Group returns what is known of a cgroup.
func (c *Cgroups) Group(id uint64) container.Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, known := c.groups[id]
	if known && c.Pods != nil && g.Path != "" && g.Names == (container.Names{}) { // they may be known by now
		if in := container.Of(g.Path); in != (container.ID{}) {
			g.Names = c.Pods.Names(in)
			c.groups[id] = g
		}
	}
	if known || c.mount == "" || len(c.groups) == mostCgroups {
		return g
	}
	return c.note(id, c.find(id))
}

// note keeps the path of a cgroup, and what its container is called.
func (c *Cgroups) note(id uint64, path string) container.Group {
	g := container.Group{Path: path, Names: c.names(container.Of(path))}
	c.groups[id] = g
	return g
}

// names returns what a container is called. As long as it has no name its files may not be written yet.
func (c *Cgroups) names(id container.ID) (n container.Names) {
	if id == (container.ID{}) {
		return n
	}
	c.naming.Lock()
	defer c.naming.Unlock()
	n, known := c.named[id]
	if known {
		return n
	}
	n = container.NamesOf(c.files, id)
	if c.Pods != nil && (n.Pod == "" || n.Container == "") {
		n = n.Or(c.Pods.Names(id))
	}
	if n != (container.Names{}) && len(c.named) < mostCgroups {
		c.named[id] = n
	}
	return n
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

// find opens the cgroup by its ID, which takes no search (Linux 5.5). It takes CAP_DAC_READ_SEARCH:
// without it, only the cgroups that are there at the first time have paths.
func (c *Cgroups) find(id uint64) string {
	if !c.tried {
		c.tried = true
		c.root, _ = os.Open(c.mount) // without it no path is known, and nothing else is
	}
	if c.root == nil {
		return ""
	}
	handle := unix.NewFileHandle(fileidKernfs, binary.NativeEndian.AppendUint64(nil, id))
	fd, err := unix.OpenByHandleAt(int(c.root.Fd()), handle, unix.O_PATH)
	if errors.Is(err, unix.EPERM) && !c.walked {
		c.walked = true
		c.walk()
		return c.groups[id].Path
	}
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil || strings.HasSuffix(path, " (deleted)") {
		return ""
	}
	return c.below(path)
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
	eachCgroup(c.mount, func(path string, id uint64) (below bool) {
		if len(c.groups) < mostCgroups && c.groups[id].Path == "" {
			c.note(id, c.below(path))
		}
		return true
	})
}

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
		case <-time.After(max(leastPause, pauses*time.Since(begin))):
		}
	}
}
