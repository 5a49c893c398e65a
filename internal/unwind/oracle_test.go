// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/elfhead"
)

// tableOf reads the unwind information of a file.
func tableOf(t testing.TB, file string) *Table {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	head, err := elfhead.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	table, err := Read(f, head)
	if err != nil || table == nil {
		t.Fatalf("%s: %v, %v", file, table, err)
	}
	return table
}

// steps returns those of a whole stack.
func steps() *int {
	left := mostSteps
	return &left
}

// build compiles a program, or skips the test.
func build(t testing.TB, name, source string, command ...string) string {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, name), filepath.Join(dir, "program")
	if err := os.WriteFile(in, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(command[0], append(command[1:], "-o", out, in)...).CombinedOutput(); err != nil {
		t.Skipf("%v: %v %s", command, err, said)
	}
	return out
}

// built and there return files for a test of several, of which those that there are none of are skipped.
func built(name, source string, command ...string) func(testing.TB) string {
	return func(t testing.TB) string { return build(t, name, source, command...) }
}

func there(file string) func(testing.TB) string { return func(testing.TB) string { return file } }

// TestTableIsReadelf compares every row of every entry with what readelf says of it.
func TestTableIsReadelf(t *testing.T) {
	for _, test := range []struct {
		name  string
		file  func(testing.TB) string
		least int // rows
	}{
		{"C library", there("/lib/x86_64-linux-gnu/libc.so.6"), 10000},
		{"C++ library", there("/usr/lib/x86_64-linux-gnu/libstdc++.so.6"), 10000},
		{"static C", built("a.c", "int main(void) { return 0; }", "gcc", "-O2", "-static"), 5000},
		{"Rust", built("a.rs", "fn main() { println!(\"{:?}\", std::env::args().collect::<Vec<_>>()); }", "rustc", "-O"), 2000},
		{"C++ by clang", built("a.cc", "#include <iostream>\nint main() { std::cout << 1 << std::endl; }", "clang++", "-O2", "-static"), 10000},
		{"arm64", built("a.c", "int main(void) { return 0; }", "aarch64-linux-gnu-gcc", "-O2", "-static"), 3000},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := test.file(t)
			table := tableOf(t, file)
			if rows := compareWithReadelf(t, table, file); rows < test.least {
				t.Errorf("%d rows, want %d", rows, test.least)
			} else {
				t.Logf("%d entries, %d rows", len(table.entries), rows)
			}
		})
	}
}

func compareWithReadelf(t *testing.T, table *Table, file string) (rows int) {
	command := exec.Command("readelf", "-W", "--debug-dump=frames-interp", file)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _ = command.Wait() }()
	var columns []string
	fde, faults := false, 0
	var end uint64
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case strings.Contains(lines.Text(), " FDE "):
			fde = true
			_, pc, _ := strings.Cut(lines.Text(), "pc=")
			_, hi, _ := strings.Cut(pc, "..")
			end, _ = strconv.ParseUint(hi, 16, 64)
		case strings.Contains(lines.Text(), " CIE "):
			fde = false
		case len(fields) > 1 && fields[0] == "LOC":
			columns = fields[1:]
		case fde && len(fields) == len(columns)+1:
			loc, err := strconv.ParseUint(fields[0], 16, 64)
			if err != nil || loc == 0 || loc >= end || fields[1] == "ZERO" { // that is the end of .eh_frame
				continue
			}
			rows++
			row := table.Row(loc, steps())
			for i, column := range columns {
				want := fields[i+1]
				if want == "s" {
					want = "u" // what it calls registers without a rule
				}
				if column[0] == 'v' { // vectors: no frame is found by them
					continue
				}
				if got := rendered(table.machine, row, column); got != want && faults < 10 {
					faults++
					t.Errorf("%#x: %s is %s, want %s", loc, column, got, want)
				}
			}
		}
	}
	return rows
}

var amd64Names = []string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "ra"}

// rendered prints a rule as readelf does.
func rendered(m *Machine, row *Row, column string) string {
	name := func(reg uint8) string {
		if m.registers == AMD64().registers {
			return amd64Names[reg]
		}
		return map[bool]string{true: "sp", false: fmt.Sprintf("x%d", reg)}[reg == m.stack]
	}
	if row == nil {
		return "nothing"
	}
	r := row.cfa
	if column == "CFA" {
		if r.kind == valExpression {
			return "exp"
		}
		return fmt.Sprintf("%s%+d", name(r.reg), r.off)
	}
	found := false
	for reg := range m.registers {
		if name(reg) == column || reg == row.address && column == "ra" {
			r, found = row.regs[reg], true
		}
	}
	switch {
	case !found:
		return "u" // a register that rules are not kept of
	case r.kind == offset:
		return fmt.Sprintf("c%+d", r.off)
	case r.kind == valOffset:
		return fmt.Sprintf("v%+d", r.off)
	case r.kind == register:
		return name(r.reg)
	case r.kind == expression:
		return "exp"
	case r.kind == valExpression:
		return "vexp"
	}
	return "u"
}
