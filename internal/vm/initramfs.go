// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cavaliergopher/cpio"
)

// A File is put into the guest's root file system.
type File struct {
	Guest string // absolute path in the guest

	// What it holds: the content of a file or folder of the host, a symbolic
	// link, or else Data.
	Host string
	Link string
	Data []byte
	Mode fs.FileMode // of Data; 0 means 0644
}

// An initramfs writes a root file system as a cpio archive. It is not
// compressed: QEMU copies it into the guest's memory at once, while
// decompression would be emulated.
type initramfs struct {
	w    *cpio.Writer
	seen map[string]bool // paths written, the kernel wants folders before files
}

func newInitramfs(w io.Writer) *initramfs {
	return &initramfs{w: cpio.NewWriter(w), seen: map[string]bool{"/": true}}
}

func (a *initramfs) close() error { return a.w.Close() }

func (a *initramfs) add(f File) error {
	if !path.IsAbs(f.Guest) {
		return fmt.Errorf("guest path %q is not absolute", f.Guest)
	}
	switch {
	case f.Host != "":
		return a.addHost(f.Guest, f.Host)
	case f.Link != "":
		return a.entry(f.Guest, cpio.TypeSymlink|0o777, []byte(f.Link))
	}
	mode := f.Mode.Perm()
	if mode == 0 {
		mode = 0o644
	}
	return a.entry(f.Guest, cpio.TypeReg|cpio.FileMode(mode), f.Data)
}

// addHost adds a file or a folder with all that is in it.
func (a *initramfs) addHost(guest, host string) error {
	// The top may be a symbolic link, as alternatives are; links below it stay links.
	host, err := filepath.EvalSymlinks(host)
	if err != nil {
		return err
	}
	return filepath.WalkDir(host, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(host, name)
		if err != nil {
			return err
		}
		at := path.Join(guest, filepath.ToSlash(rel))
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch info.Mode().Type() {
		case fs.ModeDir:
			return a.folder(at)
		case fs.ModeSymlink:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			return a.entry(at, cpio.TypeSymlink|0o777, []byte(target))
		case 0:
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			return a.entry(at, cpio.TypeReg|cpio.FileMode(info.Mode().Perm()), data)
		}
		return fmt.Errorf("%s is neither file, folder nor link", name)
	})
}

func (a *initramfs) folder(guest string) error {
	guest = path.Clean(guest)
	if a.seen[guest] {
		return nil
	}
	return a.entry(guest, cpio.TypeDir|0o755, nil)
}

func (a *initramfs) entry(guest string, mode cpio.FileMode, data []byte) error {
	guest = path.Clean(guest)
	if a.seen[guest] {
		return fmt.Errorf("two files for %s", guest)
	}
	if err := a.folder(path.Dir(guest)); err != nil {
		return err
	}
	a.seen[guest] = true
	h := &cpio.Header{Name: strings.TrimPrefix(guest, "/"), Mode: mode, Size: int64(len(data))}
	if mode&cpio.ModeType == cpio.TypeSymlink {
		h.Linkname = string(data)
	}
	if err := a.w.WriteHeader(h); err != nil {
		return err
	}
	_, err := a.w.Write(data)
	return err
}

// addBusybox adds Debian's busybox and a link for each of its commands, unless
// a file of that name was added before. Without it the guest has no shell. That
// of another architecture cannot be asked for its commands; the machine's stands
// in for it.
func (a *initramfs) addBusybox(ctx context.Context, arch string) error {
	busybox, err := exec.LookPath("busybox")
	if errors.Is(err, exec.ErrNotFound) || (err == nil && requireStatic(busybox) != nil) {
		return nil
	}
	if err != nil {
		return err
	}
	list, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return fmt.Errorf("list busybox commands: %w", err)
	}
	if arch != runtime.GOARCH {
		if busybox, err = fetchBusybox(ctx, arch); err != nil {
			return err
		}
	}
	if err := a.add(File{Guest: "/bin/busybox", Host: busybox}); err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(list)) {
		if at := "/bin/" + name; !a.seen[at] {
			if err := a.add(File{Guest: at, Link: "busybox"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetchBusybox returns the busybox of another architecture.
func fetchBusybox(ctx context.Context, arch string) (string, error) {
	cache, err := DefaultCache()
	if err != nil {
		return "", err
	}
	p, err := cache.Fetch(ctx, "busybox-static:"+arch)
	if err != nil {
		return "", err
	}
	for _, file := range []string{"usr/bin/busybox", "bin/busybox"} { // before and after /usr was merged
		file = filepath.Join(p.Dir, file)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("package %s has no busybox", p.Name)
}
