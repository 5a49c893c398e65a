// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInlinedEqualsOracle asks llvm-symbolizer for the chain at each address of
// a program. Each call in a chain must be a place that was found, and the place
// must begin in that function.
func TestInlinedEqualsOracle(t *testing.T) {
	for _, b := range builds {
		t.Run(b.name, func(t *testing.T) {
			file := buildProgram(t, b.tools, b.script)
			info, err := Open(file, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer info.Close()
			type call struct {
				callee, caller string
				file           string
				line, column   uint32
			}
			// The compiler may leave an inlined function no instruction.
			seen := map[call]bool{}
			names := map[string]bool{}
			for _, chain := range oracle(t, file, functionText(t, file)) {
				for n := range chain[1:] {
					in, out := chain[n], chain[n+1]
					seen[call{in.Func, out.Func, out.File, out.Line, out.Column}] = true
					names[in.Func] = true
				}
			}
			if len(seen) == 0 && b.name != "gcc without optimisation" {
				t.Fatal("llvm-symbolizer knows of no inlined function")
			}
			found := map[call]bool{}
			var begins []uint64
			var places []Inlining
			for name := range names {
				for _, at := range info.InlinedNamed(func(n []byte) bool { return string(n) == name }) {
					found[call{at.Func, at.Caller, at.File, at.Line, at.Column}] = true
					begins, places = append(begins, at.Addr), append(places, at)
				}
			}
			for c := range seen {
				if !found[c] {
					t.Errorf("not found: %+v", c)
				}
			}
			within := 0
			for i, chain := range oracle(t, file, begins) {
				at := places[i]
				if outer := chain[len(chain)-1].Func; outer != at.Into {
					t.Errorf("%+v is in %s", at, outer)
				}
				for n := range chain[1:] {
					in, out := chain[n], chain[n+1]
					if in.Func == at.Func && out == (Frame{Func: at.Caller, File: at.File, Line: at.Line, Column: at.Column}) {
						within++
					}
				}
			}
			// gcc lets some begin before their first instruction.
			if 2*within < len(places) {
				t.Errorf("of %d places only %d begin within the function", len(places), within)
			}
		})
	}
}

// functionText returns every fourth address of the program's code: calls take
// five bytes.
func functionText(t *testing.T, file string) (addrs []uint64) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range f.Sections {
		if s.Name != ".text" && s.Name != ".text.startup" && s.Name != ".text.unlikely" {
			continue
		}
		for a := s.Addr; a < s.Addr+s.Size; a += 4 {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// TestInlinedIntoKernel knows of a function of Linux whose call for UDP is
// inlined, and of one that has no code of its own, from the source and from
// who looked for calls in vain.
func TestInlinedIntoKernel(t *testing.T) {
	info, err := Open(debugVmlinux(t, "6.12"), Options{Relative: true})
	if err != nil {
		t.Fatal(err)
	}
	defer info.Close()
	symbols := info.FunctionsNamed(map[string]bool{"ip_send_skb": true, "ip_push_pending_frames": true, "vfs_read": true})
	send, push := symbols["ip_send_skb"], symbols["ip_push_pending_frames"]
	if len(send) != 1 || len(push) != 1 {
		t.Fatalf("symbols: %+v", symbols)
	}
	file, line, ok := info.Definition(send[0].Addr)
	if !ok || file != "net/ipv4/ip_output.c" || line == 0 {
		t.Errorf("ip_send_skb is defined at %s:%d, %v", file, line, ok)
	}
	places := info.Inlined([]uint64{symbols["vfs_read"][0].Addr, send[0].Addr}, true)
	if len(places[0]) != 0 {
		t.Errorf("vfs_read is inlined at %+v", places[0])
	}
	if len(places[1]) != 1 {
		t.Fatalf("ip_send_skb is inlined at %+v", places[1])
	}
	at := places[1][0]
	if at.Caller != "ip_push_pending_frames" || at.Into != at.Caller || at.File != file || at.Line <= line ||
		at.Addr < push[0].Addr || at.Addr >= push[0].Addr+push[0].Size {
		t.Errorf("ip_send_skb is inlined at %+v, want it in %+v", at, push[0])
	}
}

// TestInlined looks for the places of a function that has code of its own as well.
func TestInlined(t *testing.T) {
	for _, tool := range []string{"gcc", "clang"} {
		t.Run(tool, func(t *testing.T) {
			info, err := Open(buildProgram(t, tool, tool+" -O2 -g *.c"), Options{Relative: true})
			if err != nil {
				t.Fatal(err)
			}
			defer info.Close()
			symbols := info.FunctionsNamed(map[string]bool{"send": true, "push": true, "main": true})
			send, push := symbols["send"][0], symbols["push"][0]
			places := info.Inlined([]uint64{push.Addr, send.Addr}, false)
			if len(places[0]) != 0 || len(places[1]) != 1 {
				t.Fatalf("push, which is not called, and send are inlined at %+v", places)
			}
			at := places[1][0]
			if into, ok := info.SymbolAt(at.Addr); !ok || into != push {
				t.Errorf("%#x is in %+v, want push", at.Addr, into)
			}
			at.Addr, at.Column = 0, 0
			if want := (Inlining{Func: "send", Caller: "push", Into: "push", File: "three.c", Line: 52}); !cmp.Equal(at, want) {
				t.Errorf("send is inlined at %+v, want %+v", at, want)
			}
			if file, line, ok := info.Definition(send.Addr); !ok || file != "three.c" || line != 44 {
				t.Errorf("send is defined at %s:%d, %v", file, line, ok)
			}
		})
	}
}

// TestSplitFunction: what gcc has cut off a function and put back is no call.
func TestSplitFunction(t *testing.T) {
	file := filepath.Join(t.TempDir(), "split")
	if out, err := exec.Command("gcc", "-O2", "-g", "-c", "-o", file, "testdata/split/split.c").CombinedOutput(); err != nil {
		t.Skipf("gcc: %v\n%s", err, out)
	}
	info, err := Open(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer info.Close()
	if _, ok := info.SymbolNamed("rare.part.0"); !ok {
		t.Skip("this compiler does not split the function")
	}
	var lines []uint32
	for _, at := range info.InlinedNamed(func(name []byte) bool { return string(name) == "rare" }) {
		if lines = append(lines, at.Line); at.Caller == "rare" {
			t.Errorf("inlined into itself: %+v", at)
		}
	}
	slices.Sort(lines)
	if !slices.Equal(lines, []uint32{20, 21, 26}) {
		t.Errorf("called in lines %d", lines)
	}
}
