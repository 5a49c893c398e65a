// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/regular"
)

// A held says where the map of a process that generates code is, and to whom it must belong. What a
// process in a container sees as /tmp cannot be found any more when the process has ended.
type held struct {
	name  string
	owner uint32
	tmp   *os.File // its /tmp, kept open; nil if that is ours
}

// perfMapOf returns the place of the map of a process with this number in our /tmp.
func perfMapOf(number string, owner uint32) *held {
	return &held{name: "perf-" + number + ".map", owner: owner}
}

// open opens the map.
func (h *held) open(root fs.FS) (path string, f fs.File) {
	if h.tmp == nil {
		return h.openIn(root, "tmp/")
	}
	return h.openIn(os.DirFS(fmt.Sprintf("/proc/self/fd/%d", h.tmp.Fd())), "")
}

// openIn opens the map in a directory of root, whose name ends with a slash.
func (h *held) openIn(root fs.FS, dir string) (path string, f fs.File) {
	f, err := regular.OpenIn(root, dir+h.name, unix.O_NOFOLLOW)
	if err != nil {
		return "", nil
	}
	info, err := f.Stat()
	if err != nil || ownerOf(info) != 0 && ownerOf(info) != h.owner {
		f.Close()
		return "", nil
	}
	return "/tmp/" + h.name, f
}

func ownerOf(info fs.FileInfo) uint32 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Uid
	}
	return 0
}
