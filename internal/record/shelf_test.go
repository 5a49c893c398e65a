// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/livetest"
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

// TestRotateFlight: what a flight recorder writes is in the recordings of a shelf.
func TestRotateFlight(t *testing.T) {
	f := newFixture(t, layout.MethodKprobe, "ip_send_skb(*skb)")
	f.records(20_000)
	dir := t.TempDir()
	shelf, err := OpenShelf(dir, 300_000, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := NewRecordings(shelf, f.source)
	r.Fly(1<<26, Takeoff{Written: func(uint64, uint64) {}})
	if err := r.Begin(f.plan); err != nil {
		t.Fatal(err)
	}
	for _, err := range r.Tee(func(yield func([]byte, error) bool) {
		for i, raw := range f.raw {
			if i == len(f.raw)/2 {
				r.write()
			}
			if !yield(raw, nil) {
				return
			}
		}
	}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	losses := lostInTest
	if err := errors.Join(r.End(&losses), r.Close()); err != nil {
		t.Fatal(err)
	}
	var raw [][]byte
	all := names(t, dir)
	for _, name := range all {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		_, records, err := read(data)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, records...)
	}
	if len(all) < 2 || !slices.EqualFunc(raw, f.raw, bytes.Equal) {
		t.Errorf("%d recordings, %d records of %d", len(all), len(raw), len(f.raw))
	}
}

// TestRotateClock: where the time of day was set, another recording begins, which has the new one. While a
// recording is young, none begins for less than 10 s, but for what smaller steps add up to.
func TestRotateClock(t *testing.T) {
	f := newFixture(t, layout.MethodKprobe, "ip_send_skb(*skb)")
	f.records(200)
	first := time.Unix(1e9, 0).UTC()
	// The third of four blocks is 10 s away from the beginning of its recording.
	const step = 10 * time.Second
	times, calls := []time.Duration{0, 0, step - 1, step, step, 1}, 0
	f.source.Boot, f.source.Booted = first, func() time.Time {
		calls++
		return first.Add(times[calls-1])
	}
	dir := t.TempDir()
	shelf, err := OpenShelf(dir, 1<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	shelved(t, f, shelf)
	all := names(t, dir)
	if len(all) != 2 {
		t.Fatalf("%d recordings", len(all))
	}
	for i, name := range all {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		r, records, err := read(data)
		if err != nil {
			t.Fatal(err)
		}
		if want := first.Add(time.Duration(i) * step); !r.Info().Boot.Equal(want) || len(records) != 100 {
			t.Errorf("%s: %d records, booted %v, want %v", name, len(records), r.Info().Boot, want)
		}
	}
}

// TestRotateClockSteps: a clock that is set a little again and again begins a recording once an hour at most, unless
// the steps add up to 10 s.
func TestRotateClockSteps(t *testing.T) {
	boot := time.Unix(1e9, 0)
	for _, tt := range []struct {
		age, step time.Duration
		want      bool
	}{
		{time.Hour, 0, false},
		{time.Hour, 99 * time.Millisecond, false},
		{time.Hour, 100 * time.Millisecond, true},
		{time.Hour, -100 * time.Millisecond, true},
		{time.Hour / 2, 100 * time.Millisecond, false},
		{time.Hour / 2, -9 * time.Second, false},
		{time.Hour / 2, 10 * time.Second, true},
		{0, -10 * time.Second, true},
	} {
		w := Writer{begun: time.Now().Add(-tt.age), source: Source{Booted: func() time.Time { return boot.Add(tt.step) }}}
		w.info.Boot = boot
		if got := w.clockSet(); got != tt.want {
			t.Errorf("set by %v after %v: another recording begins: %t", tt.step, tt.age, got)
		}
	}
}

// TestRotateStopped: a run that fails is not ended, only closed. What is being written then, late or
// for a flight recorder, is whole, and no other recording begins. Without this the race detector tells.
func TestRotateStopped(t *testing.T) {
	for name, write := range map[string]func(*Recording){
		"late":   func(r *Recording) { r.w.flushLate() },
		"flight": func(r *Recording) { r.write() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, layout.MethodAuto, "vfs_read")
			f.records(1)
			boot := time.Unix(1e9, 0)
			f.source.Booted = func() time.Time { // each block has another recording
				boot = boot.Add(time.Hour)
				return boot
			}
			dir := t.TempDir()
			shelf, err := OpenShelf(dir, 1<<20, 0)
			if err != nil {
				t.Fatal(err)
			}
			r := NewRecordings(shelf, f.source)
			r.Fly(1<<20, Takeoff{Written: func(uint64, uint64) {}})
			if err := r.Begin(f.plan); err != nil {
				t.Fatal(err)
			}
			again := func() error { return errors.Join(r.flight.add(f.raw[0]), r.w.Append(f.raw[0])) }
			if err := again(); err != nil {
				t.Fatal(err)
			}
			written := make(chan struct{})
			go func() {
				defer close(written)
				write(r)
			}()
			for len(names(t, dir)) < 2 { // which tells nothing to the race detector
				time.Sleep(time.Millisecond)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			<-written
			all := names(t, dir)
			if err := again(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("a record behind the end: %v", err)
			}
			if write(r); len(names(t, dir)) != len(all) {
				t.Errorf("%d recordings, then %d", len(all), len(names(t, dir)))
			}
			data, err := os.ReadFile(filepath.Join(dir, all[0]))
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := read(data); err != nil {
				t.Error(err)
			}
		})
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

// put writes a file of an earlier run.
func put(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// began is the name of a recording.
func began(year, n int) string { return fmt.Sprintf("ksnoop-%d0101T000000.%09dZ.ks", year, n) }

// TestKeep: the oldest recordings are removed, of earlier runs too, but nothing that is no
// recording, and none that somebody is writing. The others have room in what is to be kept.
func TestKeep(t *testing.T) {
	f := newFixture(t, layout.MethodKprobe, "ip_send_skb(*skb)")
	f.records(1)
	whole := f.bytes(t)
	f.records(2000)
	dir := t.TempDir()
	stay := []string{
		put(t, dir, began(2020, 1), []byte("not a recording")),
		put(t, dir, began(2020, 2)+".old", whole),
		put(t, dir, "calls.ks", whole),
		put(t, dir, began(2020, 3), whole),                         // being written
		began(2020, 4),                                             // a link
		put(t, dir, "ksnoop-20201301T000000.000000000Z.ks", whole), // no date
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
	old := []string{put(t, dir, began(2020, 5), whole), put(t, dir, began(2024, 0), whole)}
	const limit, keep = 20_000, 3
	shelf, err := OpenShelf(dir, limit, keep)
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
	var size int64
	for _, name := range left {
		if slices.Contains(old, name) {
			t.Errorf("%s is there", name)
		}
		if !slices.Contains(stay, name) {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
	}
	c := shelf.Counts()
	if n := len(left) - len(stay); n < keep || c.Made < 5 || c.Removed != c.Made+len(old)-n || size > keep*limit || size < (keep-1)*limit {
		t.Errorf("%+v, %d bytes, left %q", c, size, left)
	}
}

// TestShelfLook: what was finished is not opened again, unless it has changed. What another ksnoop has begun or
// finished since is found, and what somebody has removed or put in its place is not.
func TestShelfLook(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	dir, whole := t.TempDir(), f.bytes(t)
	shelf, err := OpenShelf(dir, 1<<20, 1)
	if err != nil {
		t.Fatal(err)
	}
	look := func(want ...string) {
		t.Helper()
		if err := shelf.look(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range shelf.old {
			got = append(got, f.name)
			if info, err := os.Stat(filepath.Join(dir, f.name)); err != nil || f.size != info.Size() {
				t.Errorf("%s: %d bytes: %v", f.name, f.size, err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("found %q, want %q", got, want)
		}
	}
	first, second, third := put(t, dir, began(2020, 1), whole), put(t, dir, began(2020, 2), whole), put(t, dir, began(2020, 4), whole)
	other, err := os.OpenFile(filepath.Join(dir, third), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	lock(other)
	look(first, second)
	opened := livetest.Opens(t, filepath.Join(dir, second))
	if err := errors.Join(other.Close(), os.Remove(filepath.Join(dir, first))); err != nil {
		t.Fatal(err)
	}
	look(second, put(t, dir, began(2020, 3), whole), third)
	if opened() {
		t.Error("a recording that is as it was is opened again")
	}
	grown := put(t, dir, began(2020, 3), append(whole, whole...))
	look(second, grown, third)
	put(t, dir, grown, []byte("not a recording"))
	putLink(t, dir, second)
	look(third)
	if err := os.Chown(filepath.Join(dir, third), os.Geteuid()+1, -1); err != nil {
		t.Log(err) // only root gives files away
		return
	}
	look()
}

// putLink has a link take the place of a recording, as who moves it to another disk may do.
func putLink(t *testing.T, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.Rename(path, path+".moved"), os.Symlink(name+".moved", path)); err != nil {
		t.Fatal(err)
	}
}

// TestPruneChanged: what a recording has become since it was found is not removed, and does not count.
func TestPruneChanged(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	dir, whole := t.TempDir(), f.bytes(t)
	link, written, old, left := put(t, dir, began(2020, 1), whole), put(t, dir, began(2020, 2), whole), put(t, dir, began(2020, 3), whole), put(t, dir, began(2020, 4), whole)
	size := int64(len(whole))
	shelf, err := OpenShelf(dir, 2*size, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := shelf.look(); err != nil || len(shelf.old) != 4 {
		t.Fatalf("%v, %v", shelf.old, err)
	}
	putLink(t, dir, link)
	file, err := os.OpenFile(filepath.Join(dir, written), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lock(file)
	if err := shelf.prune(size); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, dir), []string{link, link + ".moved", written, left}; !slices.Equal(got, want) || shelf.Counts().Removed != 1 {
		t.Errorf("left %q, want all but %q, %+v", got, old, shelf.Counts())
	}
}

// TestShelfLink: a directory is not opened by another user's link, which may lead to a folder of ours.
func TestShelfLink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenShelf(link, 1<<20, 1); err != nil {
		t.Errorf("by an own link: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can make a link of another user")
	}
	if err := os.Lchown(link, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenShelf(link, 1<<20, 1); err == nil || !strings.Contains(err.Error(), "a symbolic link of another user") {
		t.Errorf("by a link of nobody: %v", err)
	}
}

// TestShelfReplaced: what takes the place of the directory is not looked at. Recordings are made and removed where they were.
func TestShelfReplaced(t *testing.T) {
	whole := newFixture(t, layout.MethodAuto, "vfs_read").bytes(t)
	dir, other := filepath.Join(t.TempDir(), "dir"), t.TempDir()
	moved := dir + ".moved"
	shelf, err := OpenShelf(dir, int64(len(whole)), 1)
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, began(2020, 1), whole)
	put(t, other, began(2020, 2), whole)
	if err := errors.Join(os.Rename(dir, moved), os.Symlink(other, dir)); err != nil {
		t.Fatal(err)
	}
	file, err := shelf.next()
	if err := errors.Join(err, shelf.prune(1)); err != nil {
		t.Fatal(err)
	}
	if made, left := names(t, moved), names(t, other); !slices.Equal(made, []string{filepath.Base(file.Name())}) || !slices.Equal(left, []string{began(2020, 2)}) {
		t.Errorf("the directory has %q, the other one %q", made, left)
	}
	if err := shelf.discard(); err != nil || len(names(t, moved)) != 0 {
		t.Errorf("discarded: %v, left %q", err, names(t, moved))
	}
}

// TestPruneNoDescriptors: a recording that cannot be looked at since there is no file descriptor left may be one that is to
// be removed. It stays known, and the error is told.
func TestPruneNoDescriptors(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	dir, whole := t.TempDir(), f.bytes(t)
	put(t, dir, began(2020, 1), whole)
	put(t, dir, began(2020, 2), whole)
	shelf, err := OpenShelf(dir, int64(len(whole)), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := shelf.look(); err != nil || len(shelf.old) != 2 {
		t.Fatalf("%v, %v", shelf.old, err)
	}
	put(t, dir, began(2020, 3), whole)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	looked, pruned, old := shelf.lookAt(entries), shelf.prune(1), len(shelf.old)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(looked, unix.EMFILE) || !errors.Is(pruned, unix.EMFILE) || old != 2 {
		t.Errorf("looked: %v; pruned: %v; %d are known", looked, pruned, old)
	}
	if err := errors.Join(shelf.look(), shelf.prune(1)); err != nil || len(names(t, dir)) != 0 {
		t.Errorf("with descriptors: %v, left %q", err, names(t, dir))
	}
}

// TestInspectErrors: what an error says of a file is no error, but that it is no recording.
func TestInspectErrors(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err := errors.Join(err, os.Symlink("link", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, want := range map[string]error{"gone": unix.ENOENT, "link": unix.ELOOP, "socket": unix.ENXIO, "socket/x": unix.ENOTDIR} {
		if _, err := os.OpenFile(filepath.Join(dir, name), unix.O_NOFOLLOW, 0); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if _, _, own, err := inspect(root, name); own || err != nil {
			t.Errorf("%s: %t, %v", name, own, err)
		}
	}
}

// TestKeepLarge: runs that fail soon do not remove what others have recorded, but for the room that
// they need; and there is an end to how many recordings they leave.
func TestKeepLarge(t *testing.T) {
	f := newFixture(t, layout.MethodKprobe, "ip_send_skb(*skb)")
	f.records(1)
	const limit, keep, runs = 1 << 20, 5, 20
	large := append(f.bytes(t), make([]byte, limit-100_000)...)
	dir := t.TempDir()
	for i := range keep {
		put(t, dir, began(2020, i), large)
	}
	again := func() *Shelf {
		shelf, err := OpenShelf(dir, limit, keep)
		if err != nil {
			t.Fatal(err)
		}
		shelved(t, f, shelf)
		return shelf
	}
	for range runs {
		again()
	}
	if left := names(t, dir); len(left) != keep+runs || left[0] != began(2020, 0) {
		t.Errorf("there was room for %d small recordings, left %q", runs, left)
	}
	for i := range keep * mostSmall {
		put(t, dir, began(2021, i), large[:1000])
	}
	c, left := again().Counts(), names(t, dir)
	if len(left) != keep*mostSmall || c.Removed != keep+runs+1 {
		t.Errorf("%+v, left %d", c, len(left))
	}
}

// TestKeepEnd: the end of a recording needs room, too.
func TestKeepEnd(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	f.records(1)
	dir := t.TempDir()
	put(t, dir, began(2020, 0), f.bytes(t))
	shelf, err := OpenShelf(dir, 1<<20, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := NewRecordings(shelf, f.source)
	if err := r.Begin(f.plan); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.w.Append(f.raw[0]), r.w.Flush()); err != nil {
		t.Fatal(err)
	}
	shelf.limit = shelf.old[0].size + r.w.out.size // all that there is by now
	if err := shelf.prune(r.w.out.size); err != nil || shelf.Counts().Removed != 0 {
		t.Fatalf("before the end: %+v, %v", shelf.Counts(), err)
	}
	if err := errors.Join(r.End(&event.Losses{}), r.Close()); err != nil || len(names(t, dir)) != 1 {
		t.Errorf("left %q, %v", names(t, dir), err)
	}
}

// TestShelfNames: names sort by time although the clock is set back, in a run or between two.
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
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	dir := t.TempDir()
	put(t, dir, began(2999, 7), f.bytes(t))
	put(t, dir, began(3000, 0), []byte("not a recording"))
	for _, keep := range []int{0, 1} {
		if shelf, err = OpenShelf(dir, 1, keep); err != nil {
			t.Fatal(err)
		}
		shelved(t, f, shelf)
	}
	if left := names(t, dir); !slices.Equal(left, []string{began(2999, 9), began(3000, 0)}) {
		t.Errorf("left %q", left)
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenShelf(name, 1, 0); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a file: %v", err)
	}
}

// TestShelfUnused: if nothing could be attached, no recording is left behind, and none is removed.
func TestShelfUnused(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	dir := t.TempDir()
	old := put(t, dir, began(2020, 0), append(f.bytes(t), make([]byte, 1<<20)...))
	shelf, err := OpenShelf(dir, 1<<20, 1)
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
	if err := r.Close(); err != nil || !slices.Equal(names(t, dir), []string{old}) || shelf.Counts() != (ShelfCounts{}) {
		t.Errorf("%v: left %q", err, names(t, dir))
	}
}
