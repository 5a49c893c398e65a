// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A twin is a call that the kernel refuses, and the smallest change of it that makes it succeed.
type twin struct {
	name  string
	errno unix.Errno
	call  func(good bool) result
}

func twins() []twin {
	return slices.Concat(bpfTwins(), openTwins(), bindTwins(), optionTwins(), sendTwins())
}

func pairCases() []workCase {
	return []workCase{{"pairs", "make system calls that succeed, each followed by one that fails with one thing wrong: pairs [NAME]", pairsCase}}
}

func pairsCase(f *flag.FlagSet) func(io.Writer) error {
	return func(w io.Writer) error {
		all := twins()
		if f.NArg() > 0 { // that one alone
			i := slices.IndexFunc(all, func(t twin) bool { return t.name == f.Arg(0) })
			if i < 0 || f.NArg() > 1 {
				return usageError("which pair? one of those that pairs prints, or none for all")
			}
			all = all[i : i+1]
		}
		for _, t := range all {
			good, bad := t.call(true), t.call(false)
			fmt.Fprintf(w, "pair name=%s good=%v bad=%v\n", t.name, good, bad)
			if err := good.expect(); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			if err := bad.expect(t.errno); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
		return nil
	}
}

// closed closes the descriptor of a result: its number is nothing to compare with.
func closed(r result) result {
	if r.errno == 0 {
		unix.Close(r.n)
		r.n = 0
	}
	return r
}

// longMapAttr is as much of union bpf_attr for BPF_MAP_CREATE as twins need.
type longMapAttr struct {
	mapAttr
	inner, numa uint32
	name        [16]byte
}

// Map types and flags that package unix does not have.
const (
	mapNoPrealloc = 1 << 0 // BPF_F_NO_PREALLOC
	mapNUMA       = 1 << 2 // BPF_F_NUMA_NODE
)

func bpfTwins() []twin {
	create := func(name string, errno unix.Errno, a mapAttr, spoil func(a *longMapAttr)) twin {
		return twin{name, errno, func(good bool) result {
			long := longMapAttr{mapAttr: a}
			if !good {
				spoil(&long)
			}
			return closed(call(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&long)), unsafe.Sizeof(long)))
		}}
	}
	load := func(name string, errno unix.Errno, progType uint32, good, bad []uint64) twin {
		return twin{name, errno, func(isGood bool) result {
			if isGood {
				return closed(loadProg(unix.BPF_PROG_TYPE_SOCKET_FILTER, good))
			}
			return closed(loadProg(progType, bad))
		}}
	}
	array := mapAttr{unix.BPF_MAP_TYPE_ARRAY, 4, 8, 16, 0}
	hash := mapAttr{unix.BPF_MAP_TYPE_HASH, 4, 8, 16, 0}
	fine := []uint64{movR0Zero, exitProg}
	return []twin{
		create("array-entries", unix.EINVAL, array, func(a *longMapAttr) { a.maxEntries = 0 }),
		create("array-key", unix.EINVAL, array, func(a *longMapAttr) { a.keySize = 3 }),
		create("array-flags", unix.EINVAL, array, func(a *longMapAttr) { a.flags = 1 << 30 }),
		create("hash-entries", unix.EINVAL, hash, func(a *longMapAttr) { a.maxEntries = 0 }),
		create("hash-key", unix.E2BIG, hash, func(a *longMapAttr) { a.keySize = 1 << 30 }),
		create("percpu-value", unix.E2BIG, mapAttr{unix.BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, 1, 0}, func(a *longMapAttr) { a.valueSize = 1 << 20 }),
		create("type", unix.EINVAL, array, func(a *longMapAttr) { a.mapType = 0x7fff }),
		create("node", unix.EINVAL, array, func(a *longMapAttr) { a.flags, a.numa = mapNUMA, 1000 }),
		create("name", unix.EINVAL, array, func(a *longMapAttr) { copy(a.name[:], "a-b") }),
		create("queue-key", unix.EINVAL, mapAttr{unix.BPF_MAP_TYPE_QUEUE, 0, 8, 16, 0}, func(a *longMapAttr) { a.keySize = 4 }),
		create("stack-value", unix.EINVAL, mapAttr{unix.BPF_MAP_TYPE_STACK_TRACE, 4, 80, 16, 0}, func(a *longMapAttr) { a.valueSize = 4 }),
		create("ringbuf-size", unix.EINVAL, mapAttr{unix.BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, 0}, func(a *longMapAttr) { a.maxEntries = 4097 }),
		create("trie-flags", unix.EINVAL, mapAttr{unix.BPF_MAP_TYPE_LPM_TRIE, 8, 8, 16, mapNoPrealloc}, func(a *longMapAttr) { a.flags = 0 }),
		create("bloom-key", unix.EINVAL, mapAttr{unix.BPF_MAP_TYPE_BLOOM_FILTER, 0, 8, 16, 0}, func(a *longMapAttr) { a.keySize = 4 }),
		create("cpu-value", unix.EINVAL, mapAttr{unix.BPF_MAP_TYPE_CPUMAP, 4, 4, 1, 0}, func(a *longMapAttr) { a.valueSize = 3 }),
		load("prog-register", unix.EACCES, unix.BPF_PROG_TYPE_SOCKET_FILTER, fine, []uint64{movR0R2, exitProg}),
		load("prog-exit", unix.EINVAL, unix.BPF_PROG_TYPE_SOCKET_FILTER, fine, fine[:1]),
		load("prog-type", unix.EINVAL, 0x7fff, fine, fine),
	}
}

