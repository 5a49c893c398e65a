// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// testModules are the sources of modules that tests load, below the root of the
// source tree. Those in the folder btf have types.
const testModules = "internal/vm/testdata/module"

// ErrNoHeaders says that Debian has no headers of the kernel any more, without
// which no module can be built for it: its backports keep images longer.
var ErrNoHeaders = errors.New("no headers of this kernel in Debian any more")

// NoModules is a file for guests without the modules, which says why.
func NoModules(why error) File {
	return File{Guest: guest.NoModules, Data: []byte(why.Error() + "\n")}
}

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
	plain, err := filepath.Glob(filepath.Join(root, testModules, "*.c"))
	if err != nil {
		return nil, err
	}
	typed, err := filepath.Glob(filepath.Join(root, testModules, "btf", "*.c"))
	if err != nil {
		return nil, err
	}
	var files []File
	for _, source := range slices.Concat(plain, typed) {
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
	compiler, err := writeCompiler(dir, k.Arch)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "make", "-s", "-C", tree, "M="+work, "CC="+compiler,
		"ARCH="+kernelArch(k.Arch), "CROSS_COMPILE="+crossPrefix(k.Arch), "modules")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, msg)
	}
	if filepath.Base(filepath.Dir(source)) == "btf" {
		if err := c.addTypes(ctx, k, filepath.Join(work, name+".ko")); err != nil {
			return "", err
		}
	}
	// Renaming makes it appear whole.
	return out, os.Rename(filepath.Join(work, name+".ko"), out)
}

// addTypes adds BTF to a module that has debug info, if the headers have the kernel's
// types: those of 6.1 have not. The kernel's makefiles would take what pahole can do
// from the one that the kernel was built with.
func (c *Cache) addTypes(ctx context.Context, k Kernel, module string) error {
	headers, err := c.Fetch(ctx, "linux-headers-"+k.Release+":"+k.Arch)
	if err != nil {
		return err
	}
	base := filepath.Join(headers.Dir, "usr/src/linux-headers-"+k.Release, "vmlinux") // nothing but its types
	if _, err := os.Stat(base); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if msg, err := exec.CommandContext(ctx, "pahole", "-J", "--btf_base", base, module).CombinedOutput(); err != nil {
		return fmt.Errorf("%w, adding BTF\n%s", err, msg)
	}
	return nil
}

// kernelArch is what the kernel's makefiles call an architecture.
func kernelArch(arch string) string {
	if arch == "amd64" {
		return "x86"
	}
	return arch
}

// writeCompiler writes a script that stands for the compiler. The kernel was built
// by a newer one than this machine may have; its makefiles do not ask again what
// the compiler can do, so what an older one does not know is taken out.
func writeCompiler(dir, arch string) (string, error) {
	gcc := crossPrefix(arch) + "gcc"
	file := filepath.Join(dir, "gcc")
	script := `#!/bin/sh
for arg; do
	shift
	case $arg in
	-fmin-function-alignment=*) arg=-falign-functions=${arg#*=} ;; # gcc 14
	-fdiagnostics-show-context=*) continue ;; # gcc 16
	esac
	set -- "$@" "$arg"
done
exec ` + gcc + ` "$@"
`
	return file, os.WriteFile(file, []byte(script), 0o755)
}

// buildTree makes the folder that modules of a kernel are built in, below dir.
// Its files are those of the kernel's headers, whose packages expect each
// other below /usr.
func (c *Cache) buildTree(ctx context.Context, k Kernel, dir string) (string, error) {
	name := "linux-headers-" + k.Release
	known := func() error {
		out, err := c.apt(ctx, "", "apt-cache", "pkgnames", name)
		if err == nil && !slices.Contains(strings.Fields(string(out)), name) {
			return ErrNoHeaders
		}
		return nil // without lists nobody knows
	}
	if err := c.withLists(known); err != nil {
		return "", err
	}
	headers, err := c.Fetch(ctx, name+":"+k.Arch)
	if err != nil {
		return "", err
	}
	var fields map[string]string
	err = c.withLists(func() (err error) {
		fields, err = c.show(ctx, headers.Name)
		return err
	})
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
	tools, err := c.buildTools(ctx, kbuild, dir)
	if err != nil {
		return "", err
	}
	source := filepath.Join(dir, "usr/src", filepath.Base(common.Name))
	if err := linkAll(filepath.Join(common.Dir, "usr/src", common.Name), source, tools); err != nil {
		return "", err
	}
	tree := filepath.Join(dir, "tree")
	if err := linkAll(filepath.Join(headers.Dir, "usr/src/linux-headers-"+k.Release), tree, tools); err != nil {
		return "", err
	}
	// The makefile says where the other package lies and, of newer kernels, where it
	// lies itself.
	makefile := filepath.Join(tree, "Makefile")
	text, err := os.ReadFile(makefile)
	if err != nil {
		return "", err
	}
	moved := strings.NewReplacer("/usr/src/"+common.Name, source, "/usr/src/linux-headers-"+k.Release, tree).Replace(string(text))
	return tree, errors.Join(os.Remove(makefile), os.WriteFile(makefile, []byte(moved), 0o644))
}

// buildTools copies the build tools below dir and returns where they are. Those of
// a newer release of Debian need its C library, which is put beside them.
func (c *Cache) buildTools(ctx context.Context, kbuild Package, dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(kbuild.Dir, "usr/lib/linux-kbuild-*"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%s has no build tools", kbuild.Name)
	}
	tools := filepath.Join(dir, "tools")
	if err := os.CopyFS(tools, os.DirFS(found[0])); err != nil {
		return "", err
	}
	var libc Package
	return tools, filepath.WalkDir(tools, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || requireStatic(file) == nil {
			return err
		}
		// ldd names each library and version that it does not find.
		out, _ := exec.CommandContext(ctx, "ldd", file).CombinedOutput()
		if !bytes.Contains(out, []byte("not found")) {
			return nil
		}
		if libc.Dir == "" {
			if libc, err = c.Fetch(ctx, "libc6:"+runtime.GOARCH); err != nil {
				return err
			}
		}
		return wrapProgram(file, libc.Dir)
	})
}

// wrapProgram puts a script in a program's place that runs it with another C library.
func wrapProgram(file, libc string) error {
	loaders, err := filepath.Glob(filepath.Join(libc, "usr/lib/*/ld-linux-*.so.*"))
	if err != nil {
		return err
	}
	if len(loaders) != 1 {
		return fmt.Errorf("%d loaders in %s, want 1", len(loaders), libc)
	}
	system, err := filepath.Glob("/usr/lib/*-linux-gnu") // where the other libraries are
	if err != nil {
		return err
	}
	path := strings.Join(append([]string{filepath.Dir(loaders[0])}, system...), ":")
	elf := file + ".elf"
	if err := os.Rename(file, elf); err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %s --library-path %s %s \"$@\"\n", loaders[0], path, elf)
	return os.WriteFile(file, []byte(script), 0o755)
}

// linkAll makes a folder with links to all that is in another one, and to the
// build tools. vmlinux, which has the types, is left out: see addTypes.
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
