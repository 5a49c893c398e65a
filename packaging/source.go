// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// A source is a clean clone of the repository at one commit.
type source struct {
	dir    string
	commit string
	time   time.Time // of the commit: the time of all files
}

// A build is a binary for one architecture.
type build struct {
	arch    string
	version string // of the module without the v, as Go has it: of a tag, else 0.0.0-DATE-COMMIT
	path    string
	program []byte
	info    *debug.BuildInfo
}

// clone clones what is checked out in a repository. The go command looks at the clone to tell the version. It
// does not look at a work tree of git, and a clone has no changes that would make the version dirty.
func clone(ctx context.Context, repository, dir string) (source, error) {
	if _, err := output(ctx, ".", "git", "clone", "--quiet", "--no-hardlinks", repository, dir); err != nil {
		return source{}, err
	}
	head, err := output(ctx, repository, "git", "rev-parse", "HEAD")
	if err != nil {
		return source{}, err
	}
	// A branch that another one points to is no longer what the clone has.
	if _, err := output(ctx, dir, "git", "checkout", "--quiet", "--detach", head); err != nil {
		return source{}, err
	}
	seconds, err := output(ctx, dir, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return source{}, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("time of the commit: %w", err)
	}
	return source{dir: dir, commit: head, time: time.Unix(unix, 0).UTC()}, nil
}

// build compiles ksnoop without anything of this machine: no cgo, no paths, no flags of its environment.
func (s source) build(ctx context.Context, arch, dir string) (build, error) {
	program := filepath.Join(dir, "ksnoop")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", program, "./cmd/ksnoop")
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return build{}, fmt.Errorf("build for %s: %w\n%s", arch, err, out)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return build{}, err
	}
	version, ok := strings.CutPrefix(info.Main.Version, "v")
	if !ok {
		return build{}, fmt.Errorf("go has stamped no version into the binary: %q", info.Main.Version)
	}
	data, err := os.ReadFile(program)
	return build{arch: arch, version: version, path: program, program: data, info: info}, err
}

// output runs a command and returns what it prints, without the newline at its end.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
