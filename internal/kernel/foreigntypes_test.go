// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"testing/fstest"
)

// chain is the BTF of an int and n pointers, each to the one before.
func chain(n uint32) []byte {
	const names = "\x00int\x00"
	le := binary.LittleEndian
	types := le.AppendUint32(le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 1), kindInt<<24), 4), 32)
	for i := range n {
		types = le.AppendUint32(le.AppendUint32(le.AppendUint32(types, 0), kindPtr<<24), i+1)
	}
	data := append(le.AppendUint16(nil, btfMagic), 1, 0)
	for _, v := range []uint32{btfHeaderSize, 0, uint32(len(types)), uint32(len(types)), uint32(len(names))} {
		data = le.AppendUint32(data, v)
	}
	return append(append(data, types...), names...)
}

// TestForeignTypes: what a recording or a file has is decoded if it has not too many types: a chain of 250,000 pointers ended
// the program.
func TestForeignTypes(t *testing.T) {
	for n, refused := range map[uint32]bool{1000: false, mostForeign: true} {
		data := chain(n)
		recorded := Open(fstest.MapFS{vmlinuxFile: {Data: data}})
		_, err1 := recorded.BTF()
		_, err2 := OpenBTF(bytes.NewReader(data), nil, "")
		for _, err := range []error{err1, err2} {
			if (err != nil) != refused || refused && !strings.Contains(err.Error(), "at most 200000 are read") {
				t.Errorf("%d pointers: %v", n, err)
			}
		}
	}
}
