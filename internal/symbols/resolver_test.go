// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/kernel"
)

const someSymbols = `ffffffff81000000 T _stext
ffffffff81001000 T panic
ffffffff81001100 T __sys_bpf
ffffffff81001400 t map_check.isra.0
ffffffff81002000 T _etext
ffffffffc0001000 t nft_do_chain	[nf_tables]
ffffffffc0008000 t bpf_prog_0123456789abcdef_f	[bpf]
`

// lines is debug info in which two functions are inlined into __sys_bpf.
type lines struct{ asked *[]uint64 }

func (l lines) Lookup(dst []debuginfo.Frame, addr uint64, module string) []debuginfo.Frame {
	*l.asked = append(*l.asked, addr)
	switch {
	case module == "" && addr>>8 == 0xffffffff810011:
		return append(dst,
			debuginfo.Frame{Func: "find_and_alloc_map", File: "kernel/bpf/syscall.c", Line: 137, Column: 9},
			debuginfo.Frame{Func: "map_create", File: "kernel/bpf/syscall.c", Line: 1333},
			debuginfo.Frame{Func: "__sys_bpf", File: "kernel/bpf/syscall.c", Line: 5757, Column: 9})
	case module == "" && addr>>8 == 0xffffffff810014:
		return append(dst, debuginfo.Frame{Func: "map_check", File: "kernel/bpf/syscall.c", Line: 7})
	case module == "nf_tables":
		return append(dst, debuginfo.Frame{Func: "nft_do_chain", File: "net/netfilter/nf_tables_core.c"})
	}
	return dst
}

func text(frames []Frame) (rows []string) {
	for _, f := range frames {
		b := f.AppendName(nil)
		if f.Inlined {
			b = append([]byte(". "), b...)
		}
		if f.File != "" {
			b = append(f.AppendSource(append(b, " ("...)), ')')
		}
		rows = append(rows, string(b))
	}
	return rows
}

func TestFrames(t *testing.T) {
	view := kernel.Open(fstest.MapFS{"proc/kallsyms": {Data: []byte(someSymbols)}})
	for _, test := range []struct {
		name     string
		addr     uint64
		returned bool
		level    Level
		want     []string
	}{
		{"inlined", 0xffffffff81001110, false, LevelInlines, []string{
			". find_and_alloc_map (kernel/bpf/syscall.c:137:9)", ". map_create (kernel/bpf/syscall.c:1333)",
			"__sys_bpf+0x10 (kernel/bpf/syscall.c:5757:9)"}},
		{"the innermost line", 0xffffffff81001110, false, LevelLine, []string{"__sys_bpf+0x10 (kernel/bpf/syscall.c:137:9)"}},
		{"no debug info wanted", 0xffffffff81001110, false, LevelNone, []string{"__sys_bpf+0x10"}},
		{"the compiler's copy keeps its name", 0xffffffff81001400, false, LevelInlines, []string{"map_check.isra.0+0x0 (kernel/bpf/syscall.c:7)"}},
		{"no debug info there", 0xffffffff81001010, false, LevelInlines, []string{"panic+0x10"}},
		{"behind a call that never returns", 0xffffffff81001100, true, LevelInlines, []string{"panic+0x100"}},
		{"not behind a call", 0xffffffff81001101, true, LevelLine, []string{"__sys_bpf+0x1 (kernel/bpf/syscall.c:137:9)"}},
		{"module", 0xffffffffc0001010, false, LevelLine, []string{"nft_do_chain+0x10 [nf_tables] (net/netfilter/nf_tables_core.c:?)"}},
		{"BPF program", 0xffffffffc0008001, false, LevelInlines, []string{"bpf_prog_0123456789abcdef_f+0x1 [bpf]"}},
		{"far behind the last symbol", 0xffffffffc0010000, false, LevelInlines, []string{"0xffffffffc0010000"}},
		{"user space", 0x401000, true, LevelInlines, []string{"0x401000"}},
		{"nothing", 0, true, LevelInlines, []string{"0x0"}},
	} {
		r := New(view, lines{new([]uint64)}, test.level)
		for range 2 { // and from the cache
			if diff := cmp.Diff(test.want, text(r.Frames(nil, test.addr, test.returned))); diff != "" {
				t.Errorf("%s: %s", test.name, diff)
			}
		}
	}
}

