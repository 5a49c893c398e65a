// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// builds are the ways in which the program of testdata/program at the top is made. Each is
// a shell command that leaves a.out.
var builds = []struct{ name, tools, script string }{
	{"gcc DWARF 4", "gcc", "gcc -O2 -g -gdwarf-4 *.c"},
	{"gcc DWARF 5", "gcc", "gcc -O2 -g -gdwarf-5 *.c"},
	{"gcc DWARF 2", "gcc", "gcc -O2 -g -gdwarf-2 -gno-strict-dwarf *.c"},
	{"gcc DWARF 5, 64-bit format", "gcc", "gcc -O2 -g -gdwarf-5 -gdwarf64 *.c"},
	{"gcc without optimisation", "gcc", "gcc -O0 -g *.c"},
	{"gcc LTO", "gcc", "gcc -O2 -g -flto *.c"},
	{"gcc, functions in sections of their own, some thrown away", "gcc", "gcc -O2 -g -ffunction-sections -Wl,--gc-sections *.c"},
	{"gcc, compressed with zlib", "gcc", "gcc -O2 -g -gz=zlib *.c"},
	{"gcc, compressed with zstd", "gcc llvm-objcopy-19", "gcc -O2 -g *.c -o b && llvm-objcopy-19 --compress-debug-sections=zstd b a.out"},
	{"gcc, dwz", "gcc dwz", "gcc -O2 -g -gdwarf-5 *.c && dwz --odr a.out"},
	{"gcc DWARF 4, dwz", "gcc dwz", "gcc -O2 -g -gdwarf-4 *.c && dwz a.out"},
	{"gcc, assembler source", "gcc", "gcc -O2 -g -S one.c && gcc -g four.S two.c three.c one.s"},
	{"clang DWARF 4", "clang", "clang -O2 -g -gdwarf-4 *.c"},
	{"clang DWARF 5", "clang", "clang -O2 -g -gdwarf-5 *.c"},
	{"clang DWARF 5 with .debug_aranges", "clang", "clang -O2 -g -gdwarf-5 -gdwarf-aranges *.c"},
	{"clang, functions in sections of their own, some thrown away", "clang", "clang -O2 -g -gdwarf-5 -ffunction-sections -Wl,--gc-sections *.c"},
	{"clang LTO", "clang ld.lld", "clang -O2 -g -flto -fuse-ld=lld *.c"},
	{"clang DWARF 4 LTO", "clang ld.lld", "clang -O2 -g -gdwarf-4 -flto -fuse-ld=lld *.c"},
}

func TestProgramEqualsOracle(t *testing.T) {
	for _, b := range builds {
		t.Run(b.name, func(t *testing.T) {
			file := buildProgram(t, b.tools, b.script)
			compareWithOracle(t, file, randomText(t, file, 5000))
		})
	}
}

// buildProgram runs one of the builds in a folder of its own.
func buildProgram(t *testing.T, tools, script string) (file string) {
	t.Helper()
	for tool := range strings.FieldsSeq(tools) {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../testdata/program")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return filepath.Join(dir, "a.out")
}
