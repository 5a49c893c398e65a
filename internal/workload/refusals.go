// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A refusal is a system call whose arguments one check of the kernel refuses.
type refusal struct {
	name   string
	errno  unix.Errno // 0: the call ends the process
	number uintptr
	args   []uintptr
	// before makes what the call needs; it may be nil. It may change the first argument, and what
	// is in the page from texts on.
	before func(r *refusal, page []byte, folder string) error
}

// texts is where in the page there is room for texts.
const texts = 1024

// refusals are calls for which the kernel's source says which condition refuses them. memory is a
// page, of which the first words are 1 and 0.
func refusals(memory uintptr) []refusal {
	const bad = 1 << 29 // a flag that none of these calls has
	const nowhere = 8   // an address of no memory
	zero, text := memory+8, memory+texts
	return []refusal{
		{"mlockall", unix.EINVAL, unix.SYS_MLOCKALL, []uintptr{0}, nil},
		{"prctl", unix.EINVAL, unix.SYS_PRCTL, []uintptr{unix.PR_SET_PDEATHSIG, 999}, nil},
		{"clone", unix.EINVAL, unix.SYS_CLONE, []uintptr{unix.CLONE_SIGHAND}, nil},
		{"unshare", unix.EINVAL, unix.SYS_UNSHARE, []uintptr{1}, nil},
		{"sched_setattr", unix.EINVAL, unix.SYS_SCHED_SETATTR, []uintptr{0, memory, bad}, nil},
		{"sched_setscheduler", unix.EINVAL, unix.SYS_SCHED_SETSCHEDULER, []uintptr{0, unix.SCHED_FIFO, zero}, nil},
		{"timerfd_create", unix.EINVAL, unix.SYS_TIMERFD_CREATE, []uintptr{99, 0}, nil},
		{"eventfd2", unix.EINVAL, unix.SYS_EVENTFD2, []uintptr{0, bad}, nil},
		{"pipe2", unix.EINVAL, unix.SYS_PIPE2, []uintptr{memory, bad}, nil},
		{"msync", unix.EINVAL, unix.SYS_MSYNC, []uintptr{0, 4096, bad}, nil},
		{"madvise", unix.EINVAL, unix.SYS_MADVISE, []uintptr{1, 4096, unix.MADV_NORMAL}, nil},
		{"epoll_create1", unix.EINVAL, unix.SYS_EPOLL_CREATE1, []uintptr{bad}, nil},
		{"inotify_init1", unix.EINVAL, unix.SYS_INOTIFY_INIT1, []uintptr{bad}, nil},
		{"fanotify_init", unix.EINVAL, unix.SYS_FANOTIFY_INIT, []uintptr{bad, 0}, nil},
		{"keyctl", unix.EOPNOTSUPP, unix.SYS_KEYCTL, []uintptr{9999}, nil},
		{"socket", unix.EAFNOSUPPORT, unix.SYS_SOCKET, []uintptr{99, unix.SOCK_STREAM, 0}, nil},
		{"bind", unix.EADDRNOTAVAIL, unix.SYS_BIND, []uintptr{0, text, 16}, withAddress(unix.AF_INET)},
		{"bind-short", unix.EINVAL, unix.SYS_BIND, []uintptr{0, text, 4}, withAddress(unix.AF_INET)},
		{"connect", unix.EAFNOSUPPORT, unix.SYS_CONNECT, []uintptr{0, text, 16}, withAddress(unix.AF_UNIX)},
		{"accept4", unix.EINVAL, unix.SYS_ACCEPT4, []uintptr{0, 0, 0, 0}, withAddress(0)}, // of a socket that does not listen
		{"setsockopt", unix.EINVAL, unix.SYS_SETSOCKOPT, []uintptr{0, unix.SOL_SOCKET, unix.SO_RCVBUF, memory, 2}, withAddress(0)},
		{"perf_event_open", unix.EINVAL, unix.SYS_PERF_EVENT_OPEN, []uintptr{memory, 0, ^uintptr(0), ^uintptr(0), bad}, nil},
		{"bpf-prog", unix.E2BIG, unix.SYS_BPF, []uintptr{unix.BPF_PROG_LOAD, text, 64}, withPointer(16, text+64)}, // a license, which Linux 6.1 reads first
		{"bpf-map", unix.EINVAL, unix.SYS_BPF, []uintptr{unix.BPF_MAP_CREATE, text, 64}, withBytes(200)},
		{"bpf-link", unix.EINVAL, unix.SYS_BPF, []uintptr{unix.BPF_LINK_CREATE, text, 64}, nil}, // of standard input, which is no program
		{"io_uring_setup", unix.EINVAL, unix.SYS_IO_URING_SETUP, []uintptr{0, memory}, nil},
		{"clone3", unix.EINVAL, unix.SYS_CLONE3, []uintptr{memory, 8}, nil},
		{"quotactl", unix.EINVAL, unix.SYS_QUOTACTL, []uintptr{200, 0, 0, 0}, nil},
		{"swapon", unix.EINVAL, unix.SYS_SWAPON, []uintptr{text, bad}, nil},
		{"mmap", unix.EINVAL, unix.SYS_MMAP, []uintptr{0, 0, unix.PROT_READ, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS, ^uintptr(0), 0}, nil},
		{"mount-option", unix.EINVAL, unix.SYS_MOUNT, []uintptr{text, text + 32, text, 0, text + 16}, withMount("tmpfs", "size=foo")},
		{"mount-type", unix.ENODEV, unix.SYS_MOUNT, []uintptr{text, text + 32, text, 0, text + 16}, withMount("nope", "")},
		{"setpriority", unix.EINVAL, unix.SYS_SETPRIORITY, []uintptr{9, 0, 0}, nil},
		{"pidfd_open", unix.EINVAL, unix.SYS_PIDFD_OPEN, []uintptr{1, bad}, nil},
		{"mprotect", unix.EINVAL, unix.SYS_MPROTECT, []uintptr{1, 4096, unix.PROT_READ}, nil},
		{"ioctl", unix.ENOTTY, unix.SYS_IOCTL, []uintptr{0, unix.TCGETS, memory}, withNull},
		{"fcntl", unix.EINVAL, unix.SYS_FCNTL, []uintptr{0, unix.F_DUPFD, bad}, nil},
		{"renameat2", unix.EINVAL, unix.SYS_RENAMEAT2, []uintptr{0, text, 0, text, bad}, nil},
		{"mlock", unix.ENOMEM, unix.SYS_MLOCK, []uintptr{memory, 4096}, withoutMemory},
		{"openat", unix.EACCES, unix.SYS_OPENAT, []uintptr{0, text, unix.O_RDWR}, withoutPermission},
		{"unshare-capability", unix.EPERM, unix.SYS_UNSHARE, []uintptr{unix.CLONE_NEWNS}, withoutCapabilities},
		{"bind-fault", unix.EFAULT, unix.SYS_BIND, []uintptr{0, nowhere, 16}, withAddress(0)},
		{"pipe2-fault", unix.EFAULT, unix.SYS_PIPE2, []uintptr{nowhere, 0}, nil},
		{"openat-fault", unix.EFAULT, unix.SYS_OPENAT, []uintptr{0, nowhere, 0}, nil},
		{"seccomp", unix.EDOM, unix.SYS_UMOUNT2, []uintptr{text, 0}, withFilter(unix.SECCOMP_RET_ERRNO | uint32(unix.EDOM))},
		{"seccomp-kill", 0, unix.SYS_UMOUNT2, []uintptr{text, 0}, withFilter(unix.SECCOMP_RET_KILL_PROCESS)},
		{"landlock", unix.EACCES, unix.SYS_OPENAT, []uintptr{0, text, unix.O_RDONLY}, withLandlock},
		{"signal", unix.EINTR, unix.SYS_PPOLL, []uintptr{0, 0, 0, 0}, withSignal},
	}
}

