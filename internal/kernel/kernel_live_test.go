// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/ksnoop/ksnoop/internal/vm/guest"
)

// Debian's cloud kernels differ in FPROBE only, as far as tracing goes.
func TestLiveFacts(t *testing.T) {
	guest.Require(t)
	v := Open(os.DirFS("/"))
	p, err := v.Privileges()
	if err != nil {
		t.Fatal(err)
	}
	facts := v.Facts(p)
	for _, f := range facts {
		t.Log(f)
	}
	if f, ok := obstacle(facts.get); ok {
		t.Errorf("obstacle: %+v", f)
	}
	want := map[string]Answer{"6.12": Yes, "6.1": No}
	if answer, known := want[guest.Kernel()]; known && facts.get(FactFprobe).Answer != answer {
		t.Errorf("FPROBE: %+v, want %s", facts.get(FactFprobe), answer)
	}
	for _, name := range []FactName{FactBPF, FactBTF, FactFtrace, FactFentry, FactKprobes, FactTracefs, FactKallsyms, FactAddresses} {
		if f := facts.get(name); f.Answer != Yes {
			t.Errorf("%+v, want yes", f)
		}
	}
}

// The kernel's own list of functions that can be traced is the oracle: every
// one must be found by glob, under one of its addresses in kallsyms.
func TestLiveMatch(t *testing.T) {
	guest.Require(t)
	data, err := os.ReadFile("/" + tracefs + "/" + filterFile)
	if err != nil {
		t.Fatal(err)
	}
	v := Open(os.DirFS("/"))
	funcs, err := v.Match("*", "")
	if err != nil {
		t.Fatal(err)
	}
	found, typed := make(map[string]bool), 0
	for _, f := range funcs {
		found[f.String()] = true
		if f.Addr == 0 {
			t.Fatalf("%s has no address", f)
		}
		if f.Type != nil {
			typed++
		}
	}
	lines, missing := 0, 0
	for line := range strings.Lines(string(data)) {
		lines++
		name := strings.ReplaceAll(strings.TrimSpace(line), " [", "[")
		if !found[name] && !strings.HasPrefix(name, "__ftrace_invalid_address__") {
			if missing++; missing < 10 {
				t.Errorf("%s is not found", name)
			}
		}
	}
	t.Logf("%d traceable, %d found, %d with types", lines, len(funcs), typed)
	if typed < lines/2 {
		t.Errorf("only %d functions have types", typed)
	}
}

// What the kernel calls an address in its own stack traces is the oracle for
// symbols.
func TestLiveSymbol(t *testing.T) {
	guest.Require(t)
	// Lines of a sleeping task's stack are "[<0>] do_wait+0x5f/0x140".
	stacks, err := fs.Glob(os.DirFS("/"), "proc/[0-9]*/stack")
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	for _, file := range stacks {
		if stack, err := os.ReadFile("/" + file); err == nil { // else the task has ended
			data = append(data, stack...)
		}
	}
	v := Open(os.DirFS("/"))
	checked := 0
	seen := make(map[string]bool)
	for line := range strings.Lines(string(data)) {
		if seen[line] {
			continue
		}
		seen[line] = true
		_, where, _ := strings.Cut(strings.TrimSpace(line), "] ")
		name, rest, ok := strings.Cut(where, "+")
		if !ok {
			continue
		}
		var offset, size uint64
		if n, err := fmt.Sscanf(rest, "0x%x/0x%x", &offset, &size); n != 2 {
			t.Fatalf("%q: %v", line, err)
		}
		funcs, err := v.Match(name, "")
		if err != nil {
			continue // assembler entry code without BTF and not code in kallsyms
		}
		if funcs, err = v.Locate(funcs); err != nil || len(funcs) != 1 {
			continue
		}
		want := Symbol{Name: name, Addr: funcs[0].Addr, Offset: offset, Size: size}
		if got, ok := v.Symbol(funcs[0].Addr + offset); !ok || got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		checked++
	}
	if checked < 5 {
		t.Errorf("only %d symbols could be checked in %q", checked, data)
	}
	t.Logf("%d symbols checked", checked)
}
