// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/elf"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// withTypes is a program with types and inlined functions.
const withTypes = `cat > t.cc <<'END'
struct A { int x; int get() const { return x; } };
struct B { A a[3]; long s; };
static inline __attribute__((always_inline)) int sum(const B &b)
{
	int s = 0;
	for (auto &a : b.a)
		s += a.get();
	return s;
}
int f(const B &b, B *v)
{
	v->s += 2;
	return sum(b) + (int)v->s;
}
END
`

// TestTypeUnits: object files have a section .debug_info for each type besides that of the code. The answers
// are those of llvm-symbolizer for the same code without such sections.
func TestTypeUnits(t *testing.T) {
	for _, test := range []struct{ compiler, version, more string }{
		{"g++", "-gdwarf-5", ""}, {"clang++", "-gdwarf-5", ""}, {"g++", "-gdwarf-4", ""}, {"clang++", "-gdwarf-4", ""},
		{"g++", "-gdwarf-5", "-gsplit-dwarf"}, {"clang++", "-gdwarf-5", "-gsplit-dwarf"}, {"g++", "-gdwarf-5", "-gz"},
	} {
		t.Run(test.compiler+test.version+test.more, func(t *testing.T) {
			compile := test.compiler + " " + test.version + " -O2 -c t.cc -o "
			file := buildProgram(t, test.compiler, withTypes+compile+"plain && "+compile+"a.out -fdebug-types-section "+test.more)
			f, err := elf.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var addrs []uint64
			for at := range f.Section(".text").Size {
				addrs = append(addrs, at)
			}
			want := oracle(t, filepath.Join(filepath.Dir(file), "plain"), addrs)
			if !slices.ContainsFunc(want, func(frames []Frame) bool { return len(frames) > 1 }) {
				t.Fatal("nothing is inlined")
			}
			compareWith(t, want, file, addrs)
		})
	}
}

// TestTwice: it is not known which of two sections has the debug info.
func TestTwice(t *testing.T) {
	file := buildProgram(t, "gcc objcopy", "gcc -O2 -g -c three.c -o a.out && objcopy -O binary -j .debug_info a.out info && objcopy --add-section .debug_other=info a.out && objcopy --rename-section .debug_other=.debug_info a.out")
	if _, err := Open(file, Options{}); err == nil || !strings.Contains(err.Error(), "several sections .debug_info") {
		t.Errorf("%v", err)
	}
}
