// SPDX-License-Identifier: Apache-2.0

package find

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"
)

// note is one ELF note, filled up to four bytes.
func note(name string, kind uint32, desc []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(len(name)))
	b = binary.NativeEndian.AppendUint32(b, uint32(len(desc)))
	b = binary.NativeEndian.AppendUint32(b, kind)
	b = append(b, name...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	b = append(b, desc...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

var someID = BuildID{0x4a, 0x5a, 0x9b, 0x0a, 0xff}

func TestParseNotes(t *testing.T) {
	xen := note("Xen\x00", 3, []byte{1}) // the type of a build ID, but not GNU's
	linux := note("Linux\x00", 6, []byte{1, 2, 3})
	id := note("GNU\x00", ntGNUBuildID, someID)
	for _, test := range []struct {
		name string
		data []byte
		want string
		err  error
	}{
		{"alone", id, "4a5a9b0aff", nil},
		{"after others", bytes.Join([][]byte{xen, linux, id}, nil), "4a5a9b0aff", nil},
		{"not filled up", id[:len(id)-3], "4a5a9b0aff", nil},
		{"none", nil, "", errNoBuildID},
		{"others only", append(linux, xen...), "", errNoBuildID},
		{"empty", note("GNU\x00", ntGNUBuildID, nil), "", errNoBuildID},
		{"other GNU note", note("GNU\x00", 1, someID), "", errNoBuildID},
		{"cut header", id[:11], "", errBadNote},
		{"cut contents", id[:len(id)-4], "", errBadNote},
		{"huge", append(binary.NativeEndian.AppendUint32(nil, 0xffffffff), id[4:]...), "", errBadNote},
	} {
		got, err := parseNotes(test.data, binary.NativeEndian)
		if got.String() != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %s, %v, want %s, %v", test.name, got, err, test.want, test.err)
		}
	}
}

func FuzzNotes(f *testing.F) {
	f.Add(note("GNU\x00", ntGNUBuildID, someID))
	f.Add(append(note("Linux\x00", 6, []byte{1}), note("GNU\x00", ntGNUBuildID, someID)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := parseNotes(data, binary.LittleEndian)
		if (err == nil) != (len(id) > 0) || !bytes.Contains(data, id) {
			t.Errorf("%x: %s, %v", data, id, err)
		}
	})
}

func TestRunning(t *testing.T) {
	k, err := Running(fstest.MapFS{
		releaseFile: {Data: []byte("6.12.1\n")},
		notesFile:   {Data: note("GNU\x00", ntGNUBuildID, someID)},
	})
	if err != nil || k.Release != "6.12.1" || !bytes.Equal(k.BuildID, someID) {
		t.Errorf("%+v, %v", k, err)
	}
	for name, root := range map[string]fstest.MapFS{
		"nothing":     {},
		"no notes":    {releaseFile: {Data: []byte("6.12.1\n")}},
		"no build ID": {releaseFile: {Data: []byte("6.12.1\n")}, notesFile: {}},
	} {
		if k, err := Running(root); err == nil {
			t.Errorf("%s: %+v", name, k)
		}
	}
}

// readelf is the oracle for the notes of the kernel that runs the test.
func TestRunningKernelNotes(t *testing.T) {
	readelf, err := exec.LookPath("readelf")
	if err != nil {
		t.Skip("needs readelf")
	}
	k, err := Running(os.DirFS("/"))
	if err != nil {
		t.Skip(err)
	}
	notes, err := os.ReadFile("/" + notesFile)
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/notes.o"
	if err := os.WriteFile(file, elfFile(elfContents{notes: notes}), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(readelf, "-n", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "Build ID: "+k.BuildID.String()+"\n") {
		t.Errorf("build ID %s, readelf says\n%s", k.BuildID, out)
	}
}
