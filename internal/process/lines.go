// SPDX-License-Identifier: Apache-2.0

package process

import (
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
	"github.com/ksnoop/ksnoop/internal/elfhead"
	"github.com/ksnoop/ksnoop/internal/plural"
	"github.com/ksnoop/ksnoop/internal/regular"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// Lines say which debug info of mapped files is read, and for what.
type Lines struct {
	Root   string   // of the machine: "/"
	Caches []string // see find.CacheFolders
	// Inlined asks for functions that were inlined, not for lines alone.
	Inlined bool

	memory *debuginfo.Memory
}

// mostDebugInfo is how much memory the debug info of all files may take, in bytes. What is not compressed takes
// none itself.
const mostDebugInfo = 1 << 30

// mostInfos is how many files with debug info are mapped at once.
const mostInfos = 64

// A described is a file whose debug info is wanted: what it was mapped as, by which process, and its build ID.
type described struct {
	fs.File
	mapped fileID // with its name in the root directory of the process
	pid    uint32
	id     string // "" if it has none
}

// open returns the debug info of a file: that of its build ID, or what is in the file itself; nil if there is none.
// The error says why existing debug info cannot be read.
func (l *Lines) open(f *described) (*debuginfo.Info, error) {
	var errs []error
	o := debuginfo.Options{Memory: l.memory}
	for _, file := range find.Installed(l.Root, find.BuildID(f.id), l.Caches) {
		info, err := debuginfo.Open(file, o)
		if err == nil {
			return info, nil
		}
		if !errors.Is(err, debuginfo.ErrNone) {
			errs = append(errs, err)
		}
	}
	if bounded, ok := f.File.(*regular.File); ok {
		own := bounded.Unbounded()
		o.Beside = l.nameOf(own, f)
		info, err := debuginfo.OpenFile(own, string(terminal.AppendName(nil, f.mapped.path)), o)
		if err == nil {
			return info, nil
		}
		if !errors.Is(err, debuginfo.ErrNone) {
			errs = append(errs, err)
		}
	}
	return nil, errors.Join(errs...)
}

// named adds the name of a file to an error that does not have it.
func (f *described) named(err error) error {
	if regular.Unanswered(err) {
		return fmt.Errorf("%s: %w", f.mapped.path, err)
	}
	return err
}

// nameOf returns a name by which files beside one are found: ours, which lasts, or that of the process's root.
func (l *Lines) nameOf(own *os.File, f *described) string {
	info, err := own.Stat()
	if err != nil {
		return ""
	}
	for _, name := range []string{filepath.Join(l.Root, f.mapped.path), filepath.Join(l.Root, procOf(f.pid), "root", f.mapped.path)} {
		if found, err := os.Stat(name); err == nil && os.SameFile(info, found) {
			return name
		}
	}
	return ""
}

// there reports whether a file has debug info that could be opened.
func (l *Lines) there(f *described) bool {
	if len(find.Installed(l.Root, find.BuildID(f.id), l.Caches)) > 0 {
		return true
	}
	r, ok := f.File.(io.ReaderAt)
	if !ok {
		return false
	}
	head, err := elfhead.Open(r)
	if err != nil {
		return false
	}
	s := elfhead.DebugInfo(head)
	return s != nil && s.Type != elf.SHT_NOBITS
}

// unlined is what of debug info could not be read. Images that are dropped are read again, which adds the same.
type unlined struct {
	errs []string               // the first ones
	seen few[[sha256.Size]byte] // hashes of all errors, which may be long
	over few[fileID]            // files that were too many
}

// few is a set of up to mostSpaces.
type few[K comparable] map[K]bool

// add adds k, and reports whether it was not there and there was room.
func (f *few[K]) add(k K) bool {
	if *f == nil {
		*f = few[K]{}
	}
	if (*f)[k] || len(*f) >= mostSpaces {
		return false
	}
	(*f)[k] = true
	return true
}

// addOver counts a file that was too many. By its build ID it is one, whatever it was mapped as.
func (u *unlined) addOver(f *described) {
	id := f.mapped
	if f.id != "" {
		id = fileID{buildID: f.id, path: id.path}
	}
	u.over.add(id)
}

// add adds an error.
func (u *unlined) add(err error) {
	const most = 8
	if err == nil {
		return
	}
	text := string(terminal.AppendName(nil, strings.ReplaceAll(err.Error(), "\n", "; ")))
	if u.seen.add(sha256.Sum256([]byte(text))) && len(u.errs) < most {
		u.errs = append(u.errs, text)
	}
}

// addInfo keeps what debug info lacks that was opened.
func (u *unlined) addInfo(info *debuginfo.Info, inlined bool) {
	u.add(info.Err())
	if inlined { // lines are known without the other files
		u.add(info.Missing())
	}
}

// text says what could not be read; "" if that is nothing.
func (u *unlined) text() string {
	all := slices.Sorted(slices.Values(u.errs))
	if more := len(u.seen) - len(u.errs); more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	if n := len(u.over); n > 0 {
		all = append(all, fmt.Sprintf("%s had debug info that was not read, besides the first %d", plural.Of(n, "file{s}"), mostInfos))
	}
	return strings.Join(all, "; ")
}
