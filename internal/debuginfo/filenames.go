// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"maps"
	"runtime/debug"
	"slices"
	"strings"
)

// Files returns the source files, other than headers, whose paths in the source tree begin with a
// prefix, sorted. Sources finds the code of each.
func (i *Info) Files(prefix string) (files []string) {
	defer i.recovered(debug.SetPanicOnFault(true))
	if i.Err() != nil || !i.sections.mention(prefix) || !i.ready() {
		return nil
	}
	touch(i.data, i.sections.line)
	seen := map[pathKey]bool{}
	found := map[string]bool{}
	u := &unit{sections: i.sections, main: i.sections}
	for c := (cursor{b: i.sections.line}); c.pos < len(c.b); {
		u.stmtList = uint64(c.pos)
		end, _ := c.length()
		if c.bad {
			break // later units cannot be found
		}
		c.pos = end
		u.lines.reset()
		u.addrSize = 8
		if _, ok := u.lines.header.read(u); !ok {
			continue
		}
		for n := range u.lines.header.files {
			u.addFile(&u.lines.header.files[n], prefix, seen, found)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// addFile adds the path of a file to found. Units share nearly all names, which seen remembers by
// where they are.
func (u *unit) addFile(file *lineFile, prefix string, seen map[pathKey]bool, found map[string]bool) {
	dirs := u.lines.header.dirs
	if file.name.form == formLineStrp && file.dir < uint64(len(dirs)) && dirs[file.dir].form == formLineStrp && len(seen) < mostTexts {
		key := pathKey{dirs[file.dir].n, file.name.n}
		if seen[key] {
			return
		}
		seen[key] = true
	}
	name := u.str(file.name)
	if !isSource(string(name)) {
		return
	}
	if path := u.sourcePath(file); strings.HasPrefix(path, prefix) {
		found[path] = true
	}
}

// isSource reports whether a file is compiled, by its name.
func isSource(name string) bool {
	return strings.HasSuffix(name, ".c") || strings.HasSuffix(name, ".S") || strings.HasSuffix(name, ".rs")
}
