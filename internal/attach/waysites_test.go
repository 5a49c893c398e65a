// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A refusingFile is a kprobe_events that takes single lines only, and refuses some.
type refusingFile map[string]error

func (f refusingFile) Write(b []byte) (int, error) {
	if strings.Count(string(b), "\n") > 1 {
		return 0, os.NewSyscallError("write", unix.EINVAL)
	}
	for place, err := range f {
		if strings.HasSuffix(strings.TrimSpace(string(b)), place) {
			return 0, os.NewSyscallError("write", err)
		}
	}
	return len(b), nil
}

// TestRefusedPlaces: what the kernel says of an instruction is no fault of the event.
func TestRefusedPlaces(t *testing.T) {
	const base = 0x1000
	for _, tt := range []struct {
		name    string
		file    refusingFile
		refused []uint64
		err     error
	}{
		{"jump labels", refusingFile{"+16": unix.EINVAL, "+32": unix.EILSEQ}, []uint64{base + 16, base + 32}, nil},
		{"defined before", refusingFile{"+16": unix.EEXIST}, nil, nil},
		{"no memory", refusingFile{"+32": unix.ENOMEM}, nil, unix.ENOMEM},
		{"no permission", refusingFile{"+16": unix.EPERM}, nil, unix.EPERM},
	} {
		d := siteDefiner{file: tt.file, event: "path", base: base}
		refused, err := d.write([]uint64{base + 16, base + 32, base + 48})
		if !slices.Equal(refused, tt.refused) || !errors.Is(err, tt.err) {
			t.Errorf("%s: %#x, %v", tt.name, refused, err)
		}
	}
}
