// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/terminal"
)

// A name as somebody would choose it who wants to act on the terminal: escape
// sequences in 7 and in 8 bits, a bell, lines of its own, marks of direction,
// and what is no UTF-8.
const (
	evil      = "e\x1b]0;x\x07\x1b[2J\r\nksnoop:\x7f\u009b\u202e\u2067\u200f\u061c\x9b\xff"
	evilShown = `e\x1b]0;x\x07\x1b[2J\r\nksnoop:\x7f\xc2\x9b\xe2\x80\xae\xe2\x81\xa7\xe2\x80\x8f\xd8\x9c\x9b\xff`
)

// harmless is as long.
var harmless = "e" + strings.Repeat("z", len(evil)-1)

// oneLine is a name as it can stand in files that have a line for each, such as kallsyms.
func oneLine(name string) string { return strings.ReplaceAll(name, "\n", "") }

// unsafeText returns the first rune, or byte, that a terminal would act on. Tabs are layout.
func unsafeText(text string) string { return formattest.Unsafe(strings.ReplaceAll(text, "\t", "")) }

// compareNames runs something twice, with harmless names and with those that
// are not. Both print the same lines, with each name where it belongs.
func compareNames(t *testing.T, shown int, do func(name string) string) {
	t.Helper()
	good, bad := do(harmless), do(evil)
	// What is no UTF-8 gets lost in the JSON of recordings.
	bad = strings.ReplaceAll(bad, "\ufffd\ufffd", `\x9b\xff`)
	if raw := unsafeText(bad); raw != "" {
		t.Errorf("%q reaches the terminal:\n%q", raw, bad)
	}
	if g, b := strings.Count(good, "\n"), strings.Count(bad, "\n"); g != b {
		t.Errorf("%d lines rather than %d:\n%s\n%s", b, g, bad, good)
	}
	g, b := strings.Count(good, harmless), strings.Count(bad, evilShown)+strings.Count(bad, terminal.Name(oneLine(evil)))
	if b < shown || b > g {
		t.Errorf("the name is there %d times rather than %d to %d times:\n%s\n%s", b, shown, g, bad, good)
	}
}

// both is what a command line prints on either stream.
func both(args ...string) string {
	stdout, stderr, _ := ran(args...)
	return stdout + "---\n" + stderr
}

