// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"path"
	"strings"
)

// path returns the path of a file as the compiler knew it, absolute or relative to the
// build directory.
func (u *unit) path(i uint16, relative bool) string {
	t := &u.lines
	if p, ok := t.paths[i]; ok {
		return p
	}
	f, ok := t.header.file(i)
	if !ok {
		return ""
	}
	p := u.join(f)
	if relative {
		p = relativePath(p, string(u.compDir))
	}
	if len(p) > mostPath {
		return ""
	}
	if t.pathText += len(p); t.paths == nil || t.pathText > mostPaths {
		t.paths, t.pathText = map[uint16]string{}, len(p)
	}
	t.paths[i] = p
	return p
}

// Limits on paths, which files of a unit may have parts of in common.
const (
	mostPath  = 4096    // the kernel's PATH_MAX
	mostPaths = 1 << 16 // bytes of those that a unit remembers
)

// join puts a path together from the build directory, the file's directory and its name,
// each of which may be absolute.
func (u *unit) join(f lineFile) string {
	h := &u.lines.header
	name := string(u.strIn(u.main, f.name))
	if strings.HasPrefix(name, "/") {
		return name
	}
	dir, own := "", false
	if h.version >= 5 {
		own = f.dir == 0 // the first directory is that of the build
		if f.dir < uint64(len(h.dirs)) {
			dir = string(u.strIn(u.main, h.dirs[f.dir]))
		}
	} else if f.dir > 0 && f.dir <= uint64(len(h.dirs)) {
		dir = string(u.strIn(u.main, h.dirs[f.dir-1]))
	}
	if !own && !strings.HasPrefix(dir, "/") {
		dir = joinPath(string(u.compDir), dir)
	}
	return joinPath(dir, name)
}

// joinPath joins without cleaning, unlike path.Join: in debug info, "a/../b" may be all
// that tells where b was built.
func joinPath(dir, name string) string {
	switch {
	case dir == "":
		return name
	case name == "":
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/" + strings.TrimPrefix(name, "/")
}

// sourcePath returns the path of a file in the source tree, as far as the line table tells.
func (u *unit) sourcePath(f *lineFile) string {
	root := ""
	if dirs := u.lines.header.dirs; u.lines.header.version >= 5 && len(dirs) > 0 {
		root = string(u.str(dirs[0]))
	}
	return relativePath(u.join(*f), root)
}

// relativePath removes the build directory from a path. Debian builds in a directory inside
// the source tree. Assembler units have absolute paths, from which the tree must be removed
// too.
func relativePath(file, root string) string {
	tree, _, _ := strings.Cut(root, "/debian/build/")
	for _, folder := range []string{root, tree} {
		if rest, ok := strings.CutPrefix(file, folder); ok && folder != "" && strings.HasPrefix(rest, "/") {
			file = strings.TrimLeft(rest, "/")
			break
		}
	}
	file = strings.TrimPrefix(file, "./")
	if strings.Contains(file, "/../") {
		return path.Clean(file) // for paths such as drivers/gpu/drm/amd/amdgpu/../display
	}
	return file
}
