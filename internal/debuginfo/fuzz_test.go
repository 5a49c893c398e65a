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
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/internal/livetest"
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
	args := append([]string{"-O2", "-c", "../../testdata/program/three.c", "-o", out}, flags...)
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
	{"-g", "-fno-asynchronous-unwind-tables"}, {"-g", "-gz=zlib"}, {"-g", "-gz=zlib-gnu"}, {"-g", "-ffunction-sections"}, {"-g", "zstd"},
}

// use calls everything that reads the file.
func use(data []byte) error {
	info, err := newInfo(data, Options{Relative: true, Stripped: true, Apart: true}, nil)
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
	info.Sources("*.c")
	info.SymbolNamed("three")
	info.Inlined(addrs, true)
	info.InlinedNamed(func([]byte) bool { return true })
	info.Definition(0)
	info.FunctionsNamed(map[string]bool{"three": true})
	info.SymbolAt(0x10)
	for _, name := range info.CodeAt(0x10) {
		if addr, ok := info.InSection(name, 0x10); ok {
			info.SectionOf(addr)
			info.Lookup(nil, addr)
			info.Outermost(addr, "")
		}
	}
	return info.Close()
}

// bounded fails if the file took much time or memory for its size.
func bounded(t *testing.T, data []byte) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := livetest.CPUTime(t)
	_ = use(data) // an error is as good an answer as any
	took := livetest.CPUTime(t) - start
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
	start := livetest.CPUTime(t)
	if !u.open(u.sections, 0) {
		t.Fatal("the unit cannot be read")
	}
	if _, ok := u.function(0x1800); !ok {
		t.Error("no function found")
	}
	if took := livetest.CPUTime(t) - start; took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestSparse has a file of 16 GB that takes 4 KB of a disk: all sections of debug
// info, and the symbols, are the zeros behind its headers.
func TestSparse(t *testing.T) {
	const size = 16 << 30
	names := "\x00.shstrtab\x00.symtab\x00"
	headers := []elf.Section64{{}, {Name: 1, Type: uint32(elf.SHT_STRTAB), Off: 2048}}
	for _, name := range slices.Sorted(maps.Keys(new(sections).slots())) {
		headers = append(headers, elf.Section64{Name: uint32(len(names)), Type: uint32(elf.SHT_PROGBITS), Off: 4096, Size: size - 4096})
		names += name + "\x00"
	}
	for _, symbols := range []uint64{mostSymbols, mostSymbols + 1} {
		headers := append(slices.Clone(headers), elf.Section64{Name: 11, Type: uint32(elf.SHT_SYMTAB), Off: 4096, Size: symbols * symbolSize, Link: 1})
		headers[1].Size = uint64(len(names))
		var head bytes.Buffer
		for _, part := range []any{elf.Header64{
			Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1},
			Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shoff: 64, Shentsize: 64, Shnum: uint16(len(headers)), Shstrndx: 1,
		}, headers} {
			if err := binary.Write(&head, binary.LittleEndian, part); err != nil {
				t.Fatal(err)
			}
		}
		head.Write(make([]byte, 2048-head.Len()))
		head.WriteString(names)
		file := filepath.Join(t.TempDir(), "sparse")
		if err := os.WriteFile(file, head.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(file, size); err != nil {
			t.Skip(err) // not every file system has files with holes
		}
		data := mapPath(t, file)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := use(data)
		runtime.ReadMemStats(&after)
		if symbols <= mostSymbols && err != nil || symbols > mostSymbols && (err == nil || !strings.Contains(err.Error(), "16777217 symbols, the most are 16777216")) {
			t.Errorf("%d symbols: %v", symbols, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<27 {
			t.Errorf("%d symbols took %d bytes of memory", symbols, used)
		}
		if err := unix.Munmap(data); err != nil {
			t.Error(err)
		}
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
