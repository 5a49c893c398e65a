// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	imagetar "github.com/google/go-containerregistry/pkg/v1/tarball"
)

// TestImage: the images of a commit are the same whenever and in whichever folder they are made, and a container has
// the binary, which runs the agent, and nothing else that could be run.
func TestImage(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for _, out := range []string{first, second} {
		if err := dist(t.Context(), "..", out, true); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(first, "*.image.tar"))
	if err != nil || len(files) != len(architectures) {
		t.Fatalf("%q, %v", files, err)
	}
	for i, path := range files {
		a, errA := os.ReadFile(path)
		b, errB := os.ReadFile(filepath.Join(second, filepath.Base(path)))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: the second one differs: %v, %v", filepath.Base(path), errA, errB)
		}
		image, err := imagetar.ImageFromPath(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != architectures[i] || config.OS != "linux" || !slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/ksnoop"}) || config.Config.Cmd[0] != "agent" {
			t.Errorf("%+v", config)
		}
		want := []string{"usr/ drwxr-xr-x", "usr/bin/ drwxr-xr-x", "usr/bin/ksnoop -rwxr-xr-x", "usr/share/ drwxr-xr-x", "usr/share/doc/ drwxr-xr-x",
			"usr/share/doc/ksnoop/ drwxr-xr-x", "usr/share/doc/ksnoop/copyright -rw-r--r--"}
		if got := contents(t, image, config.Created.Time); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// contents lists what an image has, with modes. All is root's, and of one time.
func contents(t *testing.T, image v1.Image, made time.Time) (names []string) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	data, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	for r := tar.NewReader(data); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(made) || h.FileInfo().Mode()&(fs.ModeSetuid|fs.ModeSymlink) != 0 {
			t.Errorf("%+v", h)
		}
		names = append(names, h.Name+" "+h.FileInfo().Mode().String())
	}
}
