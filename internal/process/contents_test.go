// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/mappings"
	"github.com/ksnoop/ksnoop/internal/regular"
)

// A copying machine has processes that map the function one() of their own copy of a program at 0x5000. By path and build ID, all
// of these are the same.
type copying struct {
	*testing.T
	root    string
	program []byte
	mapped  mappings.Event
	source  told
	symbols *Symbols
}

func copies(t *testing.T, args ...string) *copying {
	t.Helper()
	c := &copying{T: t, root: t.TempDir(), program: build(t, append(args, "-Wl,--build-id")...)}
	img, err := readImage(bytes.NewReader(c.program))
	if err != nil {
		t.Fatal(err)
	}
	c.mapped = mappings.Event{Kind: mappings.Mapped, Time: 2, Start: 0x5000, End: 0x6000, Path: "/bin/victim", BuildID: img.buildID}
	c.mapped.Offset = offsetOf(t, img, "one")
	c.symbols = Following(os.DirFS(c.root), NumberedOurs, &c.source, true)
	return c
}

// forged returns the program with another name of one().
func (c *copying) forged() []byte {
	return bytes.ReplaceAll(c.program, []byte("\x00one\x00"), []byte("\x00eno\x00"))
}

// maps tells of a process, which has this file; nil: none that could be opened.
func (c *copying) maps(pid uint32, file []byte) {
	c.Helper()
	e := c.mapped
	e.PID, e.TID = pid, pid
	c.source = append(c.source, []mappings.Event{{Kind: mappings.Execed, PID: pid, TID: pid, Time: 1}, e})
	c.symbols.Update()
	dir := filepath.Join(c.root, procOf(pid), "map_files")
	if file == nil {
		return
	}
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "5000-6000"), file, 0o600)); err != nil {
		c.Fatal(err)
	}
}

// ends makes it impossible to open what a process has.
func (c *copying) ends(pid uint32) {
	c.Helper()
	if err := os.RemoveAll(filepath.Join(c.root, procOf(pid))); err != nil {
		c.Fatal(err)
	}
}

func (c *copying) of(pid uint32) *Process {
	return c.symbols.Of(&bpf.Event{PID: pid, TID: pid, Time: 9}, "victim")
}

// named checks the name of the function of a process; with a reason, that there is none.
func (c *copying) named(pid uint32, want, why string) {
	c.Helper()
	p := c.of(pid)
	if got := string(p.AppendFrame(nil, 0x5000, false)); got != want+" (/bin/victim)" || why == "" && p.Missing() != "" || !strings.Contains(p.Missing(), why) {
		c.Errorf("process %d: %s, %q; want %s, %q", pid, got, p.Missing(), want, why)
	}
}

const (
	one, eno = "one+0x0", "eno+0x0"
	bare     = "0x5000"
	differ   = "/bin/victim: no names: files of this name differ"
)

// TestForged: a program has its own names, although somebody runs a copy with others that has its path and build ID. Where it is
// not known which one was run, there are none.
func TestForged(t *testing.T) {
	for name, first := range map[string]uint32{"the copy is first": 7, "the program is first": 8} {
		t.Run(name, func(t *testing.T) {
			c := copies(t, "-shared", "-fPIC")
			c.maps(7, c.forged())
			c.maps(8, c.program)
			c.maps(9, nil)
			want := map[uint32]string{7: eno, 8: one}
			c.named(9, bare, "")
			c.named(first, want[first], "")
			c.named(9, want[first], "") // there is no other
			for range 2 {
				c.named(7, eno, "")
				c.named(8, one, "")
				c.named(9, bare, differ)
			}
			c.ends(7)
			c.ends(8)
			c.named(7, eno, "")
			c.named(8, one, "")
			recorder, recorded := c.symbols.NewRecorder(), NewRecorded()
			for pid, want := range map[uint32]string{7: eno, 8: one, 9: bare} {
				e := bpf.Event{PID: pid, TID: pid, Time: 9}
				if err := recorded.Add(recorder.Append(nil, &e, []bpf.UserFrame{bpf.NewUserFrame(0x5000, 0, true)})); err != nil {
					t.Fatal(err)
				}
				if got := string(recorded.Of(&e).AppendFrame(nil, 0x5000, false)); got != want+" (/bin/victim)" {
					t.Errorf("recorded, process %d: %s", pid, got)
				}
			}
		})
	}
}

