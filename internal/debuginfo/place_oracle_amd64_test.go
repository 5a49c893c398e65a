// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// placeBuilds are the ways in which the program of testdata/places is made. Like
// a kernel, it has no frame pointers and unwind information for debuggers only.
var placeBuilds = []string{
	"gcc -O2 -g -no-pie -fno-asynchronous-unwind-tables", "gcc -O2 -g -gdwarf-4 -no-pie -fno-asynchronous-unwind-tables",
	"gcc -Os -g -no-pie -fno-asynchronous-unwind-tables", "gcc -O1 -g -no-pie -fno-asynchronous-unwind-tables",
	"gcc -O2 -g -no-pie -fno-omit-frame-pointer", "gcc -O2 -g -no-pie -flto -fno-asynchronous-unwind-tables",
	"clang -O2 -g -no-pie", "clang -O1 -g -gdwarf-4 -no-pie",
}

// TestPlacesEqualProgram stops a program wherever inlined code begins, and
// compares the values of the parameters with what the program says itself.
func TestPlacesEqualProgram(t *testing.T) {
	for _, build := range placeBuilds {
		t.Run(build, func(t *testing.T) {
			args := strings.Fields(build)
			if _, err := exec.LookPath(args[0]); err != nil {
				t.Skip(err)
			}
			file := filepath.Join(t.TempDir(), "places")
			args = append(args, "-o", file, "testdata/places/main.c")
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			info, err := Open(file, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer info.Close()
			places := map[uint64][]Inlining{}
			for _, at := range info.InlinedNamed(func([]byte) bool { return true }) {
				if at.Addr != 0 {
					places[at.Addr] = append(places[at.Addr], at)
				}
			}
			comparePlaces(t, stopAt(t, file, places), file, strings.Contains(build, "-flto"))
		})
	}
}

// comparePlaces compares function by function: the compiler may let another
// begin before one has said what it was called with.
func comparePlaces(t *testing.T, got map[string][]string, file string, lto bool) {
	t.Helper()
	out, err := exec.Command(file).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		name, values, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[name] = append(want[name], values)
	}
	delete(want, "end")
	known, all := 0, 0
	for name, calls := range want {
		if len(got[name]) != len(calls) {
			t.Errorf("%s is called %d times, and was seen %d times", name, len(calls), len(got[name]))
			continue
		}
		for i, call := range calls {
			seen := strings.Fields(got[name][i])
			for n, value := range strings.Fields(call) {
				if all++; seen[n] == "?" {
					continue
				}
				if known++; seen[n] != value && !address(name, n) {
					t.Errorf("call %d of %s(%s) was seen as %s", i, name, call, got[name][i])
				}
			}
		}
	}
	t.Logf("%d of %d values are known", known, all)
	least := all * 3 / 4
	if lto { // gcc then forgets half of them
		least = all / 3
	}
	if len(want) < 6 || known < least {
		t.Errorf("of %d functions %d of %d values are known", len(want), known, all)
	}
}

// address reports whether a parameter is an address of the stack, which differs
// from run to run.
func address(function string, param int) bool { return function == "pointed" && param < 2 }

// stopAt runs a program and returns for each function with which values it was
// seen to be called.
func stopAt(t *testing.T, file string, places map[uint64][]Inlining) map[string][]string {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	process, err := os.StartProcess(file, []string{file}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true}})
	if errors.Is(err, syscall.EPERM) {
		t.Skip("processes cannot be traced here")
	}
	if err != nil {
		t.Fatal(err)
	}
	s := stopper{t: t, pid: process.Pid, code: map[uint64][]byte{}}
	if !s.wait() {
		t.Fatal("the program did not start")
	}
	for addr := range places {
		code := make([]byte, 1)
		s.check(syscall.PtracePeekData(s.pid, uintptr(addr), code))
		s.code[addr] = code
		s.stop(addr)
	}
	seen := map[string][]string{}
	for {
		s.check(0, syscall.PtraceCont(s.pid, 0))
		if !s.wait() {
			return seen
		}
		s.check(0, syscall.PtraceGetRegs(s.pid, &s.regs))
		s.regs.Rip-- // behind the instruction that stops
		for _, at := range places[s.regs.Rip] {
			seen[at.Func] = append(seen[at.Func], s.values(at))
		}
		s.pass()
	}
}

