// SPDX-License-Identifier: Apache-2.0

package find

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/elfhead"
	"github.com/ksnoop/ksnoop/internal/regular"
)

// A Why is a reason not to use a file.
type Why uint8

const (
	Missing     Why = iota + 1 // it does not exist
	Unreadable                 // it cannot be read
	NotELF                     // it is not an ELF file
	NoBuildID                  // it does not say which kernel it belongs to
	OtherKernel                // it belongs to another kernel
	NoDebugInfo                // it belongs to the kernel, but was stripped
)

// A Refusal is a file that was looked at but not used.
type Refusal struct {
	Path string // relative to the root; "" for a file that the user gave
	Why  Why
	Err  error   // for Unreadable and NotELF
	ID   BuildID // for OtherKernel
}

func (r *Refusal) Error() string {
	file := "the file"
	if r.Path != "" {
		file = "/" + r.Path
	}
	switch r.Why {
	case Missing:
		return file + ": not there"
	case Unreadable, NotELF:
		return fmt.Sprintf("%s: %v", file, r.Err)
	case NoBuildID:
		return file + ": has no build ID, so it is not known which kernel it belongs to"
	case OtherKernel:
		return file + ": belongs to another kernel, build ID " + r.ID.String()
	}
	return file + ": has no debug info"
}

func (r *Refusal) Unwrap() error { return r.Err }

// An AbsentError says that a kernel's debug info was not found.
type AbsentError struct {
	Kernel Kernel
	Looked []*Refusal // in the order of preference
	Offer  Offer
}

func (e *AbsentError) Error() string {
	msg := "no debug info of kernel " + e.Kernel.Release
	for _, r := range e.Looked {
		if r.Why != Missing {
			msg += "; " + r.Error()
		}
	}
	if e.Offer.Command != "" {
		return msg + "; to get it: " + e.Offer.Command
	}
	return msg + "; put it at /usr/lib/debug/boot/vmlinux-" + e.Kernel.Release
}

// candidates returns the paths, relative to the root, where distributions and developers
// put a kernel's debug info, the most reliable first.
func (k Kernel) candidates() []string {
	var paths []string
	paths = append(paths, byBuildID(k.BuildID, k.Caches)...)
	if !fs.ValidPath(k.Release) { // the kernel's word, but it becomes part of a path
		return paths
	}
	for _, format := range []string{
		"usr/lib/debug/boot/vmlinux-%s",                  // Debian, Ubuntu
		"usr/lib/debug/lib/modules/%s/vmlinux",           // Fedora
		"usr/lib/debug/usr/lib/modules/%s/vmlinux",       // Fedora since 41
		"usr/lib/debug/usr/lib/modules/%s/vmlinux.debug", // openSUSE
		"usr/lib/debug/boot/vmlinux-%s.debug",
		"usr/lib/modules/%s/build/vmlinux", // Arch; also kernels built on this machine
		"lib/modules/%s/build/vmlinux",
		"usr/lib/modules/%s/vmlinux",
		"lib/modules/%s/vmlinux",
		"boot/vmlinux-%s",
	} {
		paths = append(paths, fmt.Sprintf(format, k.Release))
	}
	return paths
}

// byBuildID returns where the debug info for a build ID may be, relative to the root: where it is installed, and then in
// each cache. It returns nothing if there is no ID.
func byBuildID(id BuildID, caches []string) []string {
	file, ok := id.File()
	if !ok {
		return nil
	}
	paths := []string{file}
	for _, folder := range caches {
		paths = append(paths, folder+"/"+id.String()+"/debuginfo")
	}
	return paths
}

// Installed returns the files below root that may have the debug info for a build ID. In a cache, debuginfod's client leaves an empty
// file for an ID that no server knows. A cache may also be in a home that root may not enter (NFS). No debug info is missing then.
func Installed(root string, id BuildID, caches []string) (files []string) {
	for i, file := range byBuildID(id, caches) {
		file = filepath.Join(root, file)
		info, err := os.Stat(file)
		cached := i > 0
		if err == nil && info.Mode().IsRegular() && info.Size() > 0 || err != nil && !cached && !errors.Is(err, fs.ErrNotExist) {
			files = append(files, file)
		}
	}
	return files
}

// CacheFolders returns where debuginfod's client stores files, according to the
// environment; also for the user who became root with sudo.
func CacheFolders(environ func(name string) string) []string {
	var folders []string
	add := func(base, rest string) {
		folder := strings.TrimPrefix(path.Join(base, rest), "/")
		if path.IsAbs(base) && fs.ValidPath(folder) && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	add(environ("DEBUGINFOD_CACHE_PATH"), "")
	add(environ("XDG_CACHE_HOME"), "debuginfod_client")
	add(environ("HOME"), ".cache/debuginfod_client")
	if user := environ("SUDO_USER"); user != "" && !strings.Contains(user, "/") {
		add("/home", user+"/.cache/debuginfod_client")
	}
	return folders
}

// Find returns the path of a kernel's debug info, relative to root, or an *AbsentError.
func Find(root fs.FS, k Kernel) (string, error) {
	absent := &AbsentError{Kernel: k}
	for _, path := range k.candidates() {
		refusal := look(root, path, k.BuildID)
		if refusal == nil {
			return path, nil
		}
		refusal.Path = path
		absent.Looked = append(absent.Looked, refusal)
	}
	absent.Offer = offer(root, k)
	return "", absent
}

// look tries one path. A nil result means that the file is the right one.
func look(root fs.FS, path string, id BuildID) *Refusal {
	f, err := regular.OpenIn(root, path, 0) // some are in folders of users, see CacheFolders
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return &Refusal{Why: Missing, Err: fs.ErrNotExist}
		}
		return &Refusal{Why: Unreadable, Err: Cause(err)}
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() == 0 { // debuginfod's client leaves that for what no server has
		return &Refusal{Why: Missing, Err: fs.ErrNotExist}
	}
	r, ok := f.(io.ReaderAt)
	if !ok {
		return &Refusal{Why: Unreadable, Err: errors.New("cannot be read at an offset")}
	}
	return check(r, id)
}

// Check returns nil if a file is the debug info of the kernel with this build ID, or else a
// *Refusal.
func Check(file io.ReaderAt, id BuildID) error {
	if r := check(file, id); r != nil {
		return r
	}
	return nil
}

// check opens the file as ELF, and compares the build ID before it looks for debug info.
func check(file io.ReaderAt, id BuildID) *Refusal {
	f, err := elfhead.Open(file)
	if err != nil {
		var format *elf.FormatError
		if errors.As(err, &format) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return &Refusal{Why: NotELF, Err: fmt.Errorf("no ELF file: %w", err)}
		}
		return &Refusal{Why: Unreadable, Err: Cause(err)}
	}
	own, err := ELFBuildID(f)
	if err != nil {
		return &Refusal{Why: NoBuildID}
	}
	if !bytes.Equal(own, id) {
		return &Refusal{Why: OtherKernel, ID: own}
	}
	// If the debug info was split off, the section may remain without contents.
	s := elfhead.DebugInfo(f)
	if s == nil || s.Type == elf.SHT_NOBITS || s.Size == 0 {
		return &Refusal{Why: NoDebugInfo}
	}
	return nil
}

// Cause returns an error's text without the path, for callers that have named the file
// already.
func Cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
