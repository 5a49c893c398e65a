// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"unsafe"
)

// An Owner is the task whose call, or whose session, it is. What was not recorded is 0.
type Owner struct {
	UID    uint32 // in the initial user namespace
	Cgroup uint64 // ID of its cgroup of version 2
}

// OwnerSize is the size of an Owner in records, in bytes. In those of calls it is in front of
// the values, in those of sessions behind the header.
const OwnerSize = int(unsafe.Sizeof(engineOwner{}))

// DecodeOwner reads an owner; raw has at least OwnerSize bytes.
func DecodeOwner(raw []byte) Owner {
	var l engineOwner
	return Owner{binary.LittleEndian.Uint32(raw[unsafe.Offsetof(l.Uid):]), binary.LittleEndian.Uint64(raw[unsafe.Offsetof(l.Cgroup):])}
}

// AppendOwner is the inverse of DecodeOwner.
func AppendOwner(dst []byte, o Owner) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, uint64(o.UID)), o.Cgroup)
}
