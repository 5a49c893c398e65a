// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// sourceRoot is where the module lies in a guest, as far as tests need it.
const sourceRoot = "/src"

// A Test is a test program and what must be in the guest to run it.
type Test struct {
	Program string // its path in the guest
	Dir     string // the package's folder in the guest
	Files   []File
}

// NewTest takes a test program of the package in the folder pkgDir of the
// host. The package's and the module's testdata and the module's documentation go along, at the same
// place relative to each other.
func NewTest(program, pkgDir string) (Test, error) {
	root, err := moduleRoot(pkgDir)
	if err != nil {
		return Test{}, err
	}
	rel, err := filepath.Rel(root, pkgDir)
	if err != nil {
		return Test{}, err
	}
	if err := requireStatic(program); err != nil {
		return Test{}, err
	}
	dir := path.Join(sourceRoot, filepath.ToSlash(rel))
	t := Test{Program: path.Join(dir, filepath.Base(program)), Dir: dir}
	t.Files = append(t.Files, File{Guest: t.Program, Host: program})
	hosts := []string{filepath.Join(pkgDir, "testdata")}
	if pkgDir != root {
		hosts = append(hosts, filepath.Join(root, "testdata"))
	}
	pages, err := documents(root)
	if err != nil {
		return Test{}, err
	}
	hosts = append(hosts, pages...)
	for _, host := range hosts {
		if _, err := os.Stat(host); err != nil {
			continue
		}
		rel, err := filepath.Rel(root, host)
		if err != nil {
			return Test{}, err
		}
		t.Files = append(t.Files, File{Guest: path.Join(sourceRoot, filepath.ToSlash(rel)), Host: host})
	}
	return t, nil
}

// documents are the module's Markdown files, whose commands a live test runs.
func documents(root string) ([]string, error) {
	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		return nil, err
	}
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	return append(top, docs...), err
}

func moduleRoot(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no go.mod in %s or above", dir)
		}
	}
}

// TestArgs drops the flags by which `go test` asks for files on the host.
func TestArgs(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		for _, name := range []string{"testlogfile", "gocoverdir", "outputdir"} {
			if strings.HasPrefix(strings.TrimLeft(a, "-"), "test."+name+"=") {
				return true
			}
		}
		return false
	})
}

// TestEnv picks the variables of the host that tests look at.
func TestEnv(environ []string) []string {
	var env []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case name == "CI", name == "GOMAXPROCS", name == "GODEBUG", name == "GOTRACEBACK", name == "GOMEMLIMIT", name == "GOGC",
			strings.HasPrefix(name, "KSNOOP_"):
			env = append(env, e)
		}
	}
	return env
}

// Program is a program of the host for the guest's /bin.
func Program(host string) (File, error) {
	if err := requireStatic(host); err != nil {
		return File{}, err
	}
	return File{Guest: "/bin/" + filepath.Base(host), Host: host}, nil
}

// programs are those of the module that live tests run, by their package.
var programs = [...]string{"cmd/ksnoop", "internal/workload"}

// examples are programs in Go that are built as those of other modules are, by their folder.
var examples = [...]string{"examples/trace", "examples/predicate", "examples/mapvalues"}

// cPrograms are of the workload, too, but not in Go.
var cPrograms = [...]string{"internal/workload/testdata/frames.c", "internal/workload/testdata/nopointer.c"}

// Programs compiles ksnoop and workload for guests of the architecture. Beside an
// error it returns those that could be compiled.
func Programs(ctx context.Context, arch string) ([]File, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("find module: %w", err)
	}
	root := strings.TrimSpace(string(out))
	dir, err := os.MkdirTemp("", "ksnoop-vm-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var files []File
	var faults error
	for _, pkg := range programs {
		if _, err := os.Stat(filepath.Join(root, pkg)); err != nil {
			continue
		}
		program, err := Build(ctx, arch, pkg)
		if err != nil {
			faults = errors.Join(faults, err)
			continue
		}
		files = append(files, program)
	}
	for _, example := range examples {
		if _, err := os.Stat(filepath.Join(root, example)); err != nil {
			continue
		}
		data, err := buildOutside(ctx, arch, root, example, dir)
		if err != nil {
			faults = errors.Join(faults, err)
			continue
		}
		files = append(files, File{Guest: "/bin/" + path.Base(example), Data: data, Mode: 0o755})
	}
	for _, src := range cPrograms {
		if _, err := os.Stat(filepath.Join(root, src)); err != nil {
			continue
		}
		name := strings.TrimSuffix(path.Base(src), ".c")
		data, err := buildC(ctx, arch, filepath.Join(root, src), filepath.Join(dir, name))
		if err != nil {
			faults = errors.Join(faults, err)
			continue
		}
		files = append(files, File{Guest: "/bin/" + name, Data: data, Mode: 0o755})
	}
	return files, faults
}

// buildOutside builds a program that is in a folder of the module as somebody else's: in a
// module of its own, which requires this one and can import nothing that is internal.
func buildOutside(ctx context.Context, arch, root, folder, dir string) ([]byte, error) {
	dir = filepath.Join(dir, "outside", path.Base(folder))
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, folder))); err != nil {
		return nil, err
	}
	requirements, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	own := strings.Replace(string(requirements), "module "+modulePath, "module example", 1) +
		fmt.Sprintf("\nrequire %s v0.0.0\nreplace %[1]s => %s\n", modulePath, root)
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "go.mod"), []byte(own), 0o666), os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o666))
	}
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, "program")
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-trimpath", "-o", program, ".")
	cmd.Dir, cmd.Env = dir, GoEnv(arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s outside of the module: %w\n%s", folder, err, out)
	}
	return os.ReadFile(program)
}
