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

// A BuildID is the hash by which the linker names what it made. A kernel and
// its debug info have the same.
type BuildID []byte

// String returns the ID in hex.
func (b BuildID) String() string { return hex.EncodeToString(b) }

// File returns where the debug info of what has that ID is, relative to the root;
// ok is false if the ID is too short.
func (b BuildID) File() (file string, ok bool) {
	if len(b) < 2 {
		return "", false
	}
	return "usr/lib/debug/.build-id/" + b[:1].String() + "/" + b[1:].String() + ".debug", true
}

// A Kernel is what debug info is looked for.
type Kernel struct {
	Release string // "6.12.111+deb12-cloud-amd64"
	BuildID BuildID
	// Caches are folders into which debuginfod's client puts what it fetched,
	// relative to the root; see CacheFolders.
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
	// Written by the kernel, so in the byte order of the machine.
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

// parseNotes returns the build ID among ELF notes: three words, the sizes of
// name and contents and the type, then both, each filled up to four bytes.
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
		notes = notes[min(end, uint64(len(notes))):] // the last may lack its filling
	}
	return nil, errNoBuildID
}

// ELFBuildID returns the build ID of an ELF file. vmlinux has it in a section
// .notes, most others in one of its own; stripped files only have the segment.
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
	const most = 1 << 20 // notes are a few hundred bytes; a damaged size must not matter
	for _, r := range readers {
		notes, err := io.ReadAll(io.LimitReader(r, most))
		if err != nil {
			continue
		}
		// A note that is damaged does not keep another from naming the build.
		if id, err := parseNotes(notes, f.ByteOrder); err == nil {
			return id, nil
		}
	}
	return nil, errNoBuildID
}
