// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A recording starts with magic and a version of 4 bytes. All numbers are little-endian.
const (
	magic   = "ksnoop-recording"
	version = 5
	// oldest is the oldest format that is read. Format 3 has all types and symbols of its
	// kernel, and no blocks of symbols. Up to format 4 records have no owner, and there are no
	// blocks of cgroups.
	oldest = 3
	// seriesVersion is that of a series, which has the blocks of several recordings, one after
	// the other, and a page that was made of them at its end. It differs, so that nobody takes
	// the first run for all of it.
	seriesVersion = version + 1
)

// A blockKind says what a block contains.
type blockKind uint8

const (
	blockInfo    blockKind = 1 // Info, as JSON
	blockFile    blockKind = 2 // a path with a NUL, and the contents of that file
	blockPlan    blockKind = 3 // the probes, as JSON
	blockRecords blockKind = 4 // records, each preceded by its length as a varint
	blockEnd     blockKind = 5 // ending, as JSON
	blockSymbols blockKind = 6 // lines for kernel.View.AddSymbols
	blockCgroups blockKind = 7 // paths of cgroups: for each its ID and its length as varints, and the path
	blockPage    blockKind = 8 // what was made of the runs of a series, as JSON
	blockUsers   blockKind = 9 // lines for process.Recorded
)

// blockKinds says what is in the blocks of each kind.
var blockKinds = [...]string{blockInfo: "info", blockFile: "files of the kernel", blockPlan: "plan", blockRecords: "records", blockEnd: "end", blockSymbols: "symbols", blockCgroups: "cgroups", blockPage: "page", blockUsers: "processes"}

// A block's header: its kind, its size, its size when decompressed, and a CRC-32C of these
// three and of the bytes that follow.
const (
	offPacked   = 1
	offSize     = 5
	offChecksum = 9
	headerSize  = 13
)

// versionSize is how many bytes the version has behind magic.
const versionSize = 4

// maxBlock bounds the size of a block, compressed or not, in bytes.
const maxBlock = 64 << 20

var (
	// errCut says that a recording ends too early.
	errCut = errors.New("the recording was cut off")
	// errDamaged says that the bytes of a recording are not those that were written.
	errDamaged = errors.New("the recording is damaged")
	// errSeries says that a file is a series, which TrySeries opens.
	errSeries = errors.New("a recording of ksnoop why, which has several runs: ksnoop replay prints its page")
)

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(format, args...))
}

// A blockWriter writes blocks, each with a single call of Write.
type blockWriter struct {
	w    io.Writer
	enc  *zstd.Encoder
	buf  []byte
	size int64 // bytes written
}

// newBlockWriter writes the magic.
func newBlockWriter(w io.Writer) (*blockWriter, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
	if err != nil {
		return nil, err
	}
	b := &blockWriter{enc: enc}
	return b, b.begin(w)
}

// begin begins a recording.
func (b *blockWriter) begin(w io.Writer) error {
	b.w, b.size = w, 0
	return b.put(binary.LittleEndian.AppendUint32([]byte(magic), version))
}

// put writes blocks that are ready.
func (b *blockWriter) put(data []byte) error {
	b.size += int64(len(data))
	_, err := b.w.Write(data)
	return err
}

func (b *blockWriter) write(kind blockKind, data []byte) error {
	if len(data) > maxBlock {
		return fmt.Errorf("%d bytes are too much for a block", len(data))
	}
	var header [headerSize]byte
	b.buf = b.enc.EncodeAll(data, append(b.buf[:0], header[:]...))
	h, packed := b.buf[:headerSize], b.buf[headerSize:]
	h[0] = byte(kind)
	binary.LittleEndian.PutUint32(h[offPacked:], uint32(len(packed)))
	binary.LittleEndian.PutUint32(h[offSize:], uint32(len(data)))
	binary.LittleEndian.PutUint32(h[offChecksum:], checksum(h, packed))
	return b.put(b.buf)
}

func checksum(header, packed []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(header[:offChecksum], table), table, packed)
}

// A blockReader reads blocks.
type blockReader struct {
	r      io.Reader
	dec    *zstd.Decoder
	packed bytes.Buffer
	sizes  [len(blockKinds)]Size
	// version is that of the format.
	version uint32
}

// Is reports whether r begins as a recording does.
func Is(r io.Reader) bool {
	head := make([]byte, len(magic))
	_, err := io.ReadFull(r, head)
	return err == nil && string(head) == magic
}

// newBlockReader reads the magic.
func newBlockReader(r io.Reader) (*blockReader, error) {
	head := make([]byte, len(magic)+4)
	n, err := io.ReadFull(r, head)
	if err != nil && !ended(err) {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New("the file is empty")
	}
	if n < len(magic) || string(head[:len(magic)]) != magic {
		return nil, errors.New("not a recording of ksnoop")
	}
	if n < len(head) {
		return nil, errCut
	}
	v := binary.LittleEndian.Uint32(head[len(magic):])
	if v < oldest || v > seriesVersion {
		return nil, fmt.Errorf("the recording has format %d, this ksnoop reads formats %d to %d", v, oldest, seriesVersion)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock),
		zstd.WithDecoderMaxWindow(maxBlock), zstd.WithDecodeAllCapLimit(true))
	return &blockReader{r: r, dec: dec, version: v}, err
}

// read returns the next block. It appends the decompressed data to dst. At the end of the
// file, which must come after a whole block, it returns io.EOF.
func (b *blockReader) read(dst []byte) (blockKind, []byte, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(b.r, header[:]); err != nil {
		if err == io.ErrUnexpectedEOF {
			err = errCut
		}
		return 0, dst, err
	}
	packed := binary.LittleEndian.Uint32(header[offPacked:])
	size := binary.LittleEndian.Uint32(header[offSize:])
	if packed > maxBlock || size > maxBlock {
		return 0, dst, damaged("a block of %d bytes, %d when decompressed", packed, size)
	}
	b.packed.Reset()
	// The buffer grows with what is there. A damaged header may claim anything.
	if n, err := io.CopyN(&b.packed, b.r, int64(packed)); err != nil {
		if ended(err) && n < int64(packed) {
			err = errCut
		}
		return 0, dst, err
	}
	if checksum(header[:], b.packed.Bytes()) != binary.LittleEndian.Uint32(header[offChecksum:]) {
		return 0, dst, damaged("a block has a wrong checksum")
	}
	data := dst
	if cap(data)-len(data) < int(size) {
		data = append(make([]byte, 0, len(dst)+int(size)), dst...)
	}
	limit := len(dst) + int(size)
	data, err := b.dec.DecodeAll(b.packed.Bytes(), data[:len(dst):limit])
	if err != nil {
		return 0, dst, damaged("decompressing a block: %v", err)
	}
	if len(data) != limit {
		return 0, dst, damaged("a block of %d bytes has %d", size, len(data)-len(dst))
	}
	b.count(blockKind(header[0]), packed, size)
	return blockKind(header[0]), data, nil
}

// count counts a block that was read.
func (b *blockReader) count(kind blockKind, packed, size uint32) {
	if int(kind) >= len(b.sizes) {
		return
	}
	s := &b.sizes[kind]
	s.Kind = blockKinds[kind]
	s.Blocks++
	s.Packed += headerSize + uint64(packed)
	s.Bytes += uint64(size)
}

func ended(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }
