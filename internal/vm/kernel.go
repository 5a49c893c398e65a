// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Kernel is a bootable kernel and its modules.
type Kernel struct {
	Name    string // as asked for, such as "6.12"
	Release string // as uname -r says
	Vmlinuz string
	Modules string // folder that would be /lib/modules/RELEASE
}

// kernelPackages are the kernels that have a short name. The cloud images are
// small and boot fast; the generic ones have more drivers and modules.
var kernelPackages = [...]struct{ name, image string }{
	{"6.12", "linux-image-6.12-cloud-amd64"},
	{"6.1", "linux-image-cloud-amd64"},
	{"6.12-generic", "linux-image-6.12-amd64"},
	{"6.1-generic", "linux-image-amd64"},
}

// KernelNames are the kernels to test on: those that $KSNOOP_KERNELS lists,
// separated by commas or blanks, or else the newest and the oldest cloud kernel.
func KernelNames() []string {
	names := strings.FieldsFunc(os.Getenv("KSNOOP_KERNELS"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(names) == 0 {
		names = []string{"6.12", "6.1"}
	}
	return names
}

// FindKernel fetches the newest kernel of that name unless it is in the cache.
func FindKernel(ctx context.Context, name string) (Kernel, error) {
	cache, err := DefaultCache()
	if err != nil {
		return Kernel{}, err
	}
	return cache.Kernel(ctx, name)
}

// Kernel fetches the newest kernel of that name, which is a short name or the
// name of a package, unless it is in the cache.
func (c *Cache) Kernel(ctx context.Context, name string) (Kernel, error) {
	image, err := imagePackage(name)
	if err != nil {
		return Kernel{}, err
	}
	p, err := c.Fetch(ctx, image)
	if err != nil {
		return Kernel{}, err
	}
	return kernelIn(p.Dir, name)
}

func imagePackage(name string) (string, error) {
	if strings.HasPrefix(name, "linux-image-") {
		return name, nil
	}
	var known []string
	for _, k := range kernelPackages {
		if k.name == name {
			return k.image, nil
		}
		known = append(known, k.name)
	}
	return "", fmt.Errorf("unknown kernel %q: want one of %s, or a package linux-image-…", name, strings.Join(known, ", "))
}

// kernelIn finds the kernel below the root of an unpacked package.
func kernelIn(root, name string) (Kernel, error) {
	images, err := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	if err != nil {
		return Kernel{}, err
	}
	if len(images) != 1 {
		return Kernel{}, fmt.Errorf("%d kernel images in %s, want 1", len(images), root)
	}
	k := Kernel{Name: name, Vmlinuz: images[0]}
	k.Release = strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	k.Modules = filepath.Join(root, "lib", "modules", k.Release)
	if _, err := os.Stat(k.Modules); err != nil {
		return Kernel{}, fmt.Errorf("modules of %s: %w", name, err)
	}
	return k, nil
}
