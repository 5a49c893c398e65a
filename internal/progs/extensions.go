// SPDX-License-Identifier: Apache-2.0

package progs

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A link is what attaches a program, as far as it is a tracing link: of programs on trampolines, and of extensions.
type link struct {
	typ, id, program   uint32
	_                  uint32
	attach             uint32
	target, targetType uint32 // a program, and the ID of a function's type in its BTF; or a BTF object and a type
	_                  uint32
}

const (
	progExtension = 28 // BPF_PROG_TYPE_EXT
	linkTracing   = 2  // BPF_LINK_TYPE_TRACING
)

// addExtensions notes which functions others have put a program in the place of (freplace).
func addExtensions(all []Program, links []link) {
	programs := map[uint32]*Program{}
	for i := range all {
		programs[all[i].ID] = &all[i]
	}
	for _, l := range links {
		by, target := programs[l.program], programs[l.target]
		if l.typ != linkTracing || by == nil || by.Type != progExtension || target == nil {
			continue
		}
		for i := range target.Functions {
			if f := &target.Functions[i]; f.Type == l.targetType {
				f.Extension = l.program
			}
		}
	}
}

// links returns all links.
func links() ([]link, error) {
	var all []link
	for id := uint32(0); ; {
		next, err := nextID(unix.BPF_LINK_GET_NEXT_ID, id)
		if errors.Is(err, unix.ENOENT) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing BPF links: %w", err)
		}
		id = next
		fd, err := byID(unix.BPF_LINK_GET_FD_BY_ID, id)
		if err != nil {
			continue // gone in the meantime
		}
		var info link
		err = infoOf(fd, unsafe.Pointer(&info), unsafe.Sizeof(info))
		unix.Close(fd)
		if err == nil {
			all = append(all, info)
		}
	}
}
