// SPDX-License-Identifier: Apache-2.0

package progs

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// idAttr is what bpf() takes for the commands that go by an ID.
type idAttr struct{ id, next, flags uint32 }

// nextID returns the smallest ID above one.
func nextID(cmd int, after uint32) (uint32, error) {
	attr := idAttr{id: after}
	_, err := bpf(cmd, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return attr.next, err
}

// byID opens what has an ID.
func byID(cmd int, id uint32) (int, error) {
	attr := idAttr{id: id}
	return bpf(cmd, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
}

// infoOf asks what the kernel knows of an open object.
func infoOf(fd int, info unsafe.Pointer, size uintptr) error {
	attr := struct {
		fd, size uint32
		info     unsafe.Pointer
	}{uint32(fd), uint32(size), info}
	_, err := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return err
}

func bpf(cmd int, attr unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(cmd), uintptr(attr), size)
	if errno != 0 {
		return 0, os.NewSyscallError("bpf", errno)
	}
	return int(fd), nil
}
