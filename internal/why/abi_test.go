// SPDX-License-Identifier: Apache-2.0

package why

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/expr"
)

// A stopped is a task at the end of a system call.
type stopped struct {
	expr.Machine // nothing else is read
	ret          uint64
	regs         map[string]uint64
	status       uint32 // of thread_info
}

const (
	regsAddr = 0x10000
	taskAddr = 0x20000
)

func (s stopped) Arg(index int, off uint32, p []byte) {
	value := s.ret
	if index == 0 {
		value = regsAddr
	}
	copy(p, binary.LittleEndian.AppendUint64(nil, value)[off:])
}

func (s stopped) Result(off uint32, p []byte) {
	copy(p, binary.LittleEndian.AppendUint64(nil, s.ret)[off:])
}

func (s stopped) Context(expr.ContextVar, expr.Phase) uint64 { return taskAddr }

func (s stopped) Read(_ expr.Space, _ expr.Phase, addr uint64, p []byte) bool {
	memory := binary.LittleEndian.AppendUint32(nil, s.status)
	at := addr - taskAddr
	if addr < taskAddr {
		memory, at = nil, addr-regsAddr
		for _, name := range regNames {
			memory = binary.LittleEndian.AppendUint64(memory, s.regs[name])
		}
	}
	return copy(p, memory[at:]) == len(p)
}

var regNames = strings.Fields("orig_ax bx cx dx si di bp r8 r9 r10 ip")

// x86Types are the types of the kernel's that the SPECs name.
type x86Types struct{ task, regs, iovec btf.Type }

func newX86Types() *x86Types {
	u32, u64 := &btf.Int{Name: "unsigned int", Size: 4}, &btf.Int{Name: "unsigned long", Size: 8}
	regs := &btf.Struct{Name: "pt_regs", Size: uint32(8 * len(regNames))}
	for i, name := range regNames {
		regs.Members = append(regs.Members, btf.Member{Name: name, Type: u64, Offset: btf.Bits(64 * i)})
	}
	info := &btf.Struct{Name: "thread_info", Size: 4, Members: []btf.Member{{Name: "status", Type: u32}}}
	return &x86Types{
		task:  &btf.Struct{Name: "task_struct", Size: 4, Members: []btf.Member{{Name: "thread_info", Type: info}}},
		regs:  regs,
		iovec: &btf.Struct{Name: "iovec", Size: 16, Members: []btf.Member{{Name: "iov_base", Type: &btf.Pointer{Target: &btf.Void{}}}, {Name: "iov_len", Type: u64, Offset: 64}}},
	}
}

func (x *x86Types) TypesByName(spelling string) ([]btf.Type, error) {
	for _, t := range []btf.Type{x.task, x.regs, x.iovec} {
		if spelling == "struct "+t.TypeName() {
			return []btf.Type{t}, nil
		}
	}
	return nil, nil
}

func (x *x86Types) Enumerators(string) ([]expr.Enumerator, error) { return nil, nil }

// holds reports whether a SPEC records a task where it has stopped.
func (x *x86Types) holds(t *testing.T, text string, s stopped) bool {
	t.Helper()
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatalf("%s:\n%v", text, err)
	}
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	items, err := expr.Check(spec, &expr.Scope{Func: "sys", Point: true, Params: []expr.Param{{Name: "regs", Type: &btf.Pointer{Target: x.regs}}, {Name: "ret", Type: long}}, Types: x})
	if err != nil {
		t.Fatalf("%s:\n%v", text, err)
	}
	for _, item := range items {
		if item.Predicate == nil {
			continue
		}
		if v, err := expr.Eval(item.Predicate, s); err != nil || v == 0 {
			return false
		}
	}
	return true
}

// TestCallSpecs: 32-bit system calls that fail and those of x32 are recorded, as far as their numbers are those of system calls.
func TestCallSpecs(t *testing.T) {
	a := abis["amd64"]
	failing, _ := a.failing(0)
	minus := func(e unix.Errno) uint64 { return -uint64(e) }
	for _, c := range []struct {
		number, ret uint64
		want        bool
	}{
		{328, minus(unix.EINVAL), true}, {328, 7, false}, {1<<30 | 290, minus(unix.ENOSYS), true}, {1 << 20, minus(unix.ENOSYS), false}, {1<<30 | 1<<20, minus(unix.ENOSYS), false},
		{1<<31 | 290, minus(unix.ENOSYS), false}, {^uint64(0), minus(unix.EPERM), false}, {290, ^uint64(4095), false},
	} {
		if got := newX86Types().holds(t, failing, stopped{ret: c.ret, regs: map[string]uint64{"orig_ax": c.number}}); got != c.want {
			t.Errorf("%#x = %d: recorded: %t", c.number, int64(c.ret), got)
		}
	}
}

