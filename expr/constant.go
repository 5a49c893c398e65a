// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math"
	"slices"
	"sort"
	"syscall"

	"golang.org/x/sys/unix"
)

//go:generate go run ../internal/genconst

// A namedConst is a constant that C programs know by name.
type namedConst struct {
	name  string
	value int64
}

// constant finds NULL, true, false, an errno name or a UAPI constant.
func constant(name string) (operand, bool) {
	switch name {
	case "NULL":
		t := pointerTo(typeVoid)
		return value(t, &Const{t, 0}), true
	case "true":
		return value(typeInt, &Const{typeInt, 1}), true
	case "false":
		return value(typeInt, &Const{typeInt, 0}), true
	}
	for _, table := range [][]namedConst{kernelErrnos, uapiConsts} {
		i := sort.Search(len(table), func(i int) bool { return table[i].name >= name })
		if i < len(table) && table[i].name == name {
			v := table[i].value
			t := typeInt
			switch {
			case v == int64(uint32(v)) && v > math.MaxInt32:
				t = typeUint // the headers write these in hexadecimal
			case v != int64(int32(v)):
				t = typeLong
			}
			return value(t, &Const{t, uint64(v)}), true
		}
	}
	return operand{}, false
}

// kernelErrnos are the error numbers that never reach user space, from
// include/linux/errno.h, sorted by name.
var kernelErrnos = []namedConst{
	{"EBADCOOKIE", 523}, {"EBADHANDLE", 521}, {"EBADTYPE", 527}, {"EIOCBQUEUED", 529}, {"EJUKEBOX", 528},
	{"ENOGRACE", 531}, {"ENOIOCTLCMD", 515}, {"ENOPARAM", 519}, {"ENOTSUPP", 524}, {"ENOTSYNC", 522},
	{"EOPENSTALE", 518}, {"EPROBE_DEFER", 517}, {"ERECALLCONFLICT", 530}, {"ERESTARTNOHAND", 514},
	{"ERESTARTNOINTR", 513}, {"ERESTARTSYS", 512}, {"ERESTART_RESTARTBLOCK", 516},
	{"ESERVERFAULT", 526}, {"ETOOSMALL", 525},
}

// constantNames lists the names that a mistyped one may have meant.
func constantNames() []string {
	names := []string{"NULL", "true", "false"}
	for _, table := range [][]namedConst{kernelErrnos, uapiConsts} {
		for _, k := range table {
			names = append(names, k.name)
		}
	}
	return slices.Clip(names)
}

// ErrnoName returns the name of an error number, the kernel's own included:
// 22 is EINVAL. Of two names of one number it is the one that the kernel's
// sources use.
func ErrnoName(n int) (string, bool) {
	for _, k := range kernelErrnos {
		if k.value == int64(n) {
			return k.name, true
		}
	}
	name := unix.ErrnoName(syscall.Errno(n))
	return name, name != ""
}
