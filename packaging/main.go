// SPDX-License-Identifier: Apache-2.0

// Packaging makes what a release has: static binaries, archives, Debian and RPM packages, a bill of
// materials of each binary, and checksums.
//
//	go -C packaging run . -o DIR
//	go -C packaging run . -image -o DIR
//
// With -image it makes the container images alone.
//
// It takes the commit that is checked out, in a clone of its own, so changes that are not committed
// have no part in it. The same commit and the same Go give the same bytes, in any folder and at any time.
// It is a module of its own: what it needs is none of ksnoop's dependencies.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// architectures are those that a release has binaries for.
var architectures = [...]string{"amd64", "arm64"}

func main() {
	out := flag.String("o", "dist", "`folder` for the files; it must be empty or absent")
	images := flag.Bool("image", false, "make container images, and nothing else")
	from := flag.String("from", "..", "`repository` to take the commit from")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := dist(ctx, *from, *out, *images)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "packaging: %v\n", err)
		os.Exit(1)
	}
}

// dist fills a folder with the release of a repository's commit, or with its container images.
func dist(ctx context.Context, repository, out string, images bool) error {
	if err := emptyFolder(out); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "ksnoop-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	src, err := clone(ctx, repository, filepath.Join(tmp, "ksnoop"))
	if err != nil {
		return err
	}
	var builds []build
	for _, arch := range architectures {
		b, err := src.build(ctx, arch, filepath.Join(tmp, arch))
		if err != nil {
			return err
		}
		builds = append(builds, b)
	}
	for _, b := range builds {
		if images {
			if err := writeImage(ctx, out, src, b); err != nil {
				return fmt.Errorf("image for %s: %w", b.arch, err)
			}
			continue
		}
		files, err := src.installed(ctx, b, builds)
		if err == nil {
			err = write(out, src, b, files)
		}
		if err != nil {
			return fmt.Errorf("package for %s: %w", b.arch, err)
		}
	}
	return writeSums(out)
}

// writeImage writes the container image of a build.
func writeImage(ctx context.Context, out string, src source, b build) error {
	rights, err := src.licences(ctx, b)
	if err != nil {
		return err
	}
	f, err := imaged(src, b, rights)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, f.path), f.data, f.mode)
}

// write writes all files of a build.
func write(out string, src source, b build, files []file) error {
	name := filepath.Join(out, fmt.Sprintf("ksnoop_%s_linux_%s", b.version, b.arch))
	bill, err := billOf(src, b)
	if err != nil {
		return err
	}
	archive, err := tarball(src.time, files)
	if err != nil {
		return err
	}
	outputs := []file{{path: name, data: b.program, mode: 0o755}, {path: name + ".tar.gz", data: archive, mode: 0o644}, {path: name + ".cdx.json", data: bill, mode: 0o644}}
	for _, format := range packageFormats {
		p, err := packaged(format, src, b, files)
		if err != nil {
			return fmt.Errorf(".%s: %w", format.name, err)
		}
		p.path = filepath.Join(out, p.path)
		outputs = append(outputs, p)
	}
	for _, f := range outputs {
		if err := os.WriteFile(f.path, f.data, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// emptyFolder makes a folder, and refuses one that has files: SHA256SUMS would have those of an older release, too.
func emptyFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty: remove it first", dir)
	}
	return err
}