func openTwins() []twin {
	open := func(name string, errno unix.Errno, good, bad string, how, badHow unix.OpenHow) twin {
		return twin{name, errno, func(isGood bool) result {
			path, how := good, how
			if !isGood {
				path, how = bad, badHow
				_ = unix.Access(path, unix.F_OK) // so that the kernel remembers whether it exists
			}
			return closed(resultOf(unix.Openat2(unix.AT_FDCWD, path, &how)))
		}}
	}
	read := unix.OpenHow{Flags: unix.O_RDONLY}
	return []twin{
		open("resolve", unix.EINVAL, "/dev/null", "/dev/null", read, unix.OpenHow{Resolve: 1 << 40}),
		open("mode", unix.EINVAL, "/dev/null", "/dev/null", read, unix.OpenHow{Mode: 0o600}),
		open("missing", unix.ENOENT, "/dev", "/nope", read, read),
		open("below-file", unix.ENOTDIR, "/dev/null", "/dev/null/x", read, read),
		open("no-folder", unix.ENOTDIR, "/dev/null", "/dev/null", read, unix.OpenHow{Flags: unix.O_DIRECTORY}),
		open("write-folder", unix.EISDIR, "/dev", "/dev", read, unix.OpenHow{Flags: unix.O_WRONLY}),
		open("exists", unix.EEXIST, "/dev/null", "/dev/null", unix.OpenHow{Flags: unix.O_CREAT, Mode: 0o600}, unix.OpenHow{Flags: unix.O_CREAT | unix.O_EXCL, Mode: 0o600}),
	}
}

// socketTwin makes a call with a new UDP socket.
func socketTwin(name string, errno unix.Errno, call func(fd int, good bool) error) twin {
	return twin{name, errno, func(good bool) result {
		r, _ := withSocket(unix.AF_INET, unix.SOCK_DGRAM, func(fd int) error { return call(fd, good) })
		return r
	}}
}

// addressOf is struct sockaddr_in with an address of 127.0.0.0/8 and a port.
func addressOf(family uint16, host byte, port uint16) unix.RawSockaddrInet4 {
	return unix.RawSockaddrInet4{Family: family, Port: port<<8 | port>>8, Addr: [4]byte{127, 0, 0, host}}
}

func bindTwins() []twin {
	bind := func(name string, errno unix.Errno, spoil func(a *unix.RawSockaddrInet4, size *uintptr)) twin {
		return socketTwin(name, errno, func(fd int, good bool) error {
			a, size := addressOf(unix.AF_INET, 1, 0), uintptr(unix.SizeofSockaddrInet4)
			if !good {
				spoil(&a, &size)
			}
			return call(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&a)), size).err()
		})
	}
	return []twin{
		bind("bind-size", unix.EINVAL, func(_ *unix.RawSockaddrInet4, size *uintptr) { *size = 8 }),
		bind("bind-family", unix.EAFNOSUPPORT, func(a *unix.RawSockaddrInet4, _ *uintptr) { a.Family = unix.AF_INET6 }),
		bind("bind-address", unix.EADDRNOTAVAIL, func(a *unix.RawSockaddrInet4, _ *uintptr) { a.Addr = [4]byte{192, 0, 2, 1} }),
	}
}

func optionTwins() []twin {
	set := func(name string, errno unix.Errno, option, size uintptr) twin {
		return socketTwin(name, errno, func(fd int, good bool) error {
			on, option, size := int32(1), option, size
			if good {
				option, size = unix.SO_REUSEADDR, 4
			}
			return call(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, option, uintptr(unsafe.Pointer(&on)), size).err()
		})
	}
	return []twin{
		set("option-size", unix.EINVAL, unix.SO_REUSEADDR, 2),
		set("option", unix.ENOPROTOOPT, 9999, 4),
	}
}

func sendTwins() []twin {
	send := func(name string, errno unix.Errno, spoil func(a *unix.RawSockaddrInet4, size *uintptr)) twin {
		return socketTwin(name, errno, func(fd int, good bool) error {
			a, size, text := addressOf(unix.AF_INET, 1, 9), uintptr(unix.SizeofSockaddrInet4), [1]byte{}
			if !good {
				spoil(&a, &size)
			}
			return call(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&text)), 1, 0, uintptr(unsafe.Pointer(&a)), size).err()
		})
	}
	return []twin{
		send("send-port", unix.EINVAL, func(a *unix.RawSockaddrInet4, _ *uintptr) { a.Port = 0 }),
		send("send-size", unix.EINVAL, func(_ *unix.RawSockaddrInet4, size *uintptr) { *size = 8 }),
		send("send-family", unix.EAFNOSUPPORT, func(a *unix.RawSockaddrInet4, _ *uintptr) { a.Family = unix.AF_INET6 }),
	}
}
