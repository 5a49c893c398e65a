// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"path/filepath"

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
		return bpf.Cgroup{}, fmt.Errorf("%w; control groups (cgroup v2) are below %s", err, cgroupMounts[0])
	}
	if !isCgroup(path) {
		return bpf.Cgroup{}, fmt.Errorf("%s: not a control group (cgroup v2); they are below %s", name, cgroupMounts[0])
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

func isCgroup(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}
