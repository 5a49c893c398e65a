// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"encoding/binary"
	"reflect"
	"slices"
	"testing"
	"unsafe"
)

// engineBytes returns the bytes of a struct that bpf2go has generated.
func engineBytes[T any](v *T) []byte {
	return slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)))
}

// TestOwner decodes owners that are encoded by the structs that bpf2go has generated.
func TestOwner(t *testing.T) {
	want := Owner{UID: 1000, Cgroup: 1<<40 + 7}
	owner := engineBytes(&engineOwner{Uid: want.UID, Cgroup: want.Cgroup})
	if got := DecodeOwner(owner); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := AppendOwner(nil, want); !slices.Equal(got, owner) {
		t.Errorf("%x, want %x", got, owner)
	}
	call := append(AppendEvent(nil, &Event{Time: 1}), owner...)
	session := append(engineBytes(&engineSessionRecord{Kind: uint8(SessionEnd), LogSize: 8, Owner: 1}), append(owner, 1, 2, 3, 4, 5, 6, 7, 8)...)
	var h SessionHeader
	data, err := DecodeSession(session, &h)
	if err != nil || !h.HasOwner || h.Owner != want || !slices.Equal(data, []byte{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("%+v of a session, then %x, %v", h, data, err)
	}
	if _, err := DecodeSession(session[:len(session)-1], &h); err == nil {
		t.Error("a log that is cut by a byte is taken")
	}
	if _, err := DecodeSession(session[:SessionHeaderSize+OwnerSize-1], &h); err == nil {
		t.Error("an owner that is cut by a byte is taken")
	}
	bare := engineBytes(&engineSessionRecord{Kind: uint8(SessionEnd)})
	for _, c := range []struct {
		what     string
		raw      []byte
		sessions bool
		want     Owner
	}{
		{"call", call, false, want}, {"call that is cut", call[:len(call)-1], false, Owner{}}, {"session", session, true, want},
		{"session without", append(bare, owner...), true, Owner{}}, {"mark", AppendLost(nil, LostRingbuf, 3, 4), false, Owner{}},
	} {
		if got, ok := OwnerOf(c.raw, c.sessions); got != c.want || ok != (c.want != Owner{}) {
			t.Errorf("%s: %+v, %v", c.what, got, ok)
		}
	}
}

// TestSessionOwnerEncoded: what AppendSession writes is decoded again.
func TestSessionOwnerEncoded(t *testing.T) {
	want := SessionHeader{PID: 3, HasOwner: true, Owner: Owner{UID: 4, Cgroup: 5}}
	var got SessionHeader
	if _, err := DecodeSession(AppendSession(nil, &want), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v, %v", got, want, err)
	}
	if n := binary.Size(engineOwner{}); n != OwnerSize {
		t.Errorf("%d bytes, want %d", OwnerSize, n)
	}
}