// withAddress makes a TCP socket, and an address of a family: 192.0.2.1, which no machine has.
func withAddress(family byte) func(r *refusal, page []byte, folder string) error {
	return func(r *refusal, page []byte, folder string) error {
		copy(page[texts:], []byte{family, 0, 0, 7, 192, 0, 2, 1})
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		r.args[0] = uintptr(fd)
		return err
	}
}

func withBytes(b ...byte) func(r *refusal, page []byte, folder string) error {
	return func(r *refusal, page []byte, folder string) error {
		copy(page[texts:], b)
		return nil
	}
}

// withPointer writes an address at an offset.
func withPointer(off int, to uintptr) func(r *refusal, page []byte, folder string) error {
	return func(r *refusal, page []byte, folder string) error {
		binary.LittleEndian.PutUint64(page[texts+off:], uint64(to))
		return nil
	}
}

// withMount writes a type, options, and where to mount.
func withMount(typ, options string) func(r *refusal, page []byte, folder string) error {
	return func(r *refusal, page []byte, folder string) error {
		copy(page[texts:], typ)
		copy(page[texts+16:], options)
		copy(page[texts+32:], folder)
		return nil
	}
}

func withNull(r *refusal, page []byte, folder string) error {
	fd, err := unix.Open("/dev/null", unix.O_RDWR, 0)
	r.args[0] = uintptr(fd)
	return err
}

