// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// testModules are the sources of modules that tests load, below the root of the
// source tree.
const testModules = "internal/vm/testdata/module/*.c"

// TestModules builds the modules that tests load for a kernel. They lie in the
// guest's folder /lib/ksnoop.
func TestModules(ctx context.Context, k Kernel) ([]File, error) {
	root, err := moduleRoot(".")
	if err != nil {
		return nil, err
	}
	cache, err := DefaultCache()
	if err != nil {
		return nil, err
	}
	sources, err := filepath.Glob(filepath.Join(root, testModules))
	if err != nil {
		return nil, err
	}
	var files []File
	for _, source := range sources {
		ko, err := cache.buildModule(ctx, k, source)
		if err != nil {
			return nil, fmt.Errorf("build %s for kernel %s: %w", filepath.Base(source), k.Release, err)
		}
		files = append(files, File{Guest: "/lib/ksnoop/" + strings.TrimSuffix(filepath.Base(source), ".c") + ".ko", Host: ko})
	}
	return files, nil
}

// buildModule compiles a module, or finds the result of the last time.
func (c *Cache) buildModule(ctx context.Context, k Kernel, source string) (string, error) {
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	name := strings.TrimSuffix(filepath.Base(source), ".c")
	sum := sha256.Sum256(text)
	out := filepath.Join(c.Dir, "modules", fmt.Sprintf("%s-%s-%x.ko", name, k.Release, sum[:8]))
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Dir(out), ".new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	tree, err := c.buildTree(ctx, k, dir)
	if err != nil {
		return "", err
	}
	work := filepath.Join(dir, "module")
	if err := os.Mkdir(work, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(work, name+".c"), text, 0o644); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(work, "Makefile"), []byte("obj-m := "+name+".o\n"), 0o644); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "make", "-s", "-C", tree, "M="+work, "CC=gcc", "modules")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, msg)
	}
	// Renaming makes it appear whole.
	return out, os.Rename(filepath.Join(work, name+".ko"), out)
}

// buildTree makes the folder that modules of a kernel are built in, below dir.
// Its files are those of the kernel's headers, whose packages expect each
// other below /usr.
func (c *Cache) buildTree(ctx context.Context, k Kernel, dir string) (string, error) {
	headers, err := c.Fetch(ctx, "linux-headers-"+k.Release)
	if err != nil {
		return "", err
	}
	fields, err := c.show(ctx, headers.Name)
	if err != nil {
		return "", err
	}
	var common, kbuild Package
	for dep := range strings.SplitSeq(fields["Depends"], ",") {
		dep, _, _ = strings.Cut(strings.TrimSpace(dep), " ")
		switch {
		case strings.HasPrefix(dep, "linux-headers-") && strings.HasSuffix(dep, "-common"):
			common, err = c.Fetch(ctx, dep)
		case strings.HasPrefix(dep, "linux-kbuild-"):
			kbuild, err = c.Fetch(ctx, dep)
		}
		if err != nil {
			return "", err
		}
	}
	if common.Dir == "" || kbuild.Dir == "" {
		return "", fmt.Errorf("%s depends on no headers and build tools: %q", headers.Name, fields["Depends"])
	}
	tools, err := filepath.Glob(filepath.Join(kbuild.Dir, "usr/lib/linux-kbuild-*"))
	if err != nil || len(tools) != 1 {
		return "", fmt.Errorf("%s has no build tools", kbuild.Name)
	}
	source := filepath.Join(dir, "usr/src", filepath.Base(common.Name))
	if err := linkAll(filepath.Join(common.Dir, "usr/src", common.Name), source, tools[0]); err != nil {
		return "", err
	}
	tree := filepath.Join(dir, "tree")
	if err := linkAll(filepath.Join(headers.Dir, "usr/src", headers.Name), tree, tools[0]); err != nil {
		return "", err
	}
	makefile := []byte("include " + filepath.Join(source, "Makefile") + "\n")
	return tree, errors.Join(os.Remove(filepath.Join(tree, "Makefile")),
		os.WriteFile(filepath.Join(tree, "Makefile"), makefile, 0o644))
}

// linkAll makes a folder with links to all that is in another one, and to the
// build tools. Types are left out, which would need yet more tools.
func linkAll(from, to, tools string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		target := filepath.Join(from, e.Name())
		switch e.Name() {
		case "scripts", "tools":
			target = filepath.Join(tools, e.Name())
		case "vmlinux":
			continue
		}
		if err := os.Symlink(target, filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
