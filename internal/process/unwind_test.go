// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/internal/unwind"
	"github.com/ksnoop/ksnoop/internal/vm"
)

// deepC calls itself as often as it is told, and stops. One call goes through the C library's
// qsort, one through a signal handler.
const deepC = `#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static volatile int sink;
__attribute__((noinline)) int deep(int n)
{
	volatile char room[40];
	room[n % 40] = 1;
	if (n <= 0)
		kill(getpid(), SIGSTOP);
	else
		sink += deep(n - 1);
	return sink + room[n % 40];
}
static int compare(const void *a, const void *b) { return deep(60) + (a < b); }
static void handler(int n) { int v[2] = {2, 1}; sink += n; qsort(v, 2, sizeof(v[0]), compare); }
__attribute__((noinline)) int raised(void) { raise(SIGUSR1); return sink++; }
int main(void) { signal(SIGUSR1, handler); for (int i = 0; i < 40; i++) sink += i; return deep(0) + raised(); }
`

// deepCC throws out of a function that has called itself.
const deepCC = `#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>
struct Node {
	std::vector<std::string> names;
	virtual ~Node() {}
	virtual int visit(int n, const std::function<int(int)> &f) {
		names.push_back(std::to_string(n));
		try { return n ? visit(n - 1, f) + f(n) : f(n); } catch (std::runtime_error &e) { return names.size(); }
	}
};
int main() {
	Node node;
	return node.visit(60, [](int n) { if (!n) { kill(getpid(), SIGSTOP); throw std::runtime_error("x"); } return n; });
}
`

const deepGo = `package main

import (
	"os"
	"sort"
	"syscall"
)

//go:noinline
func deep(n int, s []int) int {
	if n == 0 {
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		return s[0]
	}
	sort.Slice(s, func(i, j int) bool { return i > j && n%2 == 3 })
	return deep(n-1, append(s, n)) + 1
}

func main() {
	done := make(chan int)
	go func() { done <- deep(60, []int{3, 2, 1}) }()
	<-done
}
`

const deepRust = `extern "C" { fn raise(n: i32) -> i32; }
#[inline(never)]
fn deep(n: u32, f: &mut dyn FnMut(u32) -> u32) -> u32 {
    let s = format!("{}", n);
    if n == 0 { unsafe { raise(19); } return f(n); }
    deep(n - 1, &mut |x| f(x) + s.len() as u32) + 1
}
fn main() { let v: Vec<u32> = (0..3).collect(); println!("{}", v.iter().map(|x| deep(60 + x, &mut |y| y)).sum::<u32>()); }
`

