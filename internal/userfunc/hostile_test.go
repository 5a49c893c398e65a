// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestHostile: whatever is wrong in a file, looking for its functions, their types and its marks ends: the time limit of go test says how soon.
func TestHostile(t *testing.T) {
	good, err := os.ReadFile(program("amd64"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "program")
	random := rand.New(rand.NewPCG(1, 2))
	opened, typed := 0, 0
	for range 1000 {
		bad := bytes.Clone(good)
		for range 1 + random.IntN(8) {
			bad[64+random.IntN(len(bad)-64)] = byte(random.Uint32())
		}
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(file, "amd64")
		if err != nil {
			continue
		}
		opened++
		fns := f.Named("*")
		for i := range fns {
			_, _ = f.Place(&fns[i], 1)
		}
		if types, err := f.Types(fns); err == nil && len(types.Raw) > 0 {
			typed++
		}
		_, _ = f.Marks()
	}
	if opened < 500 || typed < 300 {
		t.Errorf("of 1000 damaged files %d were opened, and %d had types", opened, typed)
	}
}

// TestRings: types that lead to themselves. The standard library overflows the stack along typedefs.
func TestRings(t *testing.T) {
	dir := t.TempDir()
	source, built := filepath.Join(dir, "ring.c"), filepath.Join(dir, "ring")
	if err := os.WriteFile(source, []byte("typedef int T;\nlong f(T a) { return a; }\nlong g(int **p) { return **p; }\nlong h(long a) { return a; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	output(t, "gcc", "-g", "-gdwarf-4", "-fno-eliminate-unused-debug-types", "-shared", "-nostdlib", "-o", built, source)
	good, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	e, err := elf.NewFile(bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	data, err := e.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[dwarf.Tag]int{dwarf.TagTypedef: 2, dwarf.TagPointerType: 3} { // f has no types then
		bad := bytes.Clone(good)
		var last *dwarf.Entry
		for r := data.Reader(); ; {
			next, err := r.Next()
			if err != nil || next == nil {
				break
			}
			if last != nil && last.Tag == tag { // its last attribute is the type, relative to the unit, which is the first
				at := e.Section(".debug_info").Offset + uint64(next.Offset) - 4
				if old := binary.LittleEndian.Uint32(bad[at:]); dwarf.Offset(old) != last.Val(dwarf.AttrType) {
					t.Fatalf("%v: type %#x", last, old)
				}
				binary.LittleEndian.PutUint32(bad[at:], uint32(last.Offset))
			}
			last = next
		}
		file := filepath.Join(dir, "bad")
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(file, "amd64")
		if err != nil {
			t.Skip(err) // another architecture
		}
		types, err := f.Types(f.Named("*"))
		if err != nil || len(types.Functions) != want {
			t.Errorf("%v: %+v, %v", tag, types, err)
		}
		if _, err := f.Types(f.Named("f")); (err != nil) != (tag == dwarf.TagTypedef) || err != nil && !strings.Contains(err.Error(), "a ring of them") {
			t.Errorf("%v: f: %v", tag, err)
		}
	}
}

// TestNested: entries within each other without end, which the standard library passes over by recursion, and such whose
// end is said to be before them.
func TestNested(t *testing.T) {
	const block, sibling, leaf = 2, 3, 4 // abbreviations
	abbreviations := []byte{1, byte(dwarf.TagCompileUnit), 1, 0, 0, block, byte(dwarf.TagLexDwarfBlock), 1, 0, 0,
		sibling, byte(dwarf.TagLexDwarfBlock), 1, byte(dwarf.AttrSibling), 0x13, 0, 0, leaf, byte(dwarf.TagSubprogram), 0, 0, 0, 0}
	nested := func(n int) []byte {
		return append(append(bytes.Repeat([]byte{block}, n), make([]byte, n)...), leaf, 0)
	}
	for name, tt := range map[string]struct {
		entries []byte
		want    int // entries below the unit's
		err     error
	}{
		"as many as are read":     {nested(mostNested), 2, nil},
		"one more":                {nested(mostNested + 1), 1, errNested},
		"16 million":              {bytes.Repeat([]byte{block}, 1<<24), 1, errNested},
		"passed over":             {append(append([]byte{sibling, 12 + 5 + 3, 0, 0, 0}, block, block, block), leaf, 0), 2, nil},
		"an end at the beginning": {[]byte{sibling, 12, 0, 0, 0, leaf, 0, leaf, 0}, 2, nil},
		"an end before it":        {[]byte{leaf, sibling, 12, 0, 0, 0, leaf, 0, leaf, 0}, 3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			info := binary.LittleEndian.AppendUint32(nil, uint32(8+len(tt.entries)))
			info = append(append(info, 4, 0, 0, 0, 0, 0, 8, 1), tt.entries...)
			d, err := dwarf.New(abbreviations, nil, nil, info, nil, nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			c, got := typeCollector{data: d}, 0
			for _, err = range c.children(11) {
				if err == nil {
					got++
				}
			}
			if got != tt.want || err != tt.err {
				t.Errorf("%d entries, %v, want %d, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

// TestUndecoded: debug info that cannot be decoded is not taken for debug info that is not there.
func TestUndecoded(t *testing.T) {
	dir := t.TempDir()
	source, built := filepath.Join(dir, "f.c"), filepath.Join(dir, "f")
	if err := os.WriteFile(source, []byte("int f(int a) { return a; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	output(t, "gcc", "-g", "-gdwarf-4", "-shared", "-nostdlib", "-o", built, source)
	good, err := os.ReadFile(built)
	if err != nil {
		t.Fatal(err)
	}
	e, err := elf.NewFile(bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	data, err := e.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	for name, tag := range map[string]dwarf.Tag{"the unit": dwarf.TagCompileUnit, "a function": dwarf.TagSubprogram, "a parameter": dwarf.TagFormalParameter} {
		t.Run(name, func(t *testing.T) {
			r := data.Reader()
			at := dwarf.Offset(0)
			for at == 0 {
				next, err := r.Next()
				if err != nil || next == nil {
					t.Fatalf("no %v: %v", tag, err)
				}
				if next.Tag == tag {
					at = next.Offset
				}
			}
			bad := bytes.Clone(good)
			bad[e.Section(".debug_info").Offset+uint64(at)] = 0x7f // no such abbreviation
			file := filepath.Join(t.TempDir(), "bad")
			if err := os.WriteFile(file, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := Open(file, runtime.GOARCH)
			if err != nil {
				t.Fatal(err)
			}
			for _, names := range []string{"f", "*"} {
				if types, err := f.Types(f.Named(names)); err == nil || errors.Is(err, ErrNoTypes) || !strings.Contains(err.Error(), "its debug info: decoding dwarf section info at offset") {
					t.Errorf("%s: %+v, %v", names, types, err)
				}
			}
		})
	}
}
