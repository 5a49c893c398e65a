// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// splitBuilds leave the halves of units in .dwo files, or packed. The last word
// of each name says where.
var splitBuilds = []struct{ name, tools, script string }{
	{"gcc DWARF 5, dwo", "gcc", "gcc -O2 -g -gsplit-dwarf -gdwarf-5 *.c"},
	{"gcc DWARF 4, dwo", "gcc", "gcc -O2 -g -gsplit-dwarf -gdwarf-4 *.c"},
	{"gcc types apart, dwo", "gcc", "gcc -O2 -g -gsplit-dwarf -gdwarf-5 -fdebug-types-section *.c"},
	{"gcc functions in sections of their own, dwo", "gcc", "gcc -O2 -g -gsplit-dwarf -gdwarf-5 -ffunction-sections -Wl,--gc-sections *.c"},
	{"clang DWARF 5, dwo", "clang", "clang -O2 -g -gsplit-dwarf -gdwarf-5 *.c"},
	{"clang DWARF 4, dwo", "clang", "clang -O2 -g -gsplit-dwarf -gdwarf-4 *.c"},
	{"clang in the object files, dwo", "clang", "clang -O2 -g -gsplit-dwarf=single -gdwarf-5 -c *.c && clang *.o"},
	{"clang inlined names in the file, dwo", "clang", "clang -O2 -g -gsplit-dwarf -gdwarf-5 -fsplit-dwarf-inlining *.c"},
	{"moved beside, dwo", "gcc", "gcc -O2 -g -gsplit-dwarf -gdwarf-5 *.c && mkdir moved && mv *.dwo moved && mv a.out moved && ln -s moved/a.out . && ln moved/*.dwo ."},
	{"clang DWARF 5, dwp", "clang llvm-dwp-19", "clang -O2 -g -gsplit-dwarf -gdwarf-5 *.c && llvm-dwp-19 -e a.out -o a.out.dwp && rm *.dwo"},
	{"clang DWARF 4, dwp", "clang llvm-dwp-19", "clang -O2 -g -gsplit-dwarf -gdwarf-4 *.c && llvm-dwp-19 -e a.out -o a.out.dwp && rm *.dwo"},
	{"gcc DWARF 5, dwp", "gcc llvm-dwp-19", "gcc -O2 -g -gsplit-dwarf -gdwarf-5 *.c && llvm-dwp-19 -e a.out -o a.out.dwp && rm *.dwo"},
}

func TestSplit(t *testing.T) {
	for _, b := range splitBuilds {
		t.Run(b.name, func(t *testing.T) {
			file := buildProgram(t, b.tools, b.script)
			info, err := Open(file, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer info.Close()
			addrs := randomText(t, file, 5000)
			compareWithOracle(t, file, addrs)
			inlined := 0
			for _, frames := range info.LookupAll(addrs) {
				if len(frames) > 1 {
					inlined++
				}
			}
			if err := info.Missing(); err != nil || inlined < 500 {
				t.Errorf("missing %v, %d of %d in inlined functions", err, inlined, len(addrs))
			}
			places := info.InlinedNamed(func(name []byte) bool { return string(name) == "gcd" })
			begins := make([]uint64, len(places))
			for i := range places {
				begins[i] = places[i].Addr
			}
			for i, frames := range oracle(t, file, begins) {
				if outer := frames[len(frames)-1].Func; outer != places[i].Into {
					t.Errorf("%+v is in %s", places[i], outer)
				}
			}
			if len(places) == 0 {
				t.Error("gcd was nowhere inlined")
			}
		})
	}
}

// TestSplitMissing has no .dwo files, or those of another build. Lines are those
// that there were before.
func TestSplitMissing(t *testing.T) {
	for _, test := range []struct{ script, want string }{
		{"rm *.dwo", "no such file or directory (and 2 more)"},
		{"rm *.dwo && echo this is no file of debug info > a.out.dwp", "a.out.dwp: it does not begin like an ELF file"},
		{"rm *.dwo && cp a.out a.out.dwp", "a.out.dwp: section .debug_cu_index: missing"},
		{"for f in *.dwo; do mkfifo $f.new; mv $f.new $f; done", "no regular file"},
		{"sed -i 's/n < 0/n < 1/' *.c && gcc -c -O2 -g -gsplit-dwarf -gdwarf-5 -o other-one.o one.c && cp other-one.dwo $(ls *one.dwo | grep -v other)", "another build"},
	} {
		file := buildProgram(t, "gcc", "gcc -O2 -g -gsplit-dwarf -gdwarf-5 *.c")
		addrs := randomText(t, file, 500)
		want := oracle(t, file, addrs)
		cmd := exec.Command("sh", "-ec", test.script)
		cmd.Dir = filepath.Dir(file)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", test.script, err, out)
		}
		info, err := Open(file, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, frames := range info.LookupAll(addrs) {
			if want[i][0].Line != 0 && (len(frames) == 0 || frames[0].Line != want[i][0].Line || frames[0].File != want[i][0].File) {
				t.Errorf("%#x: %+v, want %+v", addrs[i], frames, want[i][0])
			}
		}
		if err := info.Missing(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.script, err, test.want)
		}
		if err := info.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSplitLongName has a program whose .dwp file would have too long a name.
func TestSplitLongName(t *testing.T) {
	file := buildProgram(t, "gcc", "gcc -O2 -g -gsplit-dwarf -gdwarf-5 *.c && rm *.dwo")
	addrs := randomText(t, file, 500)
	const longest = 255
	long := filepath.Join(filepath.Dir(file), strings.Repeat("a", longest-len(".dw")))
	if err := os.Rename(file, long); err != nil {
		t.Fatal(err)
	}
	info, err := Open(long, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer info.Close()
	info.LookupAll(addrs)
	if err := info.Missing(); err == nil || !strings.Contains(err.Error(), ".dwo: no such file") {
		t.Error(err)
	}
}

// FuzzHalf damages the .dwo file and the .dwp file of a program.
func FuzzHalf(f *testing.F) {
	for _, script := range []string{"clang -O2 -g -gsplit-dwarf -gdwarf-5 three.c -shared -o a.out && cp *three.dwo half", "clang -O2 -g -gsplit-dwarf -gdwarf-4 three.c -shared -o a.out && cp *three.dwo half"} {
		dir := f.TempDir()
		source, err := filepath.Abs("../../testdata/program")
		if err != nil {
			f.Fatal(err)
		}
		cmd := exec.Command("sh", "-ec", "cp "+source+"/* . && "+script)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			f.Skipf("%v\n%s", err, out)
		}
		half, err := os.ReadFile(filepath.Join(dir, "half"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(half)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "half")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		h := newHalves(file, NewMemory(mostMemory))
		h.loader.mu.Lock()
		defer h.loader.close()
		defer h.loader.mu.Unlock()
		s := &sections{}
		elf, err := h.loader.openLocked(file)
		if err != nil || elf.fill(s.halfSlots()) != nil {
			return
		}
		main := &sections{addr: make([]byte, 64)}
		for id := range uint64(2) {
			if off, ok := s.halfAt(id); ok {
				u := unit{main: main}
				if u.header(s, off) && u.abbrevs.parse(s.abbrev, u.abbrevAt, u.formSizes, 0) && u.readRoot() {
					u.function(0)
				}
			}
		}
		p := &packedHalves{rows: map[uint64]int{}, all: *s}
		if p.read(data) {
			for id := range p.rows {
				p.sections(id)
			}
		}
	})
}
