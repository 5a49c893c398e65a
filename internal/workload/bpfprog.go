// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// progAttr is the head of union bpf_attr for BPF_PROG_LOAD. Pointers are 64
// bits wide on every architecture.
type progAttr struct {
	progType, instructions uint32
	code, license          uint64
	logLevel, logSize      uint32
	log                    uint64
	kernelVersion, flags   uint32
}

// Instructions as struct bpf_insn lays them out on a little-endian machine.
const (
	movR0Zero = 0x00000000_00_00_00_b7 // r0 = 0
	movR0R2   = 0x00000000_00_00_20_bf // r0 = r2, which a socket filter has not been given
	exitProg  = 0x00000000_00_00_00_95
)

func loadProg(progType uint32, code []uint64) result {
	license := []byte("GPL\x00")
	a := progAttr{
		progType:     progType,
		instructions: uint32(len(code)),
		code:         uint64(uintptr(unsafe.Pointer(unsafe.SliceData(code)))),
		license:      uint64(uintptr(unsafe.Pointer(unsafe.SliceData(license)))),
	}
	r := undisturbed(func() result {
		return call(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&a)), unsafe.Sizeof(a))
	})
	// The addresses are in a as numbers, which keep nothing alive or in place.
	runtime.KeepAlive(code)
	runtime.KeepAlive(license)
	return r
}

// undisturbed makes a call with every signal blocked. The verifier gives up with EAGAIN where a signal is pending,
// and Go's runtime sends some to threads that are long in a call. The call would have to be made once more, and is counted.
func undisturbed(f func() result) result {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before); err != nil {
		return result{errno: err.(unix.Errno)}
	}
	r := f()
	// It can be taken back, as it was just set.
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	return r
}

func progCases() []workCase {
	table := []struct {
		name, about string
		progType    uint32
		code        []uint64
		want        []unix.Errno
	}{
		{"prog-ok", "load a socket filter: succeeds", unix.BPF_PROG_TYPE_SOCKET_FILTER, []uint64{movR0Zero, exitProg}, nil},
		{"prog-uninit", "load a program that reads a register it never wrote: EACCES from bpf_check", unix.BPF_PROG_TYPE_SOCKET_FILTER, []uint64{movR0R2, exitProg}, []unix.Errno{unix.EACCES}},
		{"prog-noexit", "load a program without an exit: EINVAL from bpf_check", unix.BPF_PROG_TYPE_SOCKET_FILTER, []uint64{movR0Zero}, []unix.Errno{unix.EINVAL}},
		{"prog-type", "load a program of a type that does not exist: EINVAL from bpf_prog_load", 0x7fff, []uint64{movR0Zero, exitProg}, []unix.Errno{unix.EINVAL}},
	}
	var cases []workCase
	for _, row := range table {
		cases = append(cases, attempts(row.name, row.about, func() result { return loadProg(row.progType, row.code) }, row.want))
	}
	return cases
}
