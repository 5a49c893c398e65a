// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// GoEnv is the environment in which the go command makes static programs for
// guests of the architecture.
func GoEnv(arch string) []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
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
	if text, err := os.ReadFile(source); err == nil && bytes.Contains(text, []byte("without frame pointers")) {
		args = append(args, "-O2", "-fomit-frame-pointer")
	}
	cmd := exec.CommandContext(ctx, crossPrefix(arch)+"gcc", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", filepath.Base(source), err, out)
	}
	return os.ReadFile(output)
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