// withoutMemory forbids to lock more than one byte.
func withoutMemory(r *refusal, page []byte, folder string) error {
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 1, Max: 1}); err != nil {
		return err
	}
	return dropCapabilities()
}

// withoutPermission makes a file that not even its owner may write to.
func withoutPermission(r *refusal, page []byte, folder string) error {
	file := folder + "/file"
	copy(page[texts:], file)
	if err := os.WriteFile(file, nil, 0o400); err != nil {
		return err
	}
	return dropCapabilities()
}

func withoutCapabilities(*refusal, []byte, string) error { return dropCapabilities() }

// withFilter has seccomp answer umount2 with the flags 0, in the second one of two filters.
func withFilter(answer uint32) func(r *refusal, page []byte, folder string) error {
	return func(r *refusal, page []byte, folder string) error {
		allow := unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}
		load := func(offset uint32) unix.SockFilter {
			return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
		}
		const number, secondArg = 0, 24 // in struct seccomp_data
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		for _, filter := range [][]unix.SockFilter{{allow}, {
			load(number),
			{Code: unix.BPF_JMP | unix.BPF_JEQ, K: uint32(r.number), Jf: 3},
			load(secondArg),
			{Code: unix.BPF_JMP | unix.BPF_JEQ, K: 0, Jf: 1},
			{Code: unix.BPF_RET, K: answer},
			allow,
		}} {
			program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
			if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); e != 0 {
				return e
			}
		}
		return nil
	}
}

// withLandlock forbids this thread to read files.
func withLandlock(r *refusal, page []byte, folder string) error {
	file := folder + "/file"
	copy(page[texts:], file)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	handled := uint64(unix.LANDLOCK_ACCESS_FS_READ_FILE)
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
	if e != 0 {
		return e
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); e != 0 {
		return e
	}
	return nil
}

// withSignal sends a signal to this thread, which has a handler for it, while the call waits.
func withSignal(*refusal, []byte, string) error {
	signal.Notify(make(chan os.Signal, 1), unix.SIGUSR1)
	thread := unix.Gettid()
	time.AfterFunc(100*time.Millisecond, func() { _ = unix.Tgkill(unix.Getpid(), thread, unix.SIGUSR1) })
	return nil
}

// dropCapabilities takes all capabilities from this thread.
func dropCapabilities() error {
	var none [2]unix.CapUserData
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}

func refusalCases() []workCase {
	var names []string
	for _, r := range refusals(0) {
		names = append(names, r.name)
	}
	return []workCase{{"refuse", "make a system call whose arguments one check refuses: refuse " + strings.Join(names, "|"), refuseCase}}
}

func refuseCase(f *flag.FlagSet) func(io.Writer) error {
	fail := f.Bool("fail", false, "then fail, and name the error on standard error, as commands do")
	return func(w io.Writer) error {
		page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return fmt.Errorf("a page of memory: %w", err)
		}
		page[0] = 1
		all := refusals(uintptr(unsafe.Pointer(&page[0])))
		i := slices.IndexFunc(all, func(x refusal) bool { return x.name == f.Arg(0) })
		if i < 0 || f.NArg() != 1 {
			return usageError("which system call? see workload list")
		}
		one := &all[i]
		runtime.LockOSThread() // capabilities are of a thread
		defer runtime.UnlockOSThread()
		if one.before != nil {
			folder, err := os.MkdirTemp("/tmp", "r")
			if err != nil {
				return err
			}
			defer os.RemoveAll(folder)
			if err := one.before(one, page, folder); err != nil {
				return fmt.Errorf("before the call: %w", err)
			}
		}
		r := call(one.number, one.args...)
		fmt.Fprintf(w, "refuse call=%s result=%v\n", f.Arg(0), r)
		if err := r.expect(one.errno); err != nil || !*fail {
			return err
		}
		return fmt.Errorf("%s: %w", one.name, one.errno)
	}
}
