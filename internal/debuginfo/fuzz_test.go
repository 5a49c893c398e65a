// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// small compiles a program small enough to be damaged at many places.
func small(tb testing.TB, flags ...string) []byte {
	tb.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		tb.Skip("gcc is not installed")
	}
	dir := tb.TempDir()
	out := filepath.Join(dir, "small")
	args := append([]string{"-O2", "-c", "testdata/program/three.c", "-o", out}, flags...)
	gccArgs := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "zstd" })
	zstd := len(gccArgs) < len(args)
	if text, err := exec.Command(compiler, gccArgs...).CombinedOutput(); err != nil {
		tb.Fatalf("gcc: %v\n%s", err, text)
	}
	if zstd { // which gcc 12 does not know
		if text, err := exec.Command("llvm-objcopy-19", "--compress-debug-sections=zstd", out).CombinedOutput(); err != nil {
			tb.Skipf("llvm-objcopy-19: %v\n%s", err, text)
		}
	}
	data, err := os.ReadFile(out)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// shapes are builds that lead to different parts of the reader.
var shapes = [][]string{
	{"-g", "-gdwarf-5"}, {"-g", "-gdwarf-4"}, {"-g", "-gdwarf-2"}, {"-g", "-gdwarf-5", "-gdwarf64"},
	{"-g", "-fno-asynchronous-unwind-tables"}, {"-g", "-gz=zlib"}, {"-g", "-ffunction-sections"}, {"-g", "zstd"},
}

// use calls everything that reads the file.
func use(data []byte) error {
	info, err := New(data, Options{Relative: true})
	if err != nil {
		return err
	}
	addrs := []uint64{0, 1, 0x10, 0x40, 0x80, 0x100, 0x180, 0xffffffffffffffff}
	var frames []Frame
	for _, a := range addrs {
		frames = info.Lookup(frames[:0], a)
		info.Outermost(a, "gcd")
	}
	info.LookupAll(addrs)
	info.Functions("*.c")
	info.SymbolNamed("three")
	info.Inlined(addrs, true)
	info.InlinedNamed(func([]byte) bool { return true })
	info.Definition(0)
	info.FunctionsNamed(map[string]bool{"three": true})
	info.SymbolAt(0x10)
	return info.Close()
}

// bounded fails if the file took much time or memory for its size.
func bounded(t *testing.T, data []byte) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	_ = use(data) // an error is as good an answer as any
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if took > 5*time.Second {
		t.Errorf("%d bytes took %v", len(data), took)
	}
	// The most that a byte turns into is a row of the line table, once in each
	// of the readers, doubled as slices grow; the rest is what the reader keeps
	// for any file. Compressed sections may be 1,032 times as large.
	if limit := uint64(1<<26 + 1032*4*len(data)); after.TotalAlloc-before.TotalAlloc > limit {
		t.Errorf("%d bytes took %d of memory", len(data), after.TotalAlloc-before.TotalAlloc)
	}
}

func FuzzDebugInfo(f *testing.F) {
	for _, flags := range shapes {
		f.Add(small(f, flags...))
	}
	f.Fuzz(func(t *testing.T, data []byte) { bounded(t, data) })
}

// TestDamaged does systematically what the fuzzer does at random: it cuts the
// file and sets the bytes of each section of debug info to what is likely to
// lead astray.
func TestDamaged(t *testing.T) {
	for _, flags := range shapes {
		data := small(t, flags...)
		if err := use(data); err != nil {
			t.Fatalf("%v: %v", flags, err)
		}
		for n := 0; n < len(data); n += 1 + len(data)/200 {
			bounded(t, data[:n])
		}
		f, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		names := slices.Concat(slices.Collect(maps.Keys(new(sections).slots())), slices.Collect(maps.Keys(new(sections).late())))
		for _, name := range names {
			s := f.Section(name)
			if s == nil {
				continue
			}
			for at := s.Offset; at < s.Offset+s.FileSize; at += 1 + s.FileSize/100 {
				for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
					damaged := bytes.Clone(data)
					damaged[at] = b
					bounded(t, damaged)
				}
			}
		}
	}
}

// TestBomb has each of many entries name one long list of ranges, so that
// reading all of them for all would take hours.
func TestBomb(t *testing.T) {
	const entries, list = 200_000, 500_000
	abbrev := []byte{
		1, 0x11, 1, attrStmtList, formSecOffset, 0, 0, // the unit
		2, tagSubprogram, 0, attrRanges, formSecOffset, 0, 0,
		0,
	}
	body := append([]byte{1}, 0, 0, 0, 0)
	for range entries {
		body = append(body, 2, 0, 0, 0, 0)
	}
	body = append(body, 0)
	u := unit{sections: &sections{abbrev: abbrev, ranges: make([]byte, 0, 16*list)}}
	for range list {
		u.sections.ranges = binary.LittleEndian.AppendUint64(u.sections.ranges, 0x1000)
		u.sections.ranges = binary.LittleEndian.AppendUint64(u.sections.ranges, 0x2000)
	}
	info := binary.LittleEndian.AppendUint32(nil, uint32(len(body)+7))
	info = append(info, 4, 0, 0, 0, 0, 0, 8)
	u.sections.info = append(info, body...)
	start := time.Now()
	if !u.open(u.sections, 0) {
		t.Fatal("the unit cannot be read")
	}
	if _, ok := u.function(0x1800); !ok {
		t.Error("no function found")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestClaimedSize has a compressed section claim to be larger than the file. The
// fuzzer found that memory was set aside for it.
func TestClaimedSize(t *testing.T) {
	const (
		tableAt    = 0x28 // e_shoff
		headerSize = 64   // of a section
		sizeAt     = 32   // sh_size
	)
	data := small(t, "-g", "-gz=zlib")
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	table := binary.LittleEndian.Uint64(data[tableAt:])
	changed := 0
	for i, s := range f.Sections {
		if s.Flags&elf.SHF_COMPRESSED != 0 {
			binary.LittleEndian.PutUint64(data[table+uint64(i)*headerSize+sizeAt:], 1<<30)
			changed++
		}
	}
	if changed == 0 {
		t.Skip("the compiler compresses no debug info")
	}
	bounded(t, data)
	if err := use(data); err == nil {
		t.Error("no error")
	}
}
