// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// debugMemory is what a guest needs in MiB whose root file system, which is in
// its memory, has the debug info of its kernel.
const debugMemory = 3072

// DebugInfo fetches the debug info of the kernel of that name, 317 MB, unless it
// is in the cache, and returns the root of the package.
func (c *Cache) DebugInfo(ctx context.Context, name string) (dir string, err error) {
	k, err := c.Kernel(ctx, name)
	if err != nil {
		return "", err
	}
	p, err := c.Fetch(ctx, "linux-image-"+k.Release+"-dbg:"+k.Arch)
	return p.Dir, err
}

// AddDebugInfo puts the debug info of the guest's kernel where Debian has it.
func (g *Guest) AddDebugInfo(ctx context.Context) error {
	cache, err := DefaultCache()
	if err != nil {
		return err
	}
	dir, err := cache.DebugInfo(ctx, g.Kernel.Name)
	if err != nil {
		return fmt.Errorf("debug info of kernel %s: %w", g.Kernel.Name, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "usr/lib/debug/boot/vmlinux-*"))
	if err != nil {
		return err
	}
	if len(files) != 1 || !strings.HasSuffix(files[0], "-"+g.Kernel.Release) {
		return fmt.Errorf("debug info of kernel %s: found %q", g.Kernel.Release, files)
	}
	g.Files = append(g.Files, File{Guest: path.Join("/usr/lib/debug/boot", filepath.Base(files[0])), Host: files[0]})
	g.Memory = max(g.Memory, debugMemory)
	return nil
}
