// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// definedIn returns the files that llvm-symbolizer says define the functions at
// addresses, from their declarations and not from line tables.
func definedIn(t *testing.T, file string, addrs []uint64) []string {
	t.Helper()
	var in bytes.Buffer
	for _, a := range addrs {
		fmt.Fprintf(&in, "0x%x\n", a)
	}
	cmd := exec.Command(symbolizer(t), "--obj="+file, "--inlines", "--functions=short", "--verbose")
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	last := ""
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		line := lines.Text()
		if line == "" { // the outermost function came last
			files = append(files, last)
			last = ""
		}
		if name, ok := strings.CutPrefix(line, "  Function start filename: "); ok {
			last = name
		}
	}
	if len(files) != len(addrs) {
		t.Fatalf("%s answered %d of %d addresses", cmd, len(files), len(addrs))
	}
	return files
}

// TestFunctionsEqualOracle asks for the functions of some files and checks by
// their declarations that these and no others were defined there.
func TestFunctionsEqualOracle(t *testing.T) {
	file := debugVmlinux(t, "6.12")
	info, err := Open(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer info.Close()
	var all []Symbol
	step, n := 10, 0
	if sample(10) == 10 {
		step = 1
	}
	for s := range info.symbols.each {
		name := info.symbols.name(s)
		if s.size == 0 || !Callable(name) {
			continue
		}
		if n++; n%step == 0 {
			all = append(all, Symbol{name, s.addr, s.size})
		}
	}
	addrs := make([]uint64, len(all))
	for i, s := range all {
		addrs[i] = s.Addr
	}
	declared := definedIn(t, file, addrs)
	for _, pattern := range []string{"kernel/bpf/*.c", "net/ipv4/tcp*.c", "kernel/sched/rt.c", "include/*", "fs/*"} {
		code := info.Sources(pattern)
		wanted, wrong, unknown := 0, 0, 0
		for i, s := range all {
			if declared[i] == "" {
				unknown++ // assembler code, and data
				continue
			}
			// Some files are compiled as kernel/bpf/../../tools/lib/bpf/relo_core.c.
			name := path.Clean(strings.TrimPrefix(declared[i], "debian/build/build_amd64_none_cloud-amd64/"))
			want := glob.Match(pattern, name)
			if want {
				wanted++
			}
			if got := code.Contains(s.Addr); got != want {
				if wrong++; wrong <= 10 {
					t.Errorf("%s: %s of %s: %v", pattern, s.Name, declared[i], got)
				}
			}
		}
		if wanted == 0 {
			t.Errorf("%s: nothing to compare", pattern)
		}
		t.Logf("%s: %d of %d functions, %d wrong, %d without a declaration", pattern, wanted, len(all), wrong, unknown)
	}
}

// TestFunctionsOfIncluded looks for a file that is included, not compiled: the
// kernel's sources have "#include "rt.c"" in kernel/sched/build_policy.c.
func TestFunctionsOfIncluded(t *testing.T) {
	info, err := Open(debugVmlinux(t, "6.12"), Options{slide: 0x1000})
	if err != nil {
		t.Fatal(err)
	}
	defer info.Close()
	// It has been called so since 2007.
	own, ok := info.SymbolNamed("enqueue_task_rt")
	if !ok || !info.Sources("kernel/sched/rt.c").Contains(own.Addr) {
		t.Errorf("enqueue_task_rt, %+v, is not of kernel/sched/rt.c", own)
	}
	if info.Sources("no/such/*.c").Contains(own.Addr) {
		t.Error("enqueue_task_rt is of no file")
	}
}