// A stopper controls a process.
type stopper struct {
	t    *testing.T
	pid  int
	code map[uint64][]byte // what was where it stops
	regs syscall.PtraceRegs
}

func (s *stopper) check(_ int, err error) {
	if s.t.Helper(); err != nil {
		s.t.Fatal(err)
	}
}

// wait waits until the process stops; it reports false if it ends.
func (s *stopper) wait() bool {
	var status syscall.WaitStatus
	_, err := syscall.Wait4(s.pid, &status, 0, nil)
	s.check(0, err)
	if status.Stopped() && status.StopSignal() != syscall.SIGTRAP {
		s.t.Fatalf("the program was stopped by %v at %#x", status.StopSignal(), s.regs.Rip)
	}
	return status.Stopped()
}

// stop makes the process stop at an address.
func (s *stopper) stop(addr uint64) {
	s.check(syscall.PtracePokeData(s.pid, uintptr(addr), []byte{0xcc}))
}

// pass lets the process go past the place where it has stopped.
func (s *stopper) pass() {
	addr := s.regs.Rip
	s.check(syscall.PtracePokeData(s.pid, uintptr(addr), s.code[addr]))
	s.check(0, syscall.PtraceSetRegs(s.pid, &s.regs))
	s.check(0, syscall.PtraceSingleStep(s.pid))
	if !s.wait() {
		s.t.Fatal("the program ended in a step")
	}
	s.stop(addr)
}

// values returns what the parameters of a function are.
func (s *stopper) values(at Inlining) string {
	var texts []string
	for _, p := range at.Params {
		if len(p.Place.Ops) == 0 {
			texts = append(texts, "?")
			continue
		}
		v := s.evaluate(p.Place.Ops)
		if p.Place.Memory {
			v = s.load(v, uint64(p.Type.Size))
		}
		v = low(v, uint64(p.Type.Size), p.Type.Signed)
		texts = append(texts, fmt.Sprint(int64(v)))
	}
	return strings.Join(texts, " ")
}

func (s *stopper) load(addr, size uint64) uint64 {
	var b [8]byte
	s.check(syscall.PtracePeekData(s.pid, uintptr(addr), b[:size]))
	return binary.LittleEndian.Uint64(b[:])
}

// low is the low bytes of a number.
func low(v, size uint64, signed bool) uint64 {
	shift := 64 - 8*size
	if signed {
		return uint64(int64(v<<shift) >> shift)
	}
	return v << shift >> shift
}

func (s *stopper) evaluate(ops []Op) uint64 {
	r := &s.regs
	registers := []uint64{r.Rax, r.Rdx, r.Rcx, r.Rbx, r.Rsi, r.Rdi, r.Rbp, r.Rsp, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15}
	var stack []uint64
	for _, op := range ops {
		switch op.Code {
		case OpConst:
			stack = append(stack, op.N)
			continue
		case OpRegister:
			stack = append(stack, registers[op.N])
			continue
		}
		top := &stack[len(stack)-1]
		switch op.Code {
		case OpLoad:
			*top = s.load(*top, op.N)
			continue
		case OpExtend, OpExtendS:
			*top = low(*top, op.N, op.Code == OpExtendS)
			continue
		case OpNeg:
			*top = -*top
			continue
		case OpNot:
			*top = ^*top
			continue
		}
		y := *top
		stack = stack[:len(stack)-1]
		x := &stack[len(stack)-1]
		*x = map[OpCode]func() uint64{
			OpAdd: func() uint64 { return *x + y }, OpSub: func() uint64 { return *x - y }, OpMul: func() uint64 { return *x * y },
			OpAnd: func() uint64 { return *x & y }, OpOr: func() uint64 { return *x | y }, OpXor: func() uint64 { return *x ^ y },
			OpShl: func() uint64 { return *x << y }, OpShr: func() uint64 { return *x >> y }, OpSar: func() uint64 { return uint64(int64(*x) >> y) },
		}[op.Code]()
	}
	return stack[0]
}
