// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
)

// cgroupMounts are where the unified hierarchy is mounted by convention.
var cgroupMounts = [...]string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}

// FindCgroup finds a control group by its path: in the file system, or below the mount, as events
// and /proc/PID/cgroup have it.
func FindCgroup(name string) (bpf.Cgroup, error) {
	path := name
	if !filepath.IsAbs(path) || !isCgroup(path) {
		for _, mount := range cgroupMounts {
			if isCgroup(filepath.Join(mount, name)) {
				path = filepath.Join(mount, name)
			}
		}
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return bpf.Cgroup{}, fmt.Errorf("%w; %s", err, whereCgroups(cgroupMount()))
	}
	if !isCgroup(path) {
		return bpf.Cgroup{}, fmt.Errorf("%s: not a control group (cgroup v2); %s", name, whereCgroups(cgroupMount()))
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return bpf.Cgroup{}, fmt.Errorf("%s: %w", name, err)
	}
	c := bpf.Cgroup{ID: st.Ino}
	for parent := filepath.Dir(path); isCgroup(parent); parent = filepath.Dir(parent) {
		c.Level++
	}
	return c, nil
}

// cgroupMount returns where the unified hierarchy is mounted; "" if it is not.
func cgroupMount() (mount string) {
	for _, at := range cgroupMounts {
		if isCgroup(at) {
			mount = at
		}
	}
	return mount
}

// whereCgroups says where there are control groups.
func whereCgroups(mount string) string {
	if mount == "" {
		return errNoCgroups.Error()
	}
	return "they are below " + mount
}

// errNoCgroups says that a machine has no unified hierarchy. The kernel tells of it alone which control group a task is in.
var errNoCgroups = fmt.Errorf("control groups of version 2 are not mounted at %s, and those of version 1 alone are not supported", strings.Join(cgroupMounts[:], " or "))

func isCgroup(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}
