// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A failure is a system call that fails deep in the kernel. What it takes is in a
// folder of its own.
type failure struct {
	name  string
	errno unix.Errno
	call  func(folder string) (result, error)
}

// failures are calls for which the kernel's source says where they fail.
func failures() []failure {
	return []failure{
		// fs/namei.c: the folder has no such name.
		{"openat", unix.ENOENT, func(folder string) (result, error) {
			return resultOf(unix.Open("/nope", unix.O_RDONLY, 0)), nil
		}},
		// mm/shmem.c: the size is no number.
		{"mount", unix.EINVAL, func(folder string) (result, error) {
			return resultOf(0, unix.Mount("none", folder, "tmpfs", 0, "size=foo")), nil
		}},
		// net/unix/af_unix.c, which looks up a path: there is none.
		{"connect", unix.ENOENT, func(folder string) (result, error) {
			return withSocket(unix.AF_UNIX, unix.SOCK_STREAM, func(fd int) error {
				return unix.Connect(fd, &unix.SockaddrUnix{Name: "/nope"})
			})
		}},
		// kernel/bpf/verifier.c: a register that is read was never written.
		{"bpf", unix.EACCES, func(folder string) (result, error) {
			return loadProg(unix.BPF_PROG_TYPE_SOCKET_FILTER, []uint64{movR0R2, exitProg}), nil
		}},
		// kernel/events/core.c: kernel/trace, of which nothing can be traced, knows no
		// tracepoint of that number.
		{"perf_event_open", unix.EINVAL, func(folder string) (result, error) {
			attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: 1 << 30, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}
			return resultOf(unix.PerfEventOpen(&attr, 0, -1, -1, 0)), nil
		}},
		// net/core/sock.c asks net/core/dev.c for a device: NULL.
		{"setsockopt", unix.ENODEV, func(folder string) (result, error) {
			return withSocket(unix.AF_INET, unix.SOCK_DGRAM, func(fd int) error { return unix.BindToDevice(fd, "nope") })
		}},
		// io_uring/sqpoll.c: the descriptor whose workers are to be shared is no ring.
		{"io_uring_setup", unix.EINVAL, func(folder string) (result, error) {
			return withFile("/dev/null", func(fd int) result {
				const attach, flags, workers = 1 << 5, 2, 6 // IORING_SETUP_ATTACH_WQ; words of struct io_uring_params
				params := [30]uint32{flags: attach, workers: uint32(fd)}
				return call(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)))
			})
		}},
		// fs/kernfs/file.c: the file cannot be mapped.
		{"mmap", unix.ENODEV, func(folder string) (result, error) {
			return withFile("/sys/kernel/uevent_seqnum", func(fd int) result {
				return call(unix.SYS_MMAP, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE, uintptr(fd), 0)
			})
		}},
		// net/core/dev.c: no device has that number. Before, the socket's own ioctl
		// has refused it with another error.
		{"ioctl", unix.ENODEV, func(folder string) (result, error) {
			return withSocket(unix.AF_INET, unix.SOCK_DGRAM, func(fd int) error {
				var request [40]byte // struct ifreq: a name, then the number
				request[unix.IFNAMSIZ] = 99
				return call(unix.SYS_IOCTL, uintptr(fd), unix.SIOCGIFNAME, uintptr(unsafe.Pointer(&request))).err()
			})
		}},
		// fs/namei.c: there is no such interpreter.
		{"execve", unix.ENOENT, func(folder string) (result, error) {
			script := filepath.Join(folder, "script")
			if err := os.WriteFile(script, []byte("#!/nope\n"), 0o700); err != nil {
				return result{}, err
			}
			return resultOf(0, unix.Exec(script, []string{script}, nil)), nil
		}},
	}
}

// withSocket makes a call with a socket.
func withSocket(family, kind int, do func(fd int) error) (result, error) {
	fd, err := unix.Socket(family, kind, 0)
	if err != nil {
		return result{}, err
	}
	defer unix.Close(fd)
	return resultOf(0, do(fd)), nil
}

// withFile makes a call with a file.
func withFile(name string, do func(fd int) result) (result, error) {
	fd, err := unix.Open(name, unix.O_RDONLY, 0)
	if err != nil {
		return result{}, err
	}
	defer unix.Close(fd)
	return do(fd), nil
}

func failureCases() []workCase {
	var names []string
	for _, f := range failures() {
		names = append(names, f.name)
	}
	return []workCase{{"fail", "make a system call that fails deep in the kernel: fail " + strings.Join(names, "|"), failCase}}
}

func failCase(f *flag.FlagSet) func(io.Writer) error {
	return func(w io.Writer) error {
		all := failures()
		i := slices.IndexFunc(all, func(x failure) bool { return x.name == f.Arg(0) })
		if i < 0 || f.NArg() != 1 {
			return usageError("which system call? see workload list")
		}
		folder, err := os.MkdirTemp("", "workload")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		r, err := all[i].call(folder)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "fail call=%s result=%v\n", f.Arg(0), r)
		return r.expect(all[i].errno)
	}
}
