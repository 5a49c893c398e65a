// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// cppSource has the kinds of names that a compiler of C++ makes up. Of functions
// without linkage that were inlined, as lambdas are, addr2line names the caller.
const cppSource = `
#include <cstdlib>
namespace outer {
inline int hidden(int n) { return n * rand(); }
template <typename T> __attribute__((noinline)) T twice(T n) { return n + hidden(n); }
class counter {
	int n;
public:
	explicit counter(int n);
	__attribute__((noinline)) int operator()(const char *text, counter &other) const { return n + twice(text[0]) + other.n; }
	static int number(double);
	inline int inlined(int k) { return twice(k) * n; }
};
__attribute__((noinline)) counter::counter(int k) : n(twice(k)) {}
__attribute__((noinline)) int counter::number(double d) { return hidden(d) * 7; }
} // namespace outer
extern "C" __attribute__((noinline)) int plain(int n) { return n * 3 + rand(); }
int main(int argc, char **argv)
{
	outer::counter a(argc), b(argc + 1);
	return a(argv[0], b) + b.inlined(argc) + outer::counter::number(argc) + plain(argc);
}
`

const rustSource = `
mod outer {
    pub struct Counter { pub n: u64 }
    impl Counter {
        #[inline(never)]
        pub fn add(&mut self, k: u64) -> u64 { self.n = twice(k).wrapping_mul(self.n); self.n }
    }
    #[inline(always)]
    fn twice(n: u64) -> u64 { std::hint::black_box(n) + std::hint::black_box(n) }
    #[inline(never)]
    pub fn generic<T: std::fmt::Debug>(t: T) -> usize { std::hint::black_box(format!("{t:?}")).len() }
}
fn main() {
    let mut c = outer::Counter { n: std::env::args().count() as u64 };
    std::process::exit((c.add(3) + outer::generic(7u8) as u64) as i32);
}
`

// TestSymNames compares the names of C++ and Rust with addr2line's, with and
// without -C.
func TestSymNames(t *testing.T) {
	for _, test := range []struct{ name, source, command string }{
		{"g++", cppSource, "g++ -O2 -g -x c++"},
		{"g++ DWARF 4", cppSource, "g++ -O2 -g -gdwarf-4 -x c++"},
		{"g++ without debug info", cppSource, "g++ -O2 -x c++"},
		{"clang++", cppSource, "clang++ -O2 -g -x c++"},
		{"rustc", rustSource, "rustc -O -g --edition 2021"},
		{"rustc, names of version 0", rustSource, "rustc -O -g --edition 2021 -C symbol-mangling-version=v0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			source, file := filepath.Join(dir, "source.rs"), filepath.Join(dir, "program")
			if err := os.WriteFile(source, []byte(test.source), 0o600); err != nil {
				t.Fatal(err)
			}
			command := append(strings.Fields(test.command), source, "-o", file)
			if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
				t.Skipf("%v: %v\n%s", command, err, out)
			}
			addrs := namedAddresses(t, file, strings.Contains(test.command, "-g"))
			for _, options := range []string{"-fi", "-Cfi", "-apCfi"} {
				args := append([]string{options, "-e", file}, addrs...)
				out, err := exec.Command("addr2line", args...).Output()
				if err != nil {
					t.Skip(err)
				}
				var want strings.Builder
				for line := range strings.Lines(string(out)) {
					line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), " (discriminator")
					line = strings.Replace(line, "source.rs:?", "??:?", 1) // which the symbols tell, and sym does not
					want.WriteString(line + "\n")
				}
				if got := sym(t, "", args...); got != want.String() {
					t.Errorf("%s: %s", options, firstDifference(got, want.String()))
				}
			}
		})
	}
}

// namedAddresses returns addresses all over the functions whose names have
// "outer" in them, or "plain". Without debug info nothing says which of several
// names a function has, so those of constructors are left out.
func namedAddresses(t *testing.T, file string, constructors bool) (addrs []string) {
	t.Helper()
	for _, s := range elfSymbols(t, file) {
		if !constructors && strings.Contains(s.Name, "counterC") {
			continue
		}
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF && (strings.Contains(s.Name, "5outer") || s.Name == "plain") {
			for n := range s.Size {
				addrs = append(addrs, fmt.Sprintf("%#x", s.Value+n))
			}
		}
	}
	if len(addrs) < 50 {
		t.Fatalf("%d addresses", len(addrs))
	}
	return addrs
}

// TestSymFilter compares names, hostile ones among them, with c++filt. What is
// no mangled name stays as it is.
func TestSymFilter(t *testing.T) {
	for _, name := range []string{
		"_ZN5outer7counterC2Ei", "_ZN5outer12_GLOBAL__N_16hiddenEi", "_ZSt4cout", "_ZN1a3fooEv.cold", "_ZN1a3fooEv.part.0", "_ZZ4mainENKUlvE_clEv",
		"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "_RNvNtCs1234_7mycrate3foo3bar", "main", "vfs_read", "_Z", "_ZN", "_R", "__x64_sys_read", "_ZN5",
	} {
		out, err := exec.Command("c++filt", "--no-verbose", name).Output()
		if err != nil {
			t.Skip(err)
		}
		if got, want := demangled(name), strings.TrimSpace(string(out)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestSymBomb has a name of a few bytes that stands for one of many gigabytes.
func TestSymBomb(t *testing.T) {
	var name strings.Builder
	name.WriteString("_Z1f")
	name.WriteString("1aS_") // an argument, and again
	for n := range 30 {
		// a pair of what came before
		fmt.Fprintf(&name, "St4pairIS%[1]s_S%[1]s_E", substitution(n))
	}
	if got := demangled(name.String()); len(got) > 1<<20 {
		t.Errorf("%d bytes", len(got))
	}
}

// substitution writes the number of what was named before, in base 36: S_ is the
// first, S0_ the second.
func substitution(n int) string {
	if n == 0 {
		return ""
	}
	return strings.ToUpper(fmt.Sprint(n - 1))
}
