// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

const initPackage = "github.com/ksnoop/ksnoop/internal/vm/init"

// GoEnv is the environment in which the go command makes static programs for
// guests of the architecture.
func GoEnv(arch string) []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
}

// build compiles a main package to a static program for guests of the architecture.
func build(ctx context.Context, arch, pkg, output string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", output, pkg)
	cmd.Env = append(GoEnv(arch), "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// crossPrefix begins the names of the C tools for the architecture.
func crossPrefix(arch string) string {
	switch {
	case arch == runtime.GOARCH:
		return ""
	case arch == "arm64":
		return "aarch64-linux-gnu-"
	}
	return "x86_64-linux-gnu-"
}

// buildC compiles a C program, to be loaded anywhere and with frame pointers.
func buildC(ctx context.Context, arch, source, output string) ([]byte, error) {
	args := []string{"-O1", "-static-pie", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-Wall", "-Werror", "-o", output, source}
	if arch == "amd64" {
		args = append(args, "-fcf-protection=none")
	}
	cmd := exec.CommandContext(ctx, crossPrefix(arch)+"gcc", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", filepath.Base(source), err, out)
	}
	return os.ReadFile(output)
}

// buildInit compiles the guest's init. The build cache makes that quick, and
// it never is an old one.
func buildInit(ctx context.Context, arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "ksnoop-vm-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "init")
	if err := build(ctx, arch, initPackage, file); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

// requireStatic says why a program cannot run in a guest, which has no
// dynamic linker. A script is left to its interpreter.
func requireStatic(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked dynamically, the guest has no libraries: build it with CGO_ENABLED=0", file)
		}
	}
	return nil
}
