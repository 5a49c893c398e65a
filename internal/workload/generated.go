// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func generatedCases() []workCase {
	return []workCase{{"generated", "read 33 bytes from code that is made at run time, and named in /tmp/perf-PID.map", func(f *flag.FlagSet) func(io.Writer) error {
		root := f.String("root", "", "`folder` to have as root, with a folder tmp")
		wait := f.Duration("for", 200*time.Millisecond, "how `long` the code is there before it is executed")
		return func(w io.Writer) error {
			fd, err := unix.Open("/dev/zero", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			if *root != "" {
				if err := errors.Join(unix.Chroot(*root), unix.Chdir("/")); err != nil {
					return err
				}
			}
			code, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				return err
			}
			buf := make([]byte, 33)
			var pin runtime.Pinner
			pin.Pin(&buf[0])
			defer pin.Unpin()
			n := copy(code, readCode(fd, buf))
			line := fmt.Sprintf("%x %x generated_read\n", uintptr(unsafe.Pointer(&code[0])), n)
			if err := errors.Join(unix.Mprotect(code, unix.PROT_READ|unix.PROT_EXEC), os.WriteFile(fmt.Sprintf("/tmp/perf-%d.map", os.Getpid()), []byte(line), 0o600)); err != nil {
				return err
			}
			time.Sleep(*wait)
			start := &code[0]
			function := &start // a Go function is a pointer to where its address is
			(*(*func())(unsafe.Pointer(&function)))()
			fmt.Fprintln(w, "generated")
			return nil
		}
	}}}
}

// readCode returns code that reads into a buffer, and keeps a frame pointer.
func readCode(fd int, buf []byte) (code []byte) {
	at, size := uint64(uintptr(unsafe.Pointer(&buf[0]))), uint32(len(buf))
	if runtime.GOARCH != "arm64" {
		code = append(code, 0x55, 0x48, 0x89, 0xe5)                             // push %rbp; mov %rsp, %rbp
		code = append(code, 0xb8, 0, 0, 0, 0)                                   // mov $SYS_read, %eax
		code = binary.LittleEndian.AppendUint32(append(code, 0xbf), uint32(fd)) // mov $fd, %edi
		code = binary.LittleEndian.AppendUint64(append(code, 0x48, 0xbe), at)   // mov $buf, %rsi
		code = binary.LittleEndian.AppendUint32(append(code, 0xba), size)       // mov $size, %edx
		return append(code, 0x0f, 0x05, 0x5d, 0xc3)                             // syscall; pop %rbp; ret
	}
	set := func(reg, value uint32) uint32 { return 0xd2800000 | value<<5 | reg } // movz
	for _, word := range []uint32{
		0xa9be7bfd, 0x910003fd, // stp x29, x30, [sp, #-32]!; mov x29, sp: Go's caller keeps something 8 bytes below its sp
		set(0, uint32(fd)), set(2, size), set(8, unix.SYS_READ),
		set(1, uint32(at&0xffff)), 0xf2a00001 | uint32(at>>16&0xffff)<<5, 0xf2c00001 | uint32(at>>32&0xffff)<<5, 0xf2e00001 | uint32(at>>48)<<5, // movk
		0xd4000001, 0xa8c27bfd, 0xd65f03c0, // svc; ldp x29, x30, [sp], #32; ret
	} {
		code = binary.LittleEndian.AppendUint32(code, word)
	}
	return code
}
