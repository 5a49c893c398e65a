// SPDX-License-Identifier: Apache-2.0

package find

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// A BuildID is the hash by which a linker identifies its output. A kernel and its debug
// info have the same ID.
type BuildID []byte

// String returns the ID in hex.
func (b BuildID) String() string { return hex.EncodeToString(b) }

// File returns the path, relative to the root, of the debug info for this ID. ok is false
// if the ID is too short.
func (b BuildID) File() (file string, ok bool) {
	if len(b) < 2 {
		return "", false
	}
	return "usr/lib/debug/.build-id/" + b[:1].String() + "/" + b[1:].String() + ".debug", true
}

// A Kernel is a kernel whose debug info is wanted.
type Kernel struct {
	Release string // "6.12.111+deb12-cloud-amd64"
	BuildID BuildID
	// Caches are directories in which debuginfod's client stores files, relative to the
	// root; see CacheFolders.
	Caches []string
}

const (
	notesFile   = "sys/kernel/notes"
	releaseFile = "proc/sys/kernel/osrelease"
)

// Running returns the kernel whose /proc and /sys are below root.
func Running(root fs.FS) (Kernel, error) {
	release, err := fs.ReadFile(root, releaseFile)
	if err != nil {
		return Kernel{}, fmt.Errorf("kernel's release: %w", err)
	}
	notes, err := fs.ReadFile(root, notesFile)
	if err != nil {
		return Kernel{}, fmt.Errorf("kernel's build ID: %w", err)
	}
	// The kernel writes this in the machine's byte order.
	id, err := parseNotes(notes, binary.NativeEndian)
	if err != nil {
		return Kernel{}, fmt.Errorf("kernel's build ID: /%s: %w", notesFile, err)
	}
	return Kernel{Release: strings.TrimSpace(string(release)), BuildID: id}, nil
}

var (
	errNoBuildID = errors.New("no build ID")
	errBadNote   = errors.New("malformed note")
)

const ntGNUBuildID = 3 // NT_GNU_BUILD_ID, elf.h

// parseNotes returns the build ID among ELF notes. A note has three words (size of the
// name, size of the contents, type), the name and the contents, each padded to four bytes.
func parseNotes(notes []byte, order binary.ByteOrder) (BuildID, error) {
	for len(notes) > 0 {
		if len(notes) < 12 {
			return nil, errBadNote
		}
		nameSize, descSize := uint64(order.Uint32(notes)), uint64(order.Uint32(notes[4:]))
		kind := order.Uint32(notes[8:])
		notes = notes[12:]
		desc := (nameSize + 3) &^ 3
		end := desc + (descSize+3)&^3
		if desc+descSize > uint64(len(notes)) {
			return nil, errBadNote
		}
		if kind == ntGNUBuildID && string(notes[:nameSize]) == "GNU\x00" && descSize > 0 {
			return BuildID(notes[desc:][:descSize]), nil
		}
		notes = notes[min(end, uint64(len(notes))):] // the last may lack its padding
	}
	return nil, errNoBuildID
}

// ELFBuildID returns the build ID of an ELF file. vmlinux has it in section .notes, most
// files in a section of its own, and stripped files only in a segment.
func ELFBuildID(f *elf.File) (BuildID, error) {
	var readers []io.Reader
	for _, s := range f.Sections {
		if s.Type == elf.SHT_NOTE {
			readers = append(readers, s.Open())
		}
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_NOTE {
			readers = append(readers, p.Open())
		}
	}
	left := int64(1 << 20) // notes have a few hundred bytes; damaged sizes must not matter
	for _, r := range readers {
		notes, err := io.ReadAll(io.LimitReader(r, left))
		if left -= int64(len(notes)); err != nil {
			continue
		}
		// A damaged note must not hide a good one.
		if id, err := parseNotes(notes, f.ByteOrder); err == nil {
			return id, nil
		}
	}
	return nil, errNoBuildID
}
