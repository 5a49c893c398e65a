// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A mapped file is one whose bytes are in memory.
type mapped struct {
	data   []byte
	copied uint64 // bytes for which room was taken
}

func mapFile(f *os.File) ([]byte, error) {
	size, err := sizeOf(f)
	if err != nil {
		return nil, err
	}
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map: %w", err)
	}
	// By default, the kernel reads 15 pages around each touched page.
	if err := unix.Madvise(data, unix.MADV_RANDOM); err != nil {
		return nil, errors.Join(fmt.Errorf("madvise: %w", err), unix.Munmap(data))
	}
	return data, nil
}

func sizeOf(f *os.File) (int, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if info.Size() == 0 {
		return 0, errors.New("no regular file with contents")
	}
	return int(info.Size()), nil
}
