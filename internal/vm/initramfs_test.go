// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
)

// listing renders an archive, one entry a line.
func listing(t *testing.T, b []byte) []string {
	t.Helper()
	var lines []string
	for r := cpio.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		switch h.Mode & cpio.ModeType {
		case cpio.TypeDir:
			lines = append(lines, fmt.Sprintf("%s/ %o", h.Name, h.Mode.Perm()))
		case cpio.TypeSymlink:
			lines = append(lines, fmt.Sprintf("%s -> %s", h.Name, h.Linkname))
		case cpio.TypeReg:
			lines = append(lines, fmt.Sprintf("%s %o %q", h.Name, h.Mode.Perm(), data))
		default:
			lines = append(lines, fmt.Sprintf("%s of mode %o", h.Name, h.Mode))
		}
	}
}

func TestInitramfs(t *testing.T) {
	host := t.TempDir()
	write := func(name, data string, mode os.FileMode) {
		t.Helper()
		name = filepath.Join(host, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(data), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("tree/a", "A", 0o600)
	write("tree/sub/b", "B", 0o755)
	for link, target := range map[string]string{"tree/sub/up": "../a", "top": "tree/a"} {
		if err := os.Symlink(target, filepath.Join(host, link)); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	a := newInitramfs(&b)
	for _, f := range []File{
		{Guest: "/init", Data: []byte("x"), Mode: 0o755},
		{Guest: "/etc/deep/file", Data: []byte("\x00\xff")},
		{Guest: "/etc/empty"},
		{Guest: "/bin/sh", Link: "busybox"},
		{Guest: "/src/pkg/testdata", Host: filepath.Join(host, "tree")},
		{Guest: "/copy", Host: filepath.Join(host, "top")},
	} {
		if err := a.add(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`init 755 "x"`,
		`etc/ 755`, `etc/deep/ 755`, `etc/deep/file 644 "\x00\xff"`,
		`etc/empty 644 ""`,
		`bin/ 755`, `bin/sh -> busybox`,
		`src/ 755`, `src/pkg/ 755`, `src/pkg/testdata/ 755`, `src/pkg/testdata/a 600 "A"`,
		`src/pkg/testdata/sub/ 755`, `src/pkg/testdata/sub/b 755 "B"`, `src/pkg/testdata/sub/up -> ../a`,
		`copy 600 "A"`,
	}
	if got := listing(t, b.Bytes()); !slices.Equal(got, want) {
		t.Errorf("archive\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestInitramfsFaults(t *testing.T) {
	tests := []struct {
		name  string
		files []File
		want  string
	}{
		{"twice", []File{{Guest: "/a"}, {Guest: "//a"}}, "two files for /a"},
		{"relative", []File{{Guest: "a"}}, "not absolute"},
		{"missing", []File{{Guest: "/a", Host: "/no/such/file"}}, "no such file"},
		{"device", []File{{Guest: "/a", Host: "/dev/null"}}, "neither file, folder nor link"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newInitramfs(io.Discard)
			var err error
			for _, f := range tt.files {
				err = errors.Join(err, a.add(f))
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}
