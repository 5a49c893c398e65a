// SPDX-License-Identifier: Apache-2.0

package process

import (
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/ksnoop/ksnoop/internal/debuginfo/find"
	"github.com/ksnoop/ksnoop/internal/elfhead"
	"github.com/ksnoop/ksnoop/internal/regular"
)

// A Mapped is a file that a process has mapped as code.
type Mapped struct {
	pid uint32
	mapping
}

// MappedFiles returns the files that a process has mapped as code, each once, by their addresses. root is that of the machine.
func MappedFiles(root fs.FS, pid uint32) ([]Mapped, error) {
	maps, err := readMaps(root, pid)
	if err != nil {
		return nil, err
	}
	var files []Mapped
	seen := map[fileID]bool{}
	for _, m := range maps {
		if m.file.named() && !seen[m.file] {
			seen[m.file] = true
			files = append(files, Mapped{pid, m})
		}
	}
	return files, nil
}

// Path returns the file's name, in the root directory of the process.
func (m *Mapped) Path() string { return m.file.path }

// Open opens the file. It returns nil if that is not to be had any more, or its file system does not answer.
func (m *Mapped) Open(root fs.FS) fs.File {
	f, _ := openMapped(root, m.pid, &m.mapping)
	return f
}

// Bias returns how far the addresses of the process are from those that the file, which has these segments, was linked for.
func (m *Mapped) Bias(segments []elf.ProgHeader) (uint64, bool) {
	// A segment is mapped from the start of its first page, which may also hold the end of another segment. Pages
	// have at least 4 KiB, and at most what segments are aligned to. Most have 4 KiB, so these are tried first: with
	// larger ones, an offset in the other segment could be taken for one in this.
	for _, largest := range []uint64{pageSize, math.MaxUint64} {
		for _, p := range segments {
			page := min(max(p.Align, pageSize), largest)
			if p.Flags&elf.PF_X != 0 && m.offset >= p.Off&^(page-1) && m.offset < p.Off+p.Filesz {
				return m.start - (m.offset - p.Off + p.Vaddr), true
			}
		}
	}
	return 0, false
}

// pageSize is the smallest of all.
const pageSize = 4096

// linkedAt returns the linked address of the byte at a file offset.
func linkedAt(segments []elf.ProgHeader, offset uint64) (uint64, bool) {
	for _, p := range segments {
		if offset >= p.Off && offset-p.Off < p.Filesz {
			return offset - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}

// openMapped opens a mapped file: the mapped inode itself, if the kernel allows that, or else the
// file of that name in the process's root directory or, after its end, in ours, if it has not
// been replaced. It returns nil if there is none, and an error if a file system does not answer.
func openMapped(root fs.FS, pid uint32, m *mapping) (fs.File, error) {
	return openIf(root, pid, m, m.file.is)
}

// openIf is openMapped for a file that somebody else knows to be the one that was mapped.
func openIf(root fs.FS, pid uint32, m *mapping, is func(f fs.File) bool) (fs.File, error) {
	if !m.file.named() {
		return nil, nil
	}
	for _, name := range []string{
		fmt.Sprintf("proc/%d/map_files/%x-%x", pid, m.start, m.end),
		path.Join("proc", strconv.Itoa(int(pid)), "root", m.file.path),
		strings.TrimPrefix(path.Clean(m.file.path), "/"),
	} {
		f, err := regular.OpenIn(root, name, 0)
		if regular.Unanswered(err) {
			return nil, err
		}
		if err != nil {
			continue
		}
		if is(f) {
			return f, nil
		}
		late := unanswered(f)
		f.Close()
		if late != nil {
			return nil, late
		}
	}
	return nil, nil
}

// unanswered returns an error if the file system of a file did not answer.
func unanswered(f fs.File) error {
	if own, ok := f.(*regular.File); ok {
		return own.Late()
	}
	return nil
}

// named reports whether there is a file, by its name.
func (id *fileID) named() bool { return strings.HasPrefix(id.path, "/") && id.path != anonymous }

// is reports whether a file is the one that was mapped.
func (id *fileID) is(f fs.File) bool {
	if id.buildID != "" {
		r, ok := f.(io.ReaderAt)
		if !ok {
			return false
		}
		head, err := elfhead.Open(r)
		if err != nil {
			return false
		}
		got, err := find.ELFBuildID(head)
		return err == nil && string(got) == id.buildID
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return !ok || strconv.FormatUint(stat.Ino, 10) == id.inode
}