// hostileTypes is the BTF of a kernel in which a function, its parameter, types,
// members and enumerators have a name in theirs.
func hostileTypes(t *testing.T, name string) []byte {
	t.Helper()
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	named := &btf.Struct{Name: "s_" + name, Size: 32, Members: []btf.Member{
		{Name: "m_" + name, Type: integer},
		{Name: "enumerator", Type: &btf.Enum{Name: "e_" + name, Size: 4, Values: []btf.EnumValue{{Name: "E_" + name, Value: codeAddr & 0xffffffff}}}, Offset: 64},
		{Name: "text", Type: &btf.Array{Index: integer, Type: char, Nelems: 8}, Offset: 128},
		{Name: "at", Type: &btf.Pointer{Target: (*btf.Void)(nil)}, Offset: 192},
	}}
	outer := &btf.Struct{Name: "outer", Size: 32, Members: []btf.Member{{Name: "in", Type: named}}}
	b, err := btf.NewBuilder([]btf.Type{outer,
		&btf.Func{Name: "fn_" + name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: integer, Params: []btf.FuncParam{{Name: "p_" + name, Type: &btf.Pointer{Target: named}}}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// codeAddr is the address of a function whose symbol has the name.
const codeAddr = 0xffffffff81000010

func hostileKernel(t *testing.T, name string) fstest.MapFS {
	return fstest.MapFS{
		"proc/sys/kernel/osrelease": {Data: []byte(oneLine(name) + "\n")},
		"sys/kernel/btf/vmlinux":    {Data: hostileTypes(t, name)},
		"proc/kallsyms": {Data: []byte("ffffffff81000000 t code_" + oneLine(name) + "\nffffffff81001000 t end\n" +
			"ffffffffc0000000 t module_" + oneLine(name) + "\t[" + oneLine(name) + "]\n")},
	}
}

// hostileRecording records calls, or a session, on such a kernel.
func hostileRecording(t *testing.T, name string, sessions bool) string {
	t.Helper()
	root := hostileKernel(t, name)
	// Of files with a line for each name the kernel has none of such functions.
	view, err := kernel.OpenBTF(bytes.NewReader(root["sys/kernel/btf/vmlinux"].Data), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	source := record.Source{Root: root, View: view, Arch: "amd64", Writer: name}
	spec, err := expr.Parse("fn_*")
	if err != nil {
		t.Fatal(err)
	}
	options := plan.Options{Arch: "amd64"}
	var p *plan.Plan
	if sessions {
		s, _, err := plan.ResolveSession(source.View, plan.SessionRequest{Args: true, Entry: []*expr.Spec{spec}}, options)
		if err != nil {
			t.Fatal(err)
		}
		p, source.Sessions = s, &record.Sessions{Args: true, Boot: time.Unix(0, 0)}
	} else if p, _, err = plan.Resolve(source.View, []*expr.Spec{spec}, options); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := record.NewWriter(&file, source, p)
	if err != nil {
		t.Fatal(err)
	}
	var raw []byte
	if sessions {
		raw = hostileSession(name)
	} else {
		raw = hostileCall(p, name)
	}
	if err := w.Append(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.End(event.Losses{}); err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "recording", file.Bytes())
}

// words are addresses in the two functions that have symbols.
func words(n int) (raw []byte) {
	for i := range n {
		raw = binary.LittleEndian.AppendUint64(raw, [...]uint64{codeAddr, 0xffffffffc0000010}[i%2])
	}
	return raw
}

func hostileCall(p *plan.Plan, name string) []byte {
	e := bpf.Event{Time: 1e9, PID: 7, TID: 7, Kind: bpf.KindEntry, HasTail: true}
	copy(e.Comm[:15], name)
	raw := append(bpf.AppendEvent(nil, &e), words(int(p.Probes[0].Entry.Record.Size)/8)...)
	return bpf.AppendSection(raw, &bpf.Section{Kind: bpf.SectionStack, Data: words(3)})
}

func hostileSession(name string) []byte {
	h := bpf.SessionHeader{Kind: bpf.SessionEnd, PID: 7, TID: 8, Start: 1e9, End: 2e9, Failed: true, Frames: 1, Stack: 2}
	copy(h.Comm[:15], name)
	copy(h.Leader[:15], name)
	raw := bpf.AppendSession(nil, &h)
	raw = bpf.AppendCall(raw, bpf.SessionCall{Flags: bpf.CallFinished | bpf.CallFailed, Result: codeAddr})
	return append(raw, words(2)...)
}

func TestHostileRecording(t *testing.T) {
	for shown, args := range map[int][]string{11: {"--join"}, 7: {"--compact"}} {
		t.Run(args[0], func(t *testing.T) {
			compareNames(t, shown, func(name string) string {
				return both(append([]string{"replay", hostileRecording(t, name, false)}, args...)...)
			})
		})
	}
	for _, test := range []struct {
		shown int
		args  []string
	}{{1, []string{"--info"}}, {0, []string{"nothing"}}, {0, []string{"*(nothing)"}}} {
		t.Run(test.args[0], func(t *testing.T) {
			compareNames(t, test.shown, func(name string) string {
				return both(append([]string{"replay", hostileRecording(t, name, false)}, test.args...)...)
			})
		})
	}
	for _, args := range [][]string{nil, {"--args", "multiline"}, {"--args", "verbose"}, {"--full-stacks"}} {
		t.Run("sessions "+strings.Join(args, " "), func(t *testing.T) {
			compareNames(t, 4, func(name string) string {
				return both(append([]string{"replay", hostileRecording(t, name, true)}, args...)...)
			})
		})
	}
}

func TestHostileTypes(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values")
	zeroes := filepath.Join(t.TempDir(), "zeroes")
	for name, content := range map[string][]byte{values: words(4), zeroes: make([]byte, 32)} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"info", "fn_*"}, {"info", "-l", "fn_*"}, {"info", "--types", "struct outer"},
		{"print", "struct outer", values}, {"print", "--compact", "struct outer", values}, {"print", "--verbose", "struct outer", values},
		{"print", "--plain", "struct outer", values}, {"print", "--names-only", "struct outer", values}, {"print", "--readings", "struct outer", values},
		{"print", "--diff", zeroes, "struct outer", values},
		{"trace", "--explain", "--attach", "kprobe", "fn_*"}, {"trace", "--dry-run", "--attach", "kprobe", "fn_*"},
	} {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			compareNames(t, 1, func(name string) string {
				return both(append(args, "--btf", writeFile(t, "types.btf", hostileTypes(t, name)))...)
			})
		})
	}
	stdout, stderr, status := ran("print", "--json", "--btf", writeFile(t, "types.btf", hostileTypes(t, evil)), "struct outer", values)
	if raw := unsafeText(stdout); raw != "" || status != 0 {
		t.Errorf("JSON: status %d, %s, %q in %q", status, stderr, raw, stdout)
	}
	var v struct{ In map[string]any }
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	// What is no UTF-8 is no text of JSON, and stays escaped.
	if name := strings.NewReplacer("\x9b\xff", `\x9b\xff`).Replace(evil); v.In["m_"+name] == nil {
		t.Errorf("no %q in %q", name, v.In)
	}
}

// hostileProgram is a program whose functions, one of them inlined, and whose
// source file have a name in theirs, in its symbols and in its debug info.
func hostileProgram(t *testing.T, name string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed")
	}
	dir := t.TempDir()
	source := harmless + ".c"
	text := strings.ReplaceAll("volatile int x;\nstatic inline __attribute__((always_inline)) void in_NAME(void)\n{\n\tx++;\n}\nint fn_NAME(void)\n{\n\tin_NAME();\n\treturn x;\n}\nint main(void)\n{\n\treturn fn_NAME();\n}\n", "NAME", harmless)
	if err := os.WriteFile(filepath.Join(dir, source), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("gcc", "-O1", "-g", "-fno-ipa-cp", "-fno-inline-small-functions", "-no-pie", source, "-o", "program")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "program", bytes.ReplaceAll(program, []byte(harmless), []byte(name)))
}