// TestWithoutSource holds New to its word that a source may be missing.
func TestWithoutSource(t *testing.T) {
	view := kernel.Open(fstest.MapFS{"proc/kallsyms": {Data: []byte(someSymbols)}})
	got := text(New(view, nil, LevelInlines).Frames(nil, 0xffffffff81001110, false))
	if diff := cmp.Diff([]string{"__sys_bpf+0x10"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestRemembered looks one address up twice.
func TestRemembered(t *testing.T) {
	view := kernel.Open(fstest.MapFS{"proc/kallsyms": {Data: []byte(someSymbols)}})
	var asked []uint64
	r := New(view, lines{&asked}, LevelInlines)
	for range 3 {
		r.Frames(nil, 0xffffffff81001110, true)
		r.Frames(nil, 0xffffffff81001110, false)
	}
	if diff := cmp.Diff([]uint64{0xffffffff8100110f, 0xffffffff81001110}, asked); diff != "" {
		t.Errorf("debug info was asked for %s", diff)
	}
}

// A countingFS counts how often its files are opened.
type countingFS struct {
	fs.FS
	opened map[string]int
}

func (c countingFS) Open(name string) (fs.File, error) {
	c.opened[name]++
	return c.FS.Open(name)
}

// TestHiddenSymbols: where addresses are hidden none has a name, and nothing is read
// again in the hope of one.
func TestHiddenSymbols(t *testing.T) {
	root := countingFS{fstest.MapFS{"proc/kallsyms": {Data: []byte("0000000000000000 T _stext\n0000000000000000 T panic\n")}}, map[string]int{}}
	r := New(kernel.Open(root), nil, LevelNone)
	for i := range uint64(8) {
		addr := 0xffffffff81000000 + i
		if diff := cmp.Diff([]string{fmt.Sprintf("%#x", addr)}, text(r.Frames(nil, addr, false))); diff != "" {
			t.Error(diff)
		}
	}
	if n := root.opened["proc/kallsyms"]; n != 1 {
		t.Errorf("/proc/kallsyms was read %d times", n)
	}
}

// TestModulesReplaced: addresses of modules are named by those that there are. One may be loaded where another one was, or right behind it.
func TestModulesReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := func(text string) fstest.MapFS {
			return fstest.MapFS{"proc/kallsyms": {Data: []byte("ffffffff81000000 T _stext\nffffffff81001000 T panic\n" + text)}}
		}
		root := list("ffffffffc0001000 t one\t[a]\n")
		root["proc/modules"] = &fstest.MapFile{Data: []byte("a 4096 0 - Live 0xffffffffc0001000\n")}
		view := kernel.Open(root)
		r := New(view, nil, LevelNone)
		append := Appender(view)
		shows := func(addr uint64, want string) {
			t.Helper()
			if got := text(r.Frames(nil, addr, false))[0]; got != want {
				t.Errorf("%#x is %s, want %s", addr, got, want)
			}
			if got := string(append(nil, addr)); got != want && !strings.HasPrefix(want, "0x") {
				t.Errorf("%#x is %s by itself, want %s", addr, got, want)
			}
		}
		shows(0xffffffffc0001010, "one+0x10 [a]")
		shows(0xffffffffc0002010, "one+0x1010 [a]") // where is nothing
		shows(0xffffffffc0100010, "0xffffffffc0100010")
		root["proc/kallsyms"] = list("ffffffffc0001008 t other\t[b]\nffffffffc0002000 t two\t[c]\nffffffffc0100000 t three\t[d]\n")["proc/kallsyms"]
		root["proc/modules"] = &fstest.MapFile{Data: []byte("b 4096 0 - Live 0xffffffffc0001000\nc 4096 0 - Live 0xffffffffc0002000\nd 4096 0 - Live 0xffffffffc0100000\n")}
		time.Sleep(2 * time.Second)
		shows(0xffffffffc0100010, "three+0x10 [d]")
		shows(0xffffffffc0001010, "other+0x8 [b]")
		shows(0xffffffffc0002010, "two+0x10 [c]")
		shows(0xffffffff81001010, "panic+0x10")
	})
}

// TestNewSymbols adds a trampoline after the symbols have been read.
func TestNewSymbols(t *testing.T) {
	root := fstest.MapFS{"proc/kallsyms": {Data: []byte(someSymbols)}}
	r := New(kernel.Open(root), nil, LevelNone)
	r.Frames(nil, 0xffffffff81001000, false)
	root["proc/kallsyms"] = &fstest.MapFile{Data: []byte(someSymbols + "ffffffffc0020000 t bpf_trampoline_1\t[bpf]\n")}
	got := text(r.Frames(nil, 0xffffffffc0020010, true))
	if diff := cmp.Diff([]string{"bpf_trampoline_1+0x10 [bpf]"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestNewModule loads a module after many addresses without a symbol, so that kallsyms is not read again at once. When it
// is, all addresses of the module have names, also those that had none before.
func TestNewModule(t *testing.T) {
	root := countingFS{fstest.MapFS{"proc/kallsyms": {Data: []byte(someSymbols)}}, map[string]int{}}
	r := New(kernel.Open(root), nil, LevelNone)
	for i := range uint64(20) {
		r.Frames(nil, 0xffffffffc9000000+i<<20, false)
	}
	const functions = 30
	text := []byte(someSymbols)
	for i := range functions {
		text = fmt.Appendf(text, "ffffffffc1%06x t f%d\t[late]\n", i<<8, i)
	}
	root.FS.(fstest.MapFS)["proc/kallsyms"] = &fstest.MapFile{Data: text}
	nameless := func() (n int) {
		for i := range uint64(functions) {
			if r.Frames(nil, 0xffffffffc1000010+i<<8, false)[0].Name == "" {
				n++
			}
		}
		return n
	}
	if n := nameless(); n == 0 || n == functions {
		t.Errorf("%d of %d have no name at first, want some", n, functions)
	}
	before := root.opened["proc/kallsyms"]
	if n := nameless(); n > 0 {
		t.Errorf("%d of %d have no name at last", n, functions)
	}
	if n := root.opened["proc/kallsyms"]; n != before {
		t.Errorf("/proc/kallsyms was read %d times more", n-before)
	}
}

func TestParseLevel(t *testing.T) {
	for text, want := range map[string]Level{"none": LevelNone, "n": LevelNone, "line": LevelLine, "inlines": LevelInlines, "s": LevelInlines} {
		if got, err := ParseLevel(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "lines", "x"} {
		if got, err := ParseLevel(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}
