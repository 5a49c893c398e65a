// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
)

// Lines say which debug info of mapped files is read, and for what.
type Lines struct {
	Root   string   // of the machine: "/"
	Caches []string // see find.CacheFolders
	// Inlined asks for functions that were inlined, not for lines alone.
	Inlined bool

	memory *debuginfo.Memory
}

// mostDebugInfo is how much memory the debug info of all files may take, in bytes. What is not compressed takes none.
const mostDebugInfo = 1 << 30

// open returns the debug info of a file: that of its build ID, or what is in the file itself; nil if
// there is none, or none that can be read.
func (l *Lines) open(id string, f fs.File) *debuginfo.Info {
	build := find.BuildID(id)
	var files []string
	if file, ok := build.File(); ok {
		files = append(files, filepath.Join(l.Root, file))
		for _, folder := range l.Caches {
			files = append(files, filepath.Join(l.Root, folder, build.String(), "debuginfo"))
		}
	}
	if own, ok := f.(*os.File); ok { // a file of another mount namespace has no name here
		files = append(files, fmt.Sprintf("/proc/self/fd/%d", own.Fd()))
	}
	for _, file := range files {
		if info, err := debuginfo.Open(file, debuginfo.Options{Memory: l.memory}); err == nil {
			return info
		}
	}
	return nil
}
