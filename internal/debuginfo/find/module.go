// SPDX-License-Identifier: Apache-2.0

package find

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// errNoModuleInfo says that a module has no debug info.
var errNoModuleInfo = errors.New("no debug info")

// Module returns the path, relative to root, of the debug info of a loaded module. root is
// that of the kernel's /proc and /sys.
func Module(root fs.FS, k Kernel, module string) (string, error) {
	notes, err := fs.ReadFile(root, "sys/module/"+module+"/notes/.note.gnu.build-id")
	if err != nil {
		return "", fmt.Errorf("build ID of module %s: %w", module, err)
	}
	id, err := parseNotes(notes, binary.NativeEndian)
	if err != nil {
		return "", fmt.Errorf("build ID of module %s: %w", module, err)
	}
	for _, file := range moduleCandidates(root, k, module, id) {
		if look(root, file, id) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("module %s: %w", module, errNoModuleInfo)
}

// moduleCandidates returns the paths where a module's debug info may be, the most reliable
// first.
func moduleCandidates(root fs.FS, k Kernel, module string, id BuildID) []string {
	paths := byBuildID(id, k.Caches)
	for _, folder := range []string{"usr/lib/modules/", "lib/modules/"} {
		folder += k.Release
		file, ok := moduleFile(root, folder, module)
		if !ok {
			continue
		}
		paths = append(paths,
			"usr/lib/debug/lib/modules/"+k.Release+"/"+file,              // Debian, Ubuntu
			"usr/lib/debug/lib/modules/"+k.Release+"/"+file+".debug",     // Fedora
			"usr/lib/debug/usr/lib/modules/"+k.Release+"/"+file+".debug", // openSUSE
			folder+"/build/"+strings.TrimPrefix(file, "kernel/"),         // who built it here
			folder+"/"+file) // not stripped
	}
	return paths
}

// moduleFile returns the file of a module as modules.dep names it, relative to its
// directory and without the suffix of compression.
func moduleFile(root fs.FS, folder, module string) (string, bool) {
	f, err := root.Open(folder + "/modules.dep")
	if err != nil {
		return "", false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		file, _, ok := strings.Cut(lines.Text(), ":")
		name, _, isModule := strings.Cut(path.Base(file), ".ko")
		if !ok || !isModule || strings.ReplaceAll(name, "-", "_") != module {
			continue
		}
		return file[:strings.LastIndex(file, ".ko")+len(".ko")], fs.ValidPath(file)
	}
	return "", false
}
