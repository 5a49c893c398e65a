// SPDX-License-Identifier: Apache-2.0

package userfunc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/btfprint"
)

// TestShared: dwz has moved parts of the debug info into a file that several programs share. What is told of a function
// is what the program told before, or that nothing is known.
func TestShared(t *testing.T) {
	for _, flags := range [][]string{{"-gdwarf-4", "-m"}, {"-gdwarf-5", "-m"}, {"-gdwarf-5", "-5", "-m"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			dir := t.TempDir()
			whole, file := filepath.Join(dir, "whole"), filepath.Join(dir, "file")
			output(t, "gcc", flags[0], "-O0", "-shared", "-fPIC", "-o", filepath.Join(dir, "types"), "testdata/types.c")
			output(t, "gcc", flags[0], "-O0", "-fPIC", "-c", "-Dmain=another", "-o", filepath.Join(dir, "parts"), "testdata/parts.c")
			output(t, "gcc", flags[0], "-O0", "-shared", "-fPIC", "-o", whole, "testdata/types.c", filepath.Join(dir, "parts"))
			if _, err := Open(whole, "amd64"); err != nil {
				t.Skip(err) // another architecture
			}
			data, err := os.ReadFile(whole)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, data, 0o700); err != nil {
				t.Fatal(err)
			}
			args := append(slices.Clone(flags[1:]), filepath.Join(dir, "shared"), file, filepath.Join(dir, "types"))
			if out, err := exec.Command("dwz", args...).CombinedOutput(); err != nil {
				t.Skipf("dwz: %v\n%s", err, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "shared")); err != nil {
				t.Skip("dwz shares nothing")
			}
			want, _ := typesOf(t, whole, "amd64", "*")
			f, err := Open(file, "amd64")
			if err != nil {
				t.Fatal(err)
			}
			refused := 0
			for name, proto := range want {
				if name == "" {
					continue
				}
				_, err := f.Types(f.Named(name))
				if err != nil {
					if refused++; !strings.Contains(err.Error(), "a file that it shares with others (dwz -m)") {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				got, _ := typesOf(t, file, "amd64", name)
				if a, b := describe(name, proto), describe(name, got[name]); a != b {
					t.Errorf("%s\nwant %s", b, a)
				}
			}
			if refused == 0 {
				t.Error("all functions have types: is anything shared?")
			}
		})
	}
}

// describe returns a function and the types that its parameters lead to, as C.
func describe(name string, proto *btf.FuncProto) string {
	if proto == nil {
		return name + " has no types"
	}
	b := append(btfprint.AppendFunc(nil, name, proto), '\n')
	types := []btf.Type{proto.Return}
	for _, p := range proto.Params {
		types = append(types, p.Type)
	}
	for _, t := range types {
		for range 3 {
			if p, ok := btf.UnderlyingType(t).(*btf.Pointer); ok {
				t = p.Target
			}
		}
		switch t := btf.UnderlyingType(t).(type) {
		case *btf.Struct, *btf.Union, *btf.Enum:
			b = append(btfprint.AppendType(b, t, btfprint.TypeOptions{}), '\n')
		}
	}
	return string(b)
}