// TestMessageSpecs: what 32-bit programs write to standard error is known by the functions that serve them, their registers and
// the kernel's state, which only tells on arm64. Upper halves of registers are not part of a 32-bit call
// (arch/x86/entry/syscall_32.c). A call that writes nothing tells nothing.
func TestMessageSpecs(t *testing.T) {
	a := abis["amd64"]
	closed := ^uint64(unix.EBADF - 1)
	for _, c := range []struct {
		name   string
		narrow bool
		regs   map[string]uint64
		status uint32
		ret    uint64
		want   bool
	}{
		{"64 bits", false, map[string]uint64{"di": 2}, 0, 5, true},
		{"another file", false, map[string]uint64{"di": 1}, 0, 5, false},
		{"of a 32-bit call", false, map[string]uint64{"di": 2}, 2, 5, false},
		{"nothing", false, map[string]uint64{"di": 2}, 0, 0, false},
		{"a closed file", false, map[string]uint64{"di": 2}, 0, closed, true},
		{"32 bits", true, map[string]uint64{"bx": 2}, 2, 5, true},
		{"32 bits, upper half", true, map[string]uint64{"bx": 7<<32 | 2}, 2, 5, true},
		{"another file of 32 bits", true, map[string]uint64{"bx": 1}, 2, 5, false},
		{"another bit of status", true, map[string]uint64{"bx": 2}, 4, 5, false},
	} {
		for _, spec := range newWriting(&a, c.narrow).specs() {
			w := newWriter(t, c.narrow)
			w.regs, w.status, w.ret = c.regs, c.status, c.ret
			if got := w.check(spec); got != c.want {
				t.Errorf("%s: recorded: %t by %s", c.name, got, spec)
			}
		}
	}
}

// TestForeign: what kind of call one is says the kernel: TS_COMPAT (0x2 in arch/x86/include/asm/thread_info.h), and the mode
// of the processor in pstate on arm64 (compat_user_mode in asm/ptrace.h). The other bit of status is TS_I386_REGS_POKED.
func TestForeign(t *testing.T) {
	for _, c := range []struct {
		arch          string
		number, state uint64
		want          foreignCall
	}{
		{"amd64", 290, 0, ""}, {"amd64", 290, 4, ""}, {"amd64", 328, 2, call32}, {"amd64", 328, 6, call32}, {"amd64", 1<<30 | 290, 0, callX32},
		{"arm64", 19, 0x80001000, ""}, {"arm64", 356, 0x60000010, call32}, {"arm64", 1 << 30, 0, ""},
	} {
		a := abis[c.arch]
		if got := a.foreign(c.number, c.state); got != c.want {
			t.Errorf("%s, %#x, %#x: %q, want %q", c.arch, c.number, c.state, got, c.want)
		}
	}
}

// TestForeignFailure: a call of another table than the kernel's own has its number, and no name by which it would be chosen.
func TestForeignFailure(t *testing.T) {
	f := Failure{Number: 328, foreign: call32, Args: [words]uint64{0, 0xdead, 7}, Errno: uint64(unix.EINVAL)}
	x32 := Failure{Number: 1<<30 | 290, foreign: callX32, Errno: uint64(unix.EINVAL)}
	open, stat := Failure{Number: 5, foreign: call32, Errno: uint64(unix.ENOENT)}, Failure{Number: 5, Errno: uint64(unix.ENOENT)}
	own := Failure{Number: 290, Function: "__x64_sys_eventfd2"}
	for got, want := range map[string]string{
		f.String(): "32-bit system call 328(0, 0xdead, 7, 0, 0, 0) = -EINVAL", x32.Name(): "x32 system call 290", own.Name(): "eventfd2",
		f.Unsearched():   "the call is a 32-bit system call: the function that refuses one is not looked for",
		x32.Unsearched(): "the call is an x32 system call: the function that refuses one is not looked for",
		fmt.Sprint(expected(&open), expected(&stat)):   "true false",
		fmt.Sprint(expected(&f), own.Unsearched()):     "false ",
		fmt.Sprint(Wish{Syscall: "eventfd2"}.fits(&f)): "false",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