// TestNumberUsedAgain: what another process has that got the number of one that has ended is not looked at.
func TestNumberUsedAgain(t *testing.T) {
	c := copies(t, "-shared", "-fPIC")
	c.maps(7, c.forged())
	c.source = append(c.source, []mappings.Event{{Kind: mappings.Ended, PID: 7, TID: 7, Time: 10}})
	c.symbols.Update()
	c.named(7, bare, "")
}

// TestCopiesShared: copies take memory once, also where no process can be opened any more. What one has differently makes it another.
func TestCopiesShared(t *testing.T) {
	c := copies(t, "-shared", "-fPIC")
	f, err := elf.NewFile(bytes.NewReader(c.program))
	if err != nil {
		t.Fatal(err)
	}
	const processes = 20
	for pid := range uint32(processes) {
		c.maps(pid+1, c.program)
		c.named(pid+1, one, "")
	}
	s := c.symbols
	var size int
	for _, p := range s.copies {
		size = p.size()
	}
	if len(s.files) != processes || len(s.copies) != 1 || s.kept != size {
		t.Errorf("%d files have %d contents of %d bytes, one of which has %d", len(s.files), len(s.copies), s.kept, size)
	}
	c.maps(100, nil)
	c.named(100, one, "")

	unwinding := bytes.Clone(c.program)
	unwinding[f.Section(".eh_frame").Offset+f.Section(".eh_frame").Size/2]++
	c.maps(101, unwinding)
	c.named(101, one, "")
	if len(s.copies) != 2 {
		t.Errorf("%d contents with other unwind information, want 2", len(s.copies))
	}
	c.named(100, bare, differ)
}

// TestCodeNotShared: what is read of a file later is not that of a copy, which may be changed meanwhile.
func TestCodeNotShared(t *testing.T) {
	c := copies(t, "-shared", "-fPIC", "-fno-asynchronous-unwind-tables")
	c.maps(7, c.program)
	c.maps(8, c.program)
	c.maps(9, nil)
	images := map[uint32]*image{}
	for _, pid := range []uint32{7, 8, 9} {
		p := c.of(pid)
		m, _ := p.mapping(0x5000)
		var err error
		if images[pid], err = p.image(m); err != nil || images[pid] == nil {
			t.Fatal(err)
		}
	}
	if images[7].parsed != images[8].parsed || images[7].code == nil || images[8].code == nil || images[7].file == images[8].file {
		t.Errorf("%+v and %+v", images[7], images[8])
	}
	if images[9].parsed != images[7].parsed || images[9].code != nil {
		t.Errorf("where it is not known which file was run: %+v", images[9])
	}
}

// TestForkShares: a child has what its parent has looked at, and a parent has not what its child has.
func TestForkShares(t *testing.T) {
	fork := func(c *copying) {
		c.source = append(c.source, []mappings.Event{{Kind: mappings.Forked, PID: 8, TID: 8, Parent: 7, Time: 5}})
		c.symbols.Update()
	}
	// Another process makes it unknown which file others have.
	other := func(c *copying) {
		c.maps(9, c.forged())
		c.named(9, eno, "")
	}
	t.Run("parent", func(t *testing.T) {
		c := copies(t, "-shared", "-fPIC")
		c.maps(7, c.program)
		c.named(7, one, "")
		fork(c)
		other(c)
		c.named(8, one, "")
	})
	t.Run("child", func(t *testing.T) {
		c := copies(t, "-shared", "-fPIC")
		c.maps(7, nil)
		other(c)
		c.of(7).life.looked.add(fileID{path: "/bin/another"}, &contents{})
		fork(c)
		c.maps(10, c.program)
		c.named(10, one, "")
		if err := os.Rename(filepath.Join(c.root, procOf(10)), filepath.Join(c.root, procOf(8))); err != nil {
			t.Fatal(err)
		}
		c.named(8, one, "")
		c.named(7, bare, differ)
	})
}

