// SPDX-License-Identifier: Apache-2.0

package formattest

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Kinds of blocks of a recording, as its format has them.
const (
	blockInfo    = 1
	blockFile    = 2
	blockPlan    = 3
	blockRecords = 4
	blockEnd     = 5
	blockSymbols = 6
)

// A Block is one of a recording, decompressed.
type Block struct {
	Kind byte
	Data []byte
}

const (
	fileHeader  = len("ksnoop-recording") + 4
	blockHeader = 13
	checksumAt  = 9
)

// A Recording is one that is taken apart, so that its blocks can be changed. It knows the
// format by itself: internal/record, whose tests have their own way, shows no blocks.
type Recording struct {
	header []byte
	Blocks []Block
}

// Take takes a whole recording apart.
func Take(t testing.TB, data []byte) *Recording {
	t.Helper()
	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	r := &Recording{header: data[:fileHeader]}
	for data = data[fileHeader:]; len(data) > 0; {
		end := blockHeader + int(binary.LittleEndian.Uint32(data[1:]))
		contents, err := dec.DecodeAll(data[blockHeader:end], nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Blocks = append(r.Blocks, Block{data[0], contents})
		data = data[end:]
	}
	return r
}

// Size returns how many bytes the blocks have.
func (r *Recording) Size() (n int) {
	for _, b := range r.Blocks {
		n += len(b.Data)
	}
	return n
}

// Bytes puts the recording together, with lengths and checksums that are right.
func (r *Recording) Bytes(t testing.TB) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	out := append([]byte(nil), r.header...)
	for _, b := range r.Blocks {
		block := enc.EncodeAll(b.Data, make([]byte, blockHeader))
		block[0] = b.Kind
		binary.LittleEndian.PutUint32(block[1:], uint32(len(block)-blockHeader))
		binary.LittleEndian.PutUint32(block[5:], uint32(len(b.Data)))
		table := crc32.MakeTable(crc32.Castagnoli)
		sum := crc32.Update(crc32.Checksum(block[:checksumAt], table), table, block[blockHeader:])
		binary.LittleEndian.PutUint32(block[checksumAt:], sum)
		out = append(out, block...)
	}
	return out
}
