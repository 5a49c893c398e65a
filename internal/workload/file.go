// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func openFile(path string, flags int) (result, error) {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return result{}, err
	}
	dir := unix.AT_FDCWD
	return call(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(name)), uintptr(flags), 0), nil
}

// readInto makes one read(2).
func readInto(fd int, buf []byte) result {
	return call(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
}

func fileCases() []workCase {
	return []workCase{
		{"open", "open a file, which exists by default", openCase("open", "/dev/null", nil)},
		{"open-missing", "open a file that does not exist: ENOENT", openCase("open-missing", "/no/such/file", []unix.Errno{unix.ENOENT})},
		{"open-notdir", "open a path that leads through a file: ENOTDIR", openCase("open-notdir", "/dev/null/file", []unix.Errno{unix.ENOTDIR})},
		{"read", "read a file: vfs_read returns the size", readCase(readPlan{name: "read", file: "/dev/zero", size: 1})},
		{"read-dir", "read a folder: EISDIR from vfs_read", readCase(readPlan{name: "read-dir", file: "/", size: 64, want: []unix.Errno{unix.EISDIR}})},
		{"read-mem", "read the process's memory where there is none: EIO from vfs_read", readCase(readPlan{name: "read-mem", file: "/proc/self/mem", size: 8, want: []unix.Errno{unix.EIO}})},
		{"read-writeonly", "read a file open for writing only: EBADF from vfs_read", readCase(readPlan{name: "read-writeonly", file: "/dev/null", flags: unix.O_WRONLY, size: 8, want: []unix.Errno{unix.EBADF}})},
		{"read-closed", "read a descriptor that is not open: EBADF, and vfs_read is not called", readCase(readPlan{name: "read-closed", size: 8, want: []unix.Errno{unix.EBADF}})},
	}
}

func openCase(name, path string, want []unix.Errno) func(*flag.FlagSet) func(io.Writer) error {
	return func(f *flag.FlagSet) func(io.Writer) error {
		file := f.String("file", path, "`path` to open")
		count := f.Int("count", 1, "how `often`")
		return func(w io.Writer) error {
			var r result
			var err error
			for range *count {
				if r, err = openFile(*file, unix.O_RDONLY|unix.O_CLOEXEC); err != nil {
					return err
				}
				if r.errno == 0 {
					unix.Close(r.n)
					r.n = 0
				}
			}
			fmt.Fprintf(w, "%s count=%d file=%s result=%v\n", name, *count, *file, r)
			return r.expect(want...)
		}
	}
}

// A readPlan is a case of reading. Without a file the descriptor is not open.
type readPlan struct {
	name, file  string
	flags, size int
	want        []unix.Errno
}

func readCase(p readPlan) func(*flag.FlagSet) func(io.Writer) error {
	return func(f *flag.FlagSet) func(io.Writer) error {
		size := f.Int("size", p.size, "`bytes` asked for by each read")
		count := f.Int("count", 1, "how `often`")
		file := p.file
		if file != "" {
			f.StringVar(&file, "file", p.file, "`path` to read")
		}
		return func(w io.Writer) error {
			if *size < 0 {
				return usageError("-size is negative")
			}
			fd := -1
			if file != "" {
				r, err := openFile(file, p.flags|unix.O_CLOEXEC)
				if err != nil {
					return err
				}
				if r.errno != 0 {
					return &os.PathError{Op: "open", Path: file, Err: r.errno}
				}
				fd = r.n
				defer unix.Close(fd)
			}
			var r result
			total := 0
			buf := make([]byte, *size)
			for range *count {
				if r = readInto(fd, buf); r.errno == 0 {
					total += r.n
				}
			}
			fmt.Fprintf(w, "%s count=%d size=%d bytes=%d result=%v\n", p.name, *count, *size, total, r)
			return r.expect(p.want...)
		}
	}
}