// TestDropped: files that were dropped are read again, and nothing is left of them where they cannot be.
func TestDropped(t *testing.T) {
	c := copies(t, "-shared", "-fPIC", "-fno-asynchronous-unwind-tables")
	s := c.symbols
	for pid := uint32(7); pid < 9; pid++ {
		c.maps(pid, c.program)
		c.named(pid, one, "")
	}
	p := c.of(7)
	m, _ := p.mapping(0x5000)
	before, _ := p.image(m)
	c.ends(8)
	c.named(8, one, "")
	c.maps(9, nil)
	c.named(9, one, "")
	s.keep(&image{parsed: &parsed{names: mostKept}}, nil)
	if len(s.files) != 0 || len(s.named) != 0 || s.open != 0 {
		t.Errorf("%d files, %d of them open, and %d names are left", len(s.files), s.open, len(s.named))
	}
	c.named(8, bare, "")
	c.named(9, bare, "")
	c.named(7, one, "")
	if after, _ := c.of(7).image(m); after == before || after.code == nil || s.open != 1 {
		t.Errorf("%+v, %d files are open", after, s.open)
	}
	steps := mostFunction
	if row, _, _ := c.of(7).Row(0x5000, &steps); row == nil {
		t.Error("its code cannot be read")
	}
	c.named(8, one, "")
}

// TestFilesBounded: as many files as anybody makes take bounded memory.
func TestFilesBounded(t *testing.T) {
	s := newSymbols(os.DirFS(t.TempDir()))
	for n := range uint64(3 * mostFiles) {
		s.files[Version{ino: n + 1}] = s.keep(&image{parsed: &parsed{buildID: fmt.Sprint(n / mostFiles)}}, nil)
		if len(s.files) > mostFiles || len(s.copies) > mostSpaces {
			t.Fatalf("%d files, %d contents", len(s.files), len(s.copies))
		}
	}
}

// TestUnasked: a file that was not asked for, as others do not answer, is asked for when they have answered.
func TestUnasked(t *testing.T) {
	c := copies(t, "-shared", "-fPIC")
	c.maps(8, c.program)
	synctest.Test(t, func(*testing.T) {
		answer := refuse()
		c.named(8, bare, "too many files whose file systems do not answer")
		close(answer)
		synctest.Wait()
		c.named(8, one, "")
	})
}

// refuse has no file asked for, since others do not answer, until the channel is closed.
func refuse() (answer chan struct{}) {
	answer = make(chan struct{})
	wait := func() (int, error) { <-answer; return 0, nil }
	for _, err := regular.Within(new(int), wait); !regular.Refused(err); _, err = regular.Within(new(int), wait) {
	}
	return answer
}

// TestCallersUnasked: nor is it remembered of a file that it could not be asked for the calls before addresses.
func TestCallersUnasked(t *testing.T) {
	c := copies(t, "-shared", "-fPIC")
	c.maps(8, c.program)
	c.named(8, one, "")
	synctest.Test(t, func(t *testing.T) {
		answer := refuse()
		p := c.of(8)
		p.NoCaller(0x5001)
		m, _ := p.mapping(0x5000)
		img, err := p.image(m)
		if err != nil || img.silent || len(img.noCallers) != 0 {
			t.Errorf("%v, silent: %t, %d known", err, img.silent, len(img.noCallers))
		}
		close(answer)
		synctest.Wait()
		if p.NoCaller(0x5001); len(img.noCallers) != 1 {
			t.Errorf("%d known", len(img.noCallers))
		}
	})
}

// TestLookedBound: what children have copies of counts, and beyond a bound all files are looked at again.
func TestLookedBound(t *testing.T) {
	s := newSymbols(fstest.MapFS{})
	s.lives = newLives(fstest.MapFS{}, &told{})
	parent := &life{}
	s.lives.begin(7, parent)
	of := func(n int) fileID { return fileID{path: strconv.Itoa(n)} }
	const files = 20_000
	for n := range files {
		s.remember(&parent.looked, of(n), &contents{})
	}
	most := 0
	for n := range uint32(2 * mostLooked / files) {
		child := &life{}
		s.lives.begin(n+8, child)
		child.looked = parent.looked.fork()
		s.remember(&child.looked, of(files), &contents{})
		sum := 0
		for _, own := range s.lives.of {
			for _, n := range own {
				sum += len(n.looked.at)
			}
		}
		most = max(most, sum)
	}
	if most > mostLooked || most < mostLooked/2 {
		t.Errorf("%d are remembered", most)
	}
}

// TestWithinText: names and files of the functions at one address take no more than so many bytes.
func TestWithinText(t *testing.T) {
	frames := []debuginfo.Frame{{Func: "f", File: strings.Repeat("x", mostText/2)}, {Func: strings.Repeat("y", mostText/2-1)}, {Func: "g"}}
	if n := withinText(frames); n != 2 {
		t.Errorf("%d frames", n)
	}
}
