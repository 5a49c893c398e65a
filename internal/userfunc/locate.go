// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/ksnoop/ksnoop/internal/regular"
)

// triplets are the folders of libraries where a distribution keeps those of several
// architectures. It is never changed.
var triplets = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}

// Locate returns the absolute path of a file. A name without a slash is one of a library, with
// or without its version ("libc.so.6", "libc"), or of a program that a shell would find. path is
// the variable PATH.
func Locate(name, path, arch string) (string, error) {
	if strings.Contains(name, "/") {
		return filepath.Abs(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if file := filepath.Join(dir, name); filepath.IsAbs(dir) && isFile(file) {
			return filepath.EvalSymlinks(file)
		}
	}
	for _, dir := range libraryFolders(arch) {
		for _, pattern := range []string{name, name + ".so", name + ".so.*"} {
			found, _ := filepath.Glob(filepath.Join(dir, pattern))
			for _, file := range found {
				if isELF(file) {
					return filepath.EvalSymlinks(file)
				}
			}
		}
	}
	return "", errors.New("neither a folder of PATH nor one of libraries has it")
}

// Opener returns a function that opens files by name, each once.
func Opener(path, arch string) func(name string) (*File, error) {
	type opened struct {
		file *File
		err  error
	}
	known := map[string]opened{}
	return func(name string) (*File, error) {
		o, ok := known[name]
		if !ok {
			var file string
			if file, o.err = Locate(name, path, arch); o.err == nil {
				o.file, o.err = Open(file, arch)
			}
			known[name] = o
		}
		return o.file, o.err
	}
}

// libraryFolders are where the dynamic linker looks for libraries.
func libraryFolders(arch string) (dirs []string) {
	for _, root := range []string{"/lib", "/usr/lib", "/usr/local/lib"} {
		dirs = append(dirs, root+"/"+triplets[arch], root+"64", root)
	}
	lists, _ := filepath.Glob("/etc/ld.so.conf.d/*.conf")
	for _, list := range append(lists, "/etc/ld.so.conf") {
		text, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); filepath.IsAbs(line) {
				dirs = append(dirs, line)
			}
		}
	}
	return dirs
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// isELF tells libraries from scripts of the linker, which have their names.
func isELF(path string) bool {
	f, err := regular.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	_, err = f.Read(magic[:])
	return err == nil && string(magic[:]) == "\x7fELF"
}