// TestUnwindIsGDB stops programs and compares their stacks with what gdb prints of them.
func TestUnwindIsGDB(t *testing.T) {
	if _, err := exec.LookPath("gdb"); err != nil {
		t.Skip(err)
	}
	for _, test := range []struct {
		name, file, source string
		least              int // frames
		command            []string
	}{
		{"gcc", "a.c", deepC, 5, []string{"gcc", "-O2", "-fomit-frame-pointer"}},
		{"clang", "a.c", deepC, 5, []string{"clang", "-O2", "-fomit-frame-pointer"}},
		{"static", "a.c", deepC, 5, []string{"gcc", "-O2", "-static", "-fomit-frame-pointer"}},
		{"musl", "a.c", deepC, 3, []string{"musl-gcc", "-O2", "-static", "-fomit-frame-pointer"}},
		{"frame pointers", "a.c", deepC, 5, []string{"gcc", "-O1", "-fno-omit-frame-pointer"}},
		{"C++", "a.cc", deepCC, 60, []string{"g++", "-O2"}},
		{"C++ by clang", "a.cc", deepCC, 60, []string{"clang++", "-O2"}},
		{"Rust", "a.rs", deepRust, 60, []string{"rustc", "-O"}},
		{"Go", "a.go", deepGo, 61, []string{"go", "build"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			program := compiled(t, test.file, test.source, test.command)
			c := exec.Command(program)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = errors.Join(c.Process.Kill(), c.Wait()) }()
			for stop := range 2 { // C stops again, in a signal handler
				waitStopped(t, c.Process.Pid)
				least := test.least
				if stop == 1 {
					least = 65
				}
				if got := compareWithGDB(t, c.Process.Pid, "/"); got < least {
					t.Errorf("%d frames, want %d", got, least)
				}
				if test.file != "a.c" {
					break
				}
				if err := c.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// deepPython calls itself, and is called back by a function in C, which that is.
const deepPython = `import os, signal

def deep(n):
    if n == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        return 0
    return deep(n - 1) + 1

def called_back(n):
    return deep(n)

def main():
    return sum(map(called_back, [60]))

main()
`

// pythonPackages have a Python with trampolines, and what it needs to start.
var pythonPackages = []string{"python3.13-minimal", "libpython3.13-minimal", "libexpat1", "zlib1g", "libc6"}

// pythonRoot returns a root folder that has Debian 13's Python.
func pythonRoot(t *testing.T) string {
	t.Helper()
	if os.Getenv("KSNOOP_TOOLS") == "" {
		t.Skip("KSNOOP_TOOLS is not set: make test-all fetches a Python with trampolines")
	}
	cache, err := vm.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, name := range pythonPackages {
		p, err := cache.Fetch(t.Context(), name+":amd64")
		if err != nil {
			t.Skip(err)
		}
		if out, err := exec.Command("cp", "-a", p.Dir+"/.", root).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, dir := range []string{"lib", "lib64"} {
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "tmp"), 0o700), os.WriteFile(filepath.Join(root, "deep.py"), []byte(deepPython), 0o600)); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestUnwindPython: functions in Python that have trampolines (-X perf) are among the frames, and all
// others are those of gdb.
func TestUnwindPython(t *testing.T) {
	root := pythonRoot(t)
	args := []string{"chroot", root, "/usr/bin/python3.13", "-X", "perf", "/deep.py"}
	if os.Getuid() != 0 {
		args = append([]string{"unshare", "-r"}, args...)
	}
	c := exec.Command(args[0], args[1:]...)
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _ = errors.Join(c.Process.Kill(), c.Wait()) }()
	waitStopped(t, c.Process.Pid)
	// For each of 61 calls a trampoline, the interpreter and the call from it.
	if got := compareWithGDB(t, c.Process.Pid, root); got < 3*61 {
		t.Errorf("%d frames, want %d; %s", got, 3*61, &said)
	}
}

// TestTrampolineRow: the caller of a trampoline is above 8 bytes that it leaves free (Python/asm_trampoline.S
// of CPython 3.12 and 3.13). What is called like a function in Python and has another size is left alone.
func TestTrampolineRow(t *testing.T) {
	for _, c := range []struct {
		name     string
		size, at uint64
		frame    uint64 // bytes, the return address included; 0: nothing is known
	}{
		{"py::f:/a.py", 11, 0, 8},
		{"py::f:/a.py", 11, 5, 16}, // in the call
		{"py::f:/a.py", 11, 10, 8},
		{"py::f:/a.py", 15, 4, 8},
		{"py::f:/a.py", 15, 9, 16},
		{"py::f:/a.py", 8, 5, 0},
		{"LazyCompile:f", 11, 5, 0},
	} {
		left := int(c.size)
		row := trampolineRow(&function{0x1000, 0x1000 + c.size, c.name}, 0x1000+c.at, &left)
		if c.frame == 0 {
			if row != nil {
				t.Errorf("%+v: there is a row", c)
			}
			continue
		}
		if want := unwind.AMD64().FrameRow(c.frame, false); row == nil || !reflect.DeepEqual(*row, want) {
			t.Errorf("%+v: %v", c, row)
		}
	}
}

func compiled(t *testing.T, name, source string, command []string) string {
	dir := t.TempDir()
	in, out := filepath.Join(dir, name), filepath.Join(dir, "program")
	if err := os.WriteFile(in, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(command[0], append(command[1:], "-o", out, in)...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := c.CombinedOutput(); err != nil {
		t.Skipf("%v: %v %s", command, err, said)
	}
	return out
}

// waitStopped waits until all threads of a process are stopped.
func waitStopped(t *testing.T, pid int) {
	t.Helper()
	for range 500 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(rest, "T") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the program has not stopped")
}

// gdbGenerated has gdb find the callers of code that no file has, of which it knows nothing, by what the rest
// of the function does: gdb's disassembler tells.
const gdbGenerated = `python
import gdb
from gdb.unwinder import Unwinder

class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc

class Generated(Unwinder):
    def __init__(self):
        super().__init__("generated")
        self.code = []
        for line in open("/proc/%d/maps" % gdb.selected_inferior().pid):
            fields = line.split()
            if "x" in fields[1] and len(fields) == 5:
                self.code.append([int(x, 16) for x in fields[0].split("-")])

    def __call__(self, frame):
        pc, sp = [int(frame.read_register(n)) & (1 << 64) - 1 for n in ("rip", "rsp")]
        if not any(lo <= pc < hi for lo, hi in self.code):
            return None
        for instruction in gdb.selected_inferior().architecture().disassemble(pc, pc + 64, 16):
            text = instruction["asm"].split()
            if text[0] == "ret":
                break
            if text[0] != "add" or not text[1].endswith(",%rsp"):
                return None
            sp += int(text[1][1:].split(",")[0], 16)
        word = gdb.lookup_type("unsigned long")
        caller = gdb.Value(sp).cast(word.pointer()).dereference()
        info = frame.create_unwind_info(FrameId(gdb.Value(sp + 8), gdb.Value(pc)))
        info.add_saved_register("rip", caller)
        info.add_saved_register("rsp", gdb.Value(sp + 8).cast(frame.read_register("rsp").type))
        for n in ("rbx", "rbp", "r12", "r13", "r14", "r15"):
            info.add_saved_register(n, frame.read_register(n))
        return info

gdb.unwinder.register_unwinder(None, Generated())
end
`

// gdbScript prints registers and frames of the thread in which deep was called, or of the one that has most frames. In Go's
// own threads gdb may go on beyond their first function, to any number of frames.
const gdbScript = `python
import gdb
best = (False, [])
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frames = []
    frame = gdb.newest_frame()
    while frame is not None and frame.is_valid() and len(frames) < 255:
        frames.append(frame)
        frame = frame.older()
    pcs = []
    for f in frames:
        if f.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME): # neither is on the stack
            pcs.append(f.pc())
    found = (any("deep" in (f.name() or "") for f in frames), pcs)
    if (found[0], len(pcs)) > (best[0], len(best[1])):
        best, chosen = found, thread
chosen.switch()
names = ["r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "orig_rax", "rip", "cs", "eflags", "rsp", "ss"]
frame = gdb.newest_frame()
print("REGS", *[int(frame.read_register(n)) & 0xffffffffffffffff for n in names])
print("FRAMES", *best[1])
end
`

// compareWithGDB compares the frames of a stopped process whose root folder that is, and returns how many they are.
func compareWithGDB(t *testing.T, pid int, root string) (frames int) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte(gdbGenerated+gdbScript), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "set sysroot "+root, "-p", strconv.Itoa(pid), "-ex", "set backtrace past-main on", "-ex", "set backtrace past-entry on", "-x", script).CombinedOutput()
	if err != nil {
		t.Skipf("%v: %s", err, out)
	}
	regs, want := numbers(string(out), "REGS "), numbers(string(out), "FRAMES ")
	if len(regs) != 21 || len(want) == 0 {
		t.Skipf("gdb: %s", out)
	}
	var data []byte
	for _, v := range regs {
		data = binary.LittleEndian.AppendUint64(data, v)
	}
	data = append(data, make([]byte, 16*bpf.MaxUserReturns)...)
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Skip(err)
	}
	defer memory.Close()
	stack := make([]byte, bpf.MaxUserCopy)
	n, _ := memory.ReadAt(stack, int64(regs[19]))
	symbols := Following(os.DirFS("/"), NumberedOurs, nil, true)
	comm, err := fs.ReadFile(os.DirFS("/"), fmt.Sprintf("proc/%d/comm", pid))
	if err != nil {
		t.Fatal(err)
	}
	e := bpf.Event{PID: uint32(pid), TID: uint32(pid)}
	copy(e.Comm[:], strings.TrimSpace(string(comm)))
	s, short := NewUnwinder(symbols, "amd64").Unwind(&e, bpf.Section{Kind: bpf.SectionUserCopy, Data: append(data, stack[:n]...)})
	var got []uint64
	var lines strings.Builder
	for b := s.Data; len(b) > 0; b = b[8:] {
		f := bpf.UserFrame(binary.LittleEndian.Uint64(b))
		if why, end := f.End(); end {
			fmt.Fprintf(&lines, "  %v\n", unwind.End(why))
			continue
		}
		got = append(got, f.Addr())
		fmt.Fprintf(&lines, "  %s %v\n", symbols.Of(&e, strings.TrimSpace(string(comm))).AppendFrame(nil, f.Addr(), !f.Exact()), unwind.Way(f.Way()))
	}
	// gdb goes on beyond _start and goexit in some programs, to nowhere.
	for len(want) > len(got) && want[len(want)-1] < 1<<12 {
		want = want[:len(want)-1]
	}
	if strings.HasSuffix(t.Name(), "musl") { // gdb has nothing but unwind information, which musl has not
		chain := []string{"kill+", "deep+", "main+", "libc_start_main_stage2+"}
		if len(got) > 10 {
			chain = []string{"kill+", "deep+", "compare+", "qsort_r+", "handler+", "raise+", "raised+", "main+", "libc_start_main_stage2+"}
		}
		rest := lines.String()
		for _, name := range chain {
			_, after, ok := strings.Cut(rest, name)
			if !ok {
				t.Errorf("no %s in its place:\n%s", name, &lines)
			}
			rest = after
		}
		if n := strings.Count(lines.String(), " deep+"); n != 1 && n != 61 {
			t.Errorf("%d times deep:\n%s", n, &lines)
		}
		return len(got)
	}
	if strings.HasSuffix(t.Name(), "Python") {
		names := regexp.MustCompile(`(?m)^  py::(.*)\+0x[0-9a-f]+ \(/tmp/perf-[0-9]+\.map\) cfi$`).FindAllStringSubmatch(lines.String(), -1)
		want := append(slices.Repeat([]string{"deep:/deep.py"}, 61), "called_back:/deep.py", "main:/deep.py", "<module>:/deep.py")
		for i, name := range names {
			if i >= len(want) || name[1] != want[i] {
				t.Errorf("function %d from within is %s", i, name[1])
			}
		}
		if len(names) != len(want) {
			t.Errorf("%d functions in Python, want %d:\n%s", len(names), len(want), &lines)
		}
	}
	if !slices.Equal(got, want) || short {
		same := 0
		for same < min(len(got), len(want)) && got[same] == want[same] {
			same++
		}
		t.Errorf("%d frames, of which the first %d are gdb's; then %#x, want %#x (short: %v)\n%s", len(got), same, got[same:], want[same:], short, &lines)
	}
	return len(got)
}

// numbers returns those behind a word in a line.
func numbers(text, word string) (list []uint64) {
	_, rest, _ := strings.Cut(text, word)
	rest, _, _ = strings.Cut(rest, "\n")
	for _, field := range strings.Fields(rest) {
		if n, err := strconv.ParseUint(field, 10, 64); err == nil {
			list = append(list, n)
		}
	}
	return list
}
