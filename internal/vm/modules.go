// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A module is a kernel module's name and its uncompressed file.
type module struct {
	name string
	data []byte
}

// modules returns what must be inserted, in order, to have the named modules.
// Those that are built into the kernel need nothing. The packages carry no
// modules.dep, which is made at installation, so the modules themselves are asked.
func (k Kernel) modules(names ...string) ([]module, error) {
	l := loader{files: map[string]string{}, done: map[string]bool{}}
	if err := l.readBuiltin(k.builtin); err != nil {
		return nil, err
	}
	if k.Modules == "" {
		return nil, nil // what is not built in is missed when it is used
	}
	err := filepath.WalkDir(k.Modules, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(d.Name(), ".ko") {
			l.files[moduleName(path)] = path
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := l.add(strings.ReplaceAll(name, "-", "_")); err != nil {
			return nil, fmt.Errorf("module %s of kernel %s: %w", name, k.Release, err)
		}
	}
	return l.order, nil
}

// readBuiltin reads the list of what is built in. Without one, a module that is no
// file counts as built in.
func (l *loader) readBuiltin(file string) error {
	if file == "" {
		l.guess = true
		return nil
	}
	builtin, err := os.Open(file)
	if err != nil {
		return err
	}
	defer builtin.Close()
	lines := bufio.NewScanner(builtin)
	for lines.Scan() {
		l.done[moduleName(lines.Text())] = true
	}
	return lines.Err()
}

// moduleName is the module's own name: files have dashes where it has underscores.
func moduleName(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

type loader struct {
	files map[string]string // by module name
	done  map[string]bool   // built in or in order
	guess bool              // it is not known what is built in
	order []module
}

// add appends the module after those that it depends on.
func (l *loader) add(name string) error {
	if l.done[name] {
		return nil
	}
	l.done[name] = true
	file, ok := l.files[name]
	if !ok && l.guess {
		return nil
	}
	if !ok {
		return errors.New("neither built in nor in the package")
	}
	data, err := readModule(file)
	if err != nil {
		return err
	}
	deps, err := moduleDepends(data)
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(file), err)
	}
	for _, dep := range deps {
		if err := l.add(dep); err != nil {
			return err
		}
	}
	l.order = append(l.order, module{name, data})
	return nil
}

// readModule reads a module's file, which newer packages compress.
func readModule(file string) ([]byte, error) {
	if strings.HasSuffix(file, ".ko") {
		return os.ReadFile(file)
	}
	return exec.Command("xz", "--decompress", "--stdout", "--", file).Output()
}

func moduleDepends(data []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, errors.New("no .modinfo section")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for entry := range strings.SplitSeq(string(info), "\x00") {
		if deps, ok := strings.CutPrefix(entry, "depends="); ok && deps != "" {
			names := strings.Split(deps, ",")
			for i := range names {
				names[i] = strings.ReplaceAll(names[i], "-", "_")
			}
			return names, nil
		}
	}
	return nil, nil
}
