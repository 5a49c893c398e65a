// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// mostCgroups is of how many cgroups the paths are kept. Those of more are not looked for.
const mostCgroups = 1 << 16

// A Cgroups finds the paths of cgroups of version 2 by their IDs, each once: what is printed and
// what is recorded say the same, also when the cgroup is gone. It is safe for concurrent use.
type Cgroups struct {
	mount string

	mu     sync.Mutex
	root   *os.File // of the hierarchy; nil before it is opened, or if it cannot be
	tried  bool     // to open it
	walked bool
	paths  map[uint64]string // "": it is not known
}

// NewCgroups returns the cgroups of the running kernel.
func NewCgroups() *Cgroups {
	c := &Cgroups{paths: map[uint64]string{}}
	for _, mount := range cgroupMounts {
		if isCgroup(mount) {
			c.mount = mount
		}
	}
	return c
}

// Path returns the path of a cgroup below the mount, "/" for the mount itself; "" if it is not
// known.
func (c *Cgroups) Path(id uint64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	path, known := c.paths[id]
	if known || c.mount == "" || len(c.paths) == mostCgroups {
		return path
	}
	path = c.find(id)
	c.paths[id] = path
	return path
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
		return c.paths[id]
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
	_ = filepath.WalkDir(c.mount, func(path string, d fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && d.IsDir() && len(c.paths) < mostCgroups && unix.Stat(path, &st) == nil {
			c.paths[st.Ino] = c.below(path)
		}
		return nil // one that is gone has no path
	})
}
