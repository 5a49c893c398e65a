// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// dwarfRegisters are the registers of amd64 as gdb calls them, by their numbers in DWARF.
var dwarfRegisters = []string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}

// TestVariablesEqualGDB compares the variables that are in registers with what gdb says of the
// innermost function, which may be inlined.
func TestVariablesEqualGDB(t *testing.T) {
	gdb, err := exec.LookPath("gdb")
	if err != nil {
		t.Skip(err)
	}
	for _, build := range placeBuilds {
		t.Run(build, func(t *testing.T) {
			if strings.Contains(build, "-flto") {
				t.Skip("gdb puts variables of other units elsewhere")
			}
			args := strings.Fields(build)
			if _, err := exec.LookPath(args[0]); err != nil {
				t.Skip(err)
			}
			file := filepath.Join(t.TempDir(), "places")
			if out, err := exec.Command(args[0], append(args[1:], "-o", file, "testdata/places/main.c")...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			info, err := Open(file, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer info.Close()
			compared := compareVariables(t, info, gdb, file, args[0] == "gcc")
			t.Logf("%d variables are where gdb has them", compared)
			if compared < 50 {
				t.Errorf("only %d variables were compared", compared)
			}
		})
	}
}

// compareVariables returns how many variables it has found where gdb has them.
func compareVariables(t *testing.T, info *Info, gdb, file string, gcc bool) (compared int) {
	t.Helper()
	var addrs []uint64
	var script strings.Builder
	for _, s := range info.FunctionsNamed(map[string]bool{"main": true, "first": true, "second": true}) {
		for a := s[0].Addr; a < s[0].Addr+s[0].Size; a += 3 {
			addrs = append(addrs, a)
			fmt.Fprintf(&script, "echo =\ninfo scope *%#x\n", a)
		}
	}
	commands := filepath.Join(t.TempDir(), "commands")
	if err := os.WriteFile(commands, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(gdb, "-nx", "-batch", "-x", commands, file).Output()
	if err != nil {
		t.Skip(err)
	}
	parts := strings.Split(string(out), "=")[1:]
	if len(parts) != len(addrs) {
		t.Fatalf("gdb has said %d times something of %d addresses", len(parts), len(addrs))
	}
	for i, addr := range addrs {
		found := info.Variables(addr)
		for name, register := range gdbVariables(parts[i], addr) {
			here := []string{}
			for _, v := range found {
				if ops := v.Place.Ops; v.Name == name && len(ops) == 1 && ops[0].Code == OpRegister && !v.Place.Memory {
					here = append(here, dwarfRegisters[ops[0].N])
				}
			}
			// Of code of clang, which mixes that of inlined calls, gdb takes an outer one for the innermost.
			if !slices.Contains(here, register) || gcc && here[0] != register {
				t.Errorf("%#x: %s is in %v, gdb has it in %s", addr, name, here, register)
			}
			compared++
		}
	}
	return compared
}

var (
	gdbSymbol = regexp.MustCompile(`(?m)^Symbol (\w+) is `)
	gdbRange  = regexp.MustCompile(`Range (0x[0-9a-f]+)-(0x[0-9a-f]+): a variable in \$(\w+)`)
)

// gdbVariables returns in which registers gdb says that variables are at an address.
func gdbVariables(text string, addr uint64) map[string]string {
	in := map[string]string{}
	at := gdbSymbol.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		for _, r := range gdbRange.FindAllStringSubmatch(text[m[0]:end], -1) {
			first, _ := strconv.ParseUint(r[1], 0, 64)
			behind, _ := strconv.ParseUint(r[2], 0, 64)
			if addr >= first && addr < behind {
				in[text[m[2]:m[3]]] = r[3]
			}
		}
	}
	return in
}
