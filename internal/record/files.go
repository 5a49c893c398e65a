// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/ksnoop/ksnoop/internal/kernel"
)

// Limits on all files of a recording. A Debian kernel with a hundred modules has some 60
// MiB.
const (
	maxFiles = 4096
	maxBytes = 128 << 20 // with their names
	maxName  = 4096      // PATH_MAX
)

// A fileTree holds the files of a recording as a file system: the useful parts of /proc and
// /sys of the traced kernel.
type fileTree map[string][]byte

var _ fs.ReadDirFS = fileTree(nil)

// add copies a file from root. A missing file is not an error, since not every kernel has
// all of them.
func (t fileTree) add(root fs.FS, name string) error {
	data, err := fs.ReadFile(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	t[name] = data
	return nil
}

// appendBlock appends a file as the contents of a block.
func (t fileTree) appendBlock(dst []byte, name string) []byte {
	dst = append(append(dst, name...), 0)
	return append(dst, t[name]...)
}

// addBlock is the inverse of appendBlock. The tree keeps the memory of block.
func (t fileTree) addBlock(block []byte) error {
	name, data, ok := bytes.Cut(block, []byte{0})
	if !ok || len(name) > maxName || !fs.ValidPath(string(name)) || t[string(name)] != nil {
		return damaged("a file has a wrong name")
	}
	size := len(name) + len(data)
	for other, data := range t {
		size += len(other) + len(data)
	}
	if len(t) >= maxFiles || size > maxBytes {
		return damaged("it has more than %d files, or %d bytes of them", maxFiles, maxBytes)
	}
	if n := bytes.Count(data, []byte("\n")); string(name) == symbolFile && n > kernel.MaxSymbols {
		return damaged("it has %d symbols, more than %d", n, kernel.MaxSymbols)
	}
	t[string(name)] = data[:len(data):len(data)]
	return nil
}

// ReadDir implements fs.ReadDirFS.
func (t fileTree) ReadDir(name string) ([]fs.DirEntry, error) {
	if !fs.ValidPath(name) {
		return nil, pathError("readdir", name, fs.ErrInvalid)
	}
	found := make(map[string]fs.DirEntry)
	for file, data := range t {
		rest, ok := strings.CutPrefix(file, name+"/")
		if name == "." {
			rest, ok = file, true
		}
		if !ok {
			continue
		}
		base, _, dir := strings.Cut(rest, "/")
		found[base] = fs.FileInfoToDirEntry(node{name: base, size: len(data), dir: dir})
	}
	if len(found) == 0 && name != "." {
		return nil, pathError("readdir", name, fs.ErrNotExist)
	}
	entries := make([]fs.DirEntry, 0, len(found))
	for _, base := range slices.Sorted(maps.Keys(found)) {
		entries = append(entries, found[base])
	}
	return entries, nil
}

// Open implements fs.FS.
func (t fileTree) Open(name string) (fs.File, error) {
	if data, ok := t[name]; ok {
		return &file{node{name: path.Base(name), size: len(data)}, bytes.NewReader(data)}, nil
	}
	entries, err := t.ReadDir(name)
	if err != nil {
		return nil, pathError("open", name, errors.Unwrap(err))
	}
	return &dir{node{name: path.Base(name), dir: true}, entries}, nil
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// A node describes a file or a directory.
type node struct {
	name string
	size int
	dir  bool
}

func (n node) Name() string       { return n.name }
func (n node) ModTime() time.Time { return time.Time{} }
func (n node) IsDir() bool        { return n.dir }
func (n node) Sys() any           { return nil }

func (n node) Size() int64 {
	if n.dir {
		return 0
	}
	return int64(n.size)
}

func (n node) Mode() fs.FileMode {
	if n.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// A file is an open file.
type file struct {
	node
	*bytes.Reader
}

func (f *file) Stat() (fs.FileInfo, error) { return f.node, nil }
func (f *file) Close() error               { return nil }
func (f *file) Size() int64                { return f.node.Size() } // both embedded types have Size

// A dir is an open directory.
type dir struct {
	node
	rest []fs.DirEntry
}

func (d *dir) Stat() (fs.FileInfo, error) { return d.node, nil }
func (d *dir) Close() error               { return nil }

func (d *dir) Read([]byte) (int, error) {
	return 0, pathError("read", d.name, errors.New("is a directory"))
}

// ReadDir implements fs.ReadDirFile.
func (d *dir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(d.rest)
	} else if len(d.rest) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.rest))
	entries := d.rest[:n]
	d.rest = d.rest[n:]
	return entries, nil
}

// symbolFile includes the symbols of trampolines if it is read after attaching.
const symbolFile = "proc/kallsyms"
