// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Kernel is a bootable kernel and its modules.
type Kernel struct {
	Name    string // as asked for, such as "6.12"
	Release string // as uname -r says
	Arch    string // as Go has it: amd64 or arm64
	Vmlinuz string
	Modules string // folder that would be /lib/modules/RELEASE, "" when Debian has dropped it
	builtin string // the list modules.builtin, "" when Debian has dropped it
}

// FindKernel fetches the newest kernel of that name unless it is in the cache.
func FindKernel(ctx context.Context, name string) (Kernel, error) {
	cache, err := DefaultCache()
	if err != nil {
		return Kernel{}, err
	}
	return cache.Kernel(ctx, name)
}

// Kernel fetches the newest kernel of that name unless it is in the cache.
//
//	SERIES[-FLAVOUR][-arm64]   6.12, newest, 6.12-generic, 6.12-rt, newest-arm64
//	linux-image-…              a package, of amd64 or, ending in ":arm64", of arm64
//
// A series is named and not a build, because builds come and go. Without a flavour
// the kernel is the cloud image, which is small and boots fast; the generic one
// has more drivers, rt is PREEMPT_RT.
func (c *Cache) Kernel(ctx context.Context, name string) (Kernel, error) {
	s, err := parseSeries(name)
	if err != nil {
		return Kernel{}, err
	}
	parts, err := c.fetch(ctx, "kernel-"+name, func() ([]Package, error) { return c.resolveKernel(ctx, s) })
	if err != nil {
		return Kernel{}, fmt.Errorf("kernel %s: %w", name, err)
	}
	return kernelIn(parts, name)
}

// A series is what a kernel's name asks for.
type series struct {
	image   string // the package, when that is named
	version string // 6.12, or "" for the newest
	flavour string // as in the package's name: cloud-, rt- or nothing
	arch    string
}

var seriesName = regexp.MustCompile(`^(\d+\.\d+|newest)(-generic|-rt)?(-arm64)?$`)

func parseSeries(name string) (series, error) {
	if strings.HasPrefix(name, "linux-image-") {
		image, arch, _ := strings.Cut(name, ":")
		return series{image: image, arch: cmp.Or(arch, "amd64")}, nil
	}
	m := seriesName.FindStringSubmatch(name)
	if m == nil {
		return series{}, fmt.Errorf("unknown kernel %q: want a series as in 6.12, newest, 6.12-generic, newest-rt, newest-arm64, or a package linux-image-…", name)
	}
	s := series{version: m[1], flavour: "cloud-", arch: "amd64"}
	if s.version == "newest" {
		s.version = ""
	}
	switch m[2] {
	case "-generic":
		s.flavour = ""
	case "-rt":
		s.flavour = "rt-"
	}
	if m[3] != "" {
		s.arch = "arm64"
	}
	return s, nil
}

// imageName is a package of an image: series, the rest of the release, flavour, architecture.
var imageName = regexp.MustCompile(`^linux-image-(\d+\.\d+)(\.[0-9a-z.+~]+(?:-\d+)?)-(cloud-|rt-)?(amd64|arm64)$`)

// resolveKernel tells the packages of the newest kernel that is whole.
func (c *Cache) resolveKernel(ctx context.Context, s series) ([]Package, error) {
	images := []string{s.image}
	if s.image == "" {
		out, err := c.apt(ctx, "", "apt-cache", "pkgnames", "linux-image-"+s.version)
		if err != nil {
			return nil, err
		}
		images = imagesOf(s, strings.Fields(string(out)))
	}
	var faults error
	for _, image := range images {
		parts, err := c.kernelParts(ctx, image, s.arch)
		if err == nil {
			return parts, nil
		}
		faults = errors.Join(faults, err)
	}
	return nil, errors.Join(ErrNoSeries, faults)
}

// imagesOf picks the packages of the series, the newest first.
func imagesOf(s series, names []string) []string {
	var images []string
	for _, name := range names {
		m := imageName.FindStringSubmatch(name)
		if m != nil && (s.version == "" || m[1] == s.version) && m[3] == s.flavour && m[4] == s.arch {
			images = append(images, name)
		}
	}
	slices.SortFunc(images, func(a, b string) int { return slices.Compare(numbers(b), numbers(a)) })
	return images
}

// numbers are those in a name, in order: they order the releases of one series.
func numbers(name string) []int {
	var ns []int
	for _, digits := range strings.FieldsFunc(name, func(r rune) bool { return r < '0' || r > '9' }) {
		n, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		ns = append(ns, n)
	}
	return ns
}

// splitPart matches what an image's package depends on when, from Linux 6.19 on, it
// is empty itself. Debian's backports drop modules and base when a newer kernel has come.
var splitPart = regexp.MustCompile(`^linux-(binary|modules|base)-\d`)

// kernelParts tells the packages that together have the image and its modules.
func (c *Cache) kernelParts(ctx context.Context, image, arch string) ([]Package, error) {
	first, err := c.resolve(ctx, image+":"+arch)
	if err != nil {
		return nil, err
	}
	fields, err := c.show(ctx, first.Name)
	if err != nil {
		return nil, err
	}
	parts := []Package{first}
	for dep := range strings.SplitSeq(fields["Depends"], ",") {
		dep, _, _ = strings.Cut(strings.TrimSpace(dep), " ")
		m := splitPart.FindStringSubmatch(dep)
		if m == nil {
			continue
		}
		p, err := c.resolve(ctx, dep+":"+arch)
		switch {
		case err == nil:
			parts = append(parts, p)
		case m[1] == "binary":
			return nil, err
		}
	}
	return parts, nil
}

// kernelIn finds the kernel below the roots of unpacked packages.
func kernelIn(parts []Package, name string) (Kernel, error) {
	k := Kernel{Name: name, Arch: parts[0].Arch}
	find := func(patterns ...string) (found []string, err error) {
		for _, p := range parts {
			for _, pattern := range patterns {
				files, err := filepath.Glob(filepath.Join(p.Dir, pattern))
				if err != nil {
					return nil, err
				}
				found = append(found, files...)
			}
		}
		return found, nil
	}
	images, err := find("boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz*")
	if err != nil {
		return Kernel{}, err
	}
	if len(images) != 1 {
		return Kernel{}, fmt.Errorf("%d kernel images in the packages of %s, want 1", len(images), name)
	}
	k.Vmlinuz = images[0]
	var ok bool
	if k.Release, ok = strings.CutPrefix(filepath.Base(k.Vmlinuz), "vmlinuz-"); !ok {
		k.Release = filepath.Base(filepath.Dir(k.Vmlinuz))
	}
	modules, err := find("lib/modules/*/kernel", "usr/lib/modules/*/kernel")
	if err != nil {
		return Kernel{}, err
	}
	if len(modules) > 0 {
		k.Modules = filepath.Dir(modules[0])
	}
	builtin, err := find("lib/modules/*/modules.builtin", "usr/lib/modules/*/modules.builtin")
	if len(builtin) > 0 {
		k.builtin = builtin[0]
	}
	return k, err
}
