// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/layout"
)

// shelved records to a shelf, with a block for each 50 records.
func shelved(t *testing.T, f *fixture, shelf *Shelf) {
	t.Helper()
	r := NewRecordings(shelf, f.source)
	if err := r.Begin(f.plan); err != nil {
		t.Fatal(err)
	}
	i := 0
	for _, err := range r.Tee(func(yield func([]byte, error) bool) {
		for _, raw := range f.raw {
			if !yield(raw, nil) {
				return
			}
		}
	}) {
		if i++; i%50 == 0 {
			err = errors.Join(err, r.w.Flush())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	losses := lostInTest
	if err := errors.Join(r.End(&losses), r.Close()); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestRotate: each recording is whole by itself and as large as was asked for at most. All
// together they have the records, in the order of their names.
func TestRotate(t *testing.T) {
	for _, full := range []bool{false, true} {
		f := fixtureOf(t, symbolsOfTest(t), layout.MethodKprobe, "ip_send_skb(*skb)")
		f.source.Full = full
		f.records(2000)
		for _, raw := range f.raw {
			binary.LittleEndian.PutUint64(raw[bpf.EventSize:], codeAddr)
		}
		const limit = 20_000
		dir := filepath.Join(t.TempDir(), "recordings")
		shelf, err := OpenShelf(dir, limit, 0)
		if err != nil {
			t.Fatal(err)
		}
		shelved(t, f, shelf)
		all := names(t, dir)
		if len(all) < 4 || shelf.Counts() != (ShelfCounts{Made: len(all)}) {
			t.Errorf("%d recordings, %+v", len(all), shelf.Counts())
		}
		var raw [][]byte
		run := ""
		for i, name := range all {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			r, records, err := read(data)
			if err != nil {
				t.Fatal(err)
			}
			last := i == len(all)-1
			if len(data) > limit || len(data) < limit/3 && !last {
				t.Errorf("%s: %d bytes", name, len(data))
			}
			if info := r.Info(); info.Part != i+1 || info.Run == "" || i > 0 && info.Run != run {
				t.Errorf("%s: part %d of %q", name, info.Part, info.Run)
			}
			run = r.Info().Run
			if want := (event.Losses{}); r.More() == last || !last && r.Losses() != want || last && r.Losses() != lostInTest {
				t.Errorf("%s: more %t, losses %v", name, r.More(), r.Losses())
			}
			if s, _ := r.Kernel().Symbol(codeAddr); s.Name != "vfs_read" {
				t.Errorf("%s: no symbol of its records, %q", name, s.Name)
			}
			raw = append(raw, records...)
		}
		if !slices.EqualFunc(raw, f.raw, bytes.Equal) {
			t.Errorf("%d records of %d", len(raw), len(f.raw))
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the directory: %v, %v", info.Mode(), err)
		}
	}
}

// TestShelfAbove: directories above that of the recordings are made, which it alone closes to others.
func TestShelfAbove(t *testing.T) {
	above := filepath.Join(t.TempDir(), "above")
	if _, err := OpenShelf(above+"/recordings/", 1, 0); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]os.FileMode{above: 0o755, above + "/recordings": 0o700} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&^0o077 != 0o700 || info.Mode().Perm()&^want != 0 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
}

// TestKeep: the oldest recordings are removed, of earlier runs too, but nothing that is no
// recording, and none that somebody is writing.
func TestKeep(t *testing.T) {
	f := newFixture(t, layout.MethodKprobe, "ip_send_skb(*skb)")
	f.records(1)
	whole := f.bytes(t)
	f.records(2000)
	dir := t.TempDir()
	put := func(name string, data []byte) string {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	stay := []string{
		put("ksnoop-20200101T000000.000000001Z.ks", []byte("not a recording")),
		put("ksnoop-20200101T000000.000000002Z.ks.old", whole),
		put("calls.ks", whole),
		put("ksnoop-20200101T000000.000000003Z.ks", whole), // being written
		"ksnoop-20200101T000000.000000004Z.ks",             // a link
	}
	file, err := os.OpenFile(filepath.Join(dir, stay[3]), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lock(file)
	if err := os.Symlink("calls.ks", filepath.Join(dir, stay[4])); err != nil {
		t.Fatal(err)
	}
	old := []string{put("ksnoop-20200101T000000.000000005Z.ks", whole), put("ksnoop-20240101T000000.000000000Z.ks", whole)}
	shelf, err := OpenShelf(dir, 20_000, 3)
	if err != nil {
		t.Fatal(err)
	}
	shelved(t, f, shelf)
	left := names(t, dir)
	for _, name := range stay {
		if !slices.Contains(left, name) {
			t.Errorf("%s is gone", name)
		}
	}
	for _, name := range old {
		if slices.Contains(left, name) {
			t.Errorf("%s is there", name)
		}
	}
	c := shelf.Counts()
	if len(left) != len(stay)+3 || c.Made < 4 || c.Removed != c.Made+len(old)-3 {
		t.Errorf("%+v, left %q", c, left)
	}
}

// TestShelfNames: names sort by time although the clock is set back.
func TestShelfNames(t *testing.T) {
	shelf, err := OpenShelf(t.TempDir(), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	shelf.name = "ksnoop-29991231T235959.999999999Z.ks"
	for _, want := range []string{"ksnoop-30000101T000000.000000000Z.ks", "ksnoop-30000101T000000.000000001Z.ks"} {
		file, err := shelf.next()
		if err != nil || filepath.Base(file.Name()) != want {
			t.Fatalf("%v, %v, want %s", file, err, want)
		}
	}
	if err := shelf.Close(); err != nil {
		t.Error(err)
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenShelf(name, 1, 0); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a file: %v", err)
	}
}

// TestShelfUnused: if nothing could be attached, no recording is left behind.
func TestShelfUnused(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	dir := t.TempDir()
	shelf, err := OpenShelf(dir, 1<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := NewRecordings(shelf, f.source).Close(); err != nil {
		t.Error(err)
	}
	r := NewRecordings(shelf, Source{Root: brokenFS{}, View: f.source.View})
	if err := r.Begin(f.plan); err == nil {
		t.Error("a kernel that cannot be read")
	}
	if err := r.Close(); err != nil || len(names(t, dir)) > 0 || shelf.Counts() != (ShelfCounts{}) {
		t.Errorf("%v: left %q", err, names(t, dir))
	}
}