func TestHostileProgram(t *testing.T) {
	for _, flags := range []string{"-fi", "-afi", "-pfi", "-sfi"} {
		t.Run(flags, func(t *testing.T) {
			compareNames(t, 4, func(name string) string { return both("sym", flags, "-e", hostileProgram(t, name), "fn_"+name) })
		})
	}
}

// Files and SPECs of the command line come back in messages.
func TestHostileCommandLine(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{harmless, evil} {
		if err := os.WriteFile(filepath.Join(dir, "exists"+name), []byte("no file that any command reads\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"replay", "FILE"}, {"sym", "-e", "FILE", "0"}, {"sym", "--exe=FILE", "0"}, {"print", "--btf", "FILE", "int", "/dev/null"}, {"print", "--btf=FILE", "--base=FILE", "int"},
		{"info", "--btf", "FILE", "x"}, {"trace", "--explain", "--btf", "FILE", "x"}, {"trace", "--dry-run", "--btf", "FILE", "x"}, {"trace", "@FILE"},
		{"trace", "-d", "@FILE", "vfs_read"}, {"trace", "-e", "@FILE"},
	} {
		for _, file := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "exists")} {
			t.Run(strings.Join(args, " ")+" "+filepath.Base(file), func(t *testing.T) {
				compareNames(t, 0, func(name string) string {
					var full []string
					for _, arg := range args {
						full = append(full, strings.ReplaceAll(arg, "FILE", file+name))
					}
					return both(full...)
				})
			})
		}
	}
	for _, args := range [][]string{
		{"NAME"}, {"trace", "fn(NAME)"}, {"trace", `vfs_read(count == "NAME")`}, {"trace", "--NAME", "x"}, {"trace", "--attach=NAME", "vfs_read"}, {"trace", "--attach", "NAME", "vfs_read"},
		{"trace", "--ringbuf", "NAME", "x"}, {"trace", "--dry-run=NAME", "x"}, {"trace", "-d", "x(NAME", "x"}, {"trace", "-e", "x", "-x", "NAME"}, {"trace", "-c", "NAME"}, {"trace", "-p", "NAME", "x"},
		{"trace", "--uid", "NAME", "x"}, {"trace", "--cgroup", "NAME", "x"}, {"trace", "--rate", "NAME", "x"}, {"trace", "-s", "NAME", "x"}, {"trace", "--lbr=NAME", "x"},
		{"info", "NAME"}, {"info", "--types", "struct NAME"}, {"print", "struct NAME", "/dev/null"}, {"print", "u32[NAME]", "/dev/null"}, {"replay", "--args", "NAME", "x"}, {"replay", "a", "NAME"},
		{"NAME", "--", "NAME"}, {"--NAME"}, {"-NAME"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			for _, name := range []string{evil, oneLine(evil)} {
				var full []string
				for _, arg := range args {
					full = append(full, strings.ReplaceAll(arg, "NAME", name))
				}
				if out := both(full...); unsafeText(out) != "" || strings.Contains(out, "\nksnoop:\\x7f") {
					t.Errorf("%q:\n%s", full, out)
				}
			}
		})
	}
}

func TestHostileDoctor(t *testing.T) {
	compareNames(t, 0, func(name string) string {
		root := hostileKernel(t, name)
		root["sys/kernel/security/lockdown"] = &fstest.MapFile{Data: []byte(name)}
		root["proc/self/status"] = &fstest.MapFile{Data: []byte("CapEff:\t0000000000000000\nNoNewPrivs:\t0\n")}
		var out bytes.Buffer
		w := terminal.NewWriter(&out)
		if err := doctor(context.Background(), w, kernel.Open(root), root, kernelFlags{}); err != nil {
			out.WriteString(err.Error())
		}
		return out.String()
	})
}
