// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// eventGroup begins the names of the groups that a process's events are in; its
// PID follows, that in the initial PID namespace, and process. The library, which makes
// events of kretprobes, adds a number that it draws.
const eventGroup = "ksnoop_"

// process tells this process from one before it that had its PID, and was killed.
var process = rand.Text()[:nonce]

// nonce is how many random characters end names.
const nonce = 10

// tracefsDirs are where tracefs may be mounted.
var tracefsDirs = [...]string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// A tracefs is where events are defined.
type tracefs struct {
	dirs []string // where it may be mounted
	// open opens a file to append to it.
	open func(name string) (io.WriteCloser, error)
}

func mountedTracefs() tracefs { return tracefs{tracefsDirs[:], openAppend} }

func openAppend(name string) (io.WriteCloser, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
}

// events opens the file that defines kprobe events.
func (fsys tracefs) events() (f io.WriteCloser, dir string, err error) {
	for _, dir := range fsys.dirs {
		f, err = fsys.open(filepath.Join(dir, "kprobe_events"))
		if err == nil {
			return f, dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, "", err
		}
	}
	return nil, "", noTracefs(err)
}

// groups lists the groups that the kernel's events are in.
func (fsys tracefs) groups() (dir string, groups []fs.DirEntry, err error) {
	for _, dir := range fsys.dirs {
		groups, err = os.ReadDir(filepath.Join(dir, "events"))
		if !errors.Is(err, fs.ErrNotExist) {
			return dir, groups, err
		}
	}
	return "", nil, noTracefs(err)
}

// noTracefs says what to do about a file of tracefs that is nowhere.
func noTracefs(err error) error {
	return fmt.Errorf("%w; tracefs is not mounted: mount -t tracefs tracefs %s", err, tracefsDirs[0])
}
