// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/kernel"
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

// TestPlacesOfModules: an instruction that lies before the kernel's code, as modules do on arm64, or far behind it,
// is named by its symbol. One that has none is refused, and the others are not.
func TestPlacesOfModules(t *testing.T) {
	const base, module, far = 0x80000000, 0x10000, 0x180000000
	symbols := map[uint64]kernel.Symbol{
		module + 16: {Name: "f", Module: "mod", Offset: 16},
		module + 64: {Name: "f.cold", Module: "mod", Offset: 4},
		far:         {Name: "g"},
	}
	var text bytes.Buffer
	d := siteDefiner{file: &text, event: "path", base: base, symbol: func(addr uint64) (kernel.Symbol, bool) {
		s, ok := symbols[addr]
		return s, ok
	}}
	refused, err := d.write([]uint64{module + 16, base + 8, module + 32, module + 64, far})
	const want = "p:path mod:f+16\np:path _stext+8\np:path mod:f.cold+4\np:path g+0\n"
	if err != nil || !slices.Equal(refused, []uint64{module + 32}) || text.String() != want || d.defined != 4 {
		t.Errorf("%d are defined, refused are %#x, %v:\n%s", d.defined, refused, err, text.String())
	}
	text.Reset()
	if refused, err = d.write([]uint64{module + 32}); err != nil || len(refused) != 1 || text.Len() != 0 {
		t.Errorf("refused are %#x, %v: %q", refused, err, text.String())
	}
}
