// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
)

// names are the parameters of testScope.
func names(i int) string { return testScope(nil).Params[i].Name }

// The type of an expression, and the term that computes it. C11 6.3.1.1 and
// 6.3.1.8 are the oracle for the types, the layout of testTypes for the rest.
func TestCheckTerms(t *testing.T) {
	for _, tt := range []struct{ text, typ, term string }{
		{"flags", "int", "flags"},
		{"+cpu", "int", "cpu"},
		{"-cpu", "int", "-cpu"},
		{"~count", "long unsigned int", "~count"},
		{"flags + 1u", "unsigned int", "(flags + 1)"},
		{"flags + count", "long unsigned int", "(flags + count)"},
		{"flags - 1l", "long int", "(flags - 1)"},
		{"cpu << count", "int", "(cpu << count)"},
		{"count >> flags", "long unsigned int", "(count >> flags)"},
		{"+(flags < 0)", "int", "(flags < 0)"},
		{"1 + 2 * 3", "int", "7"},
		{"0x7fffffff + 1", "int", "-2147483648"},
		{"0x123456789a >> 4", "long int", "4886718345"},
		{"4294967295 + 1", "long int", "4294967296"},
		{"-1 < 0u || flags", "int", "(flags != 0)"},
		{"sizeof(struct tcp_sock)", "long unsigned int", "80"},
		{"sizeof(sk->dev->name)", "long unsigned int", "16"},
		{"sizeof(*sk)", "long unsigned int", "72"},
		{"sizeof($comm)", "long unsigned int", "16"},
		{"(void *)sk - (void *)buf", "long int", "(sk - buf)"},
		{"sk->data - (void *)8", "long int", "(*(sk+56:8) - 8)"},
		{"(u8)0x1ff", "u8", "255"},
		{"(s8)200 + 0", "int", "-56"},
		{"(bool)count", "_Bool", "(count != 0)"},
		{"(bool)cpu", "_Bool", "(cpu != 0)"},
		{"(unsigned)-1", "unsigned int", "4294967295"},
		{"sk->family", "int", "*(sk+0:4)"},
		{"sk->addr", "u32", "*(sk+4:4)"},
		{"sk->hi", "u16", "*(sk+6:2)"},
		{"sk->tiny", "s8", "*(sk+12:1)"},
		{"sk->state", "enum tcp_state", "*(sk+8:4)"},
		{"(*sk).family", "int", "*(sk+0:4)"},
		{"$arg1->family", "int", "*(sk+0:4)"},
		{"sk->dev->next->flags", "u32", "*(*(*(sk+16:8)+64:8)+24:1)[0:3]"},
		{"sk->dev->mode", "u32", "*(*(sk+16:8)+24:2)[3:7]"},
		{"sk->dev->mode - 1", "int", "(*(*(sk+16:8)+24:2)[3:7] - 1)"},
		{"sk->dev->mode << 1", "int", "(*(*(sk+16:8)+24:2)[3:7] << 1)"},
		{"(u32)sk->dev->mode - 1", "unsigned int", "(*(*(sk+16:8)+24:2)[3:7] - 1)"},
		{"sk->dev->ids[2]", "long int", "*(*(sk+16:8)+48:8)"},
		{"sk->dev->ids[flags]", "long int", "*(((*(sk+16:8) + 32) + (flags * 8))+0:8)"},
		{"sk->dev->name[1]", "char", "*(*(sk+16:8)+1:1)"},
		{"buf[3]", "char", "*((buf + 3)+0:1)"},
		{"*(buf + 1)", "char", "*((buf + 1)+0:1)"},
		{"((struct tcp_sock *)sk)->bytes", "u64", "*(sk+72:8)"},
		{"container_of(sk, struct tcp_sock, sk)->bytes", "u64", "*(sk+72:8)"},
		{"container_of(sk->data, struct tcp_sock, sk.addr)->bytes", "u64", "*((*(sk+56:8) + 18446744073709551612)+72:8)"},
		{"&sk->dev->ids", "long int[4] *", "(*(sk+16:8) + 32)"},
		{"sk->dev - 1", "struct device *", "(*(sk+16:8) - 80)"},
		{"sk->dev - sk->dev->next", "long int", "((*(sk+16:8) - *(*(sk+16:8)+64:8)) / 80)"},
		{"(long)sk->data & 7", "long int", "(*(sk+56:8) & 7)"},
		{"sk->data & 7", "long unsigned int", "(*(sk+56:8) & 7)"},
		{"t.dst", "u32", "t+4"},
		{"t.ports[1]", "u16", "t+14"},
		{"user(sk)->family", "int", "*(sk+0:4)"},
		{"ntohs(sk->lo)", "short unsigned int", "swap16(*(sk+4:2))"},
		{"ntohl(0x01020304)", "unsigned int", "67305985"},
		{"EINVAL", "int", "22"},
		{"-ENOTSUPP", "int", "-524"},
		{"AF_INET", "int", "2"},
		{"TCP_LISTEN", "int", "10"},
		{"WIDE_TOP", "long unsigned int", "9223372036854775808"},
		{"WIDE_U32", "unsigned int", "4294967295"},
		{"WIDE_ALL", "long unsigned int", "18446744073709551615"},
		{"WIDE_MASK", "long unsigned int", "18446744073709551360"},
		{"NULL", "void *", "0"},
		{"true", "int", "1"},
		{"10ms", "long int", "10000000"},
		{"cpu", "u8", "cpu"}, // the parameter, not $cpu
		{"$cpu", "unsigned int", "$cpu"},
		{"$time", "long unsigned int", "$time"},
		{"$task", "struct task_struct *", "$task"},
		{"$task->flags & 2", "unsigned int", "(*($task+8:4) & 2)"},
		{"entry(flags)", "int", "flags"},
		{"return", "long int", "return"},
	} {
		items, err := check("send("+tt.text+")", typeLong)
		if err != nil {
			t.Errorf("%s:\n%v", tt.text, err)
			continue
		}
		term := items[0].Predicate
		if term == nil {
			term = items[0].Captures[0].Value
		}
		if got := typeName(term.Type()); got != tt.typ {
			t.Errorf("%s has type %s, want %s", tt.text, got, tt.typ)
		}
		if got := FormatTerm(term, names); got != tt.term {
			t.Errorf("%s is %s, want %s", tt.text, got, tt.term)
		}
	}
}

// What an item is, when it is decided, and what it shows.
func TestCheckItems(t *testing.T) {
	type item struct {
		predicate bool
		phase     Phase
		captures  string
	}
	for _, tt := range []struct {
		text string
		want item
	}{
		{"flags", item{false, AtEntry, "flags"}},
		{"flags == 1", item{true, AtEntry, "flags"}},
		{"flags == flags", item{true, AtEntry, "flags"}},
		{"!flags", item{true, AtEntry, "flags"}},
		{"!(flags & 4)", item{true, AtEntry, "flags & 4"}},
		{"flags & 4", item{false, AtEntry, "flags & 4"}},
		{"flags && sk->family == 2", item{true, AtEntry, "flags, sk->family"}},
		{"(flags > count)", item{true, AtEntry, "flags, count"}},
		{"sk == NULL", item{true, AtEntry, "sk"}},
		{"sk->state == TCP_LISTEN", item{true, AtEntry, "sk->state"}},
		{"TCP_LISTEN == sk->state", item{true, AtEntry, "sk->state"}},
		{"return", item{false, AtReturn, "return@return"}},
		{"return < 0", item{true, AtReturn, "return@return"}},
		{"return < count", item{true, AtReturn, "return@return, count"}},
		{"sk->family && return", item{true, AtReturn, "sk->family, return@return"}},
		{"exit(sk->family)", item{false, AtReturn, "exit(sk->family)@return"}},
		{"exit(sk->dev->flags) == 1", item{true, AtReturn, "exit(sk->dev->flags)@return"}},
		{"entry(sk->family) != exit(sk->family)", item{true, AtReturn, "entry(sk->family), exit(sk->family)@return"}},
		{"$duration > 10ms", item{true, AtReturn, "$duration@return"}},
		{"$pid == 1", item{true, AtEntry, "$pid"}},
		{"diff(sk->family)", item{false, AtEntry, "diff(sk->family)±"}},
		{"exit(sk)", item{false, AtReturn, "exit(sk)=@return"}},
		{"*exit(sk)", item{false, AtReturn, "*exit(sk)=@return"}},
		{"exit(sk)->family == 2", item{true, AtReturn, "exit(sk)->family@return"}},
		{"exit(buf)", item{false, AtReturn, "exit(buf)=@return"}},
		{"exit(count)", item{false, AtReturn, "exit(count)@return"}},
		{"exit(count) == 3", item{true, AtReturn, "exit(count)@return"}},
		{"exit($cpu) != entry($cpu)", item{true, AtReturn, "exit($cpu)@return, entry($cpu)"}},
		{`exit($comm) == "ping"`, item{true, AtReturn, "exit($comm)=@return"}},
		{"diff($comm)", item{false, AtEntry, "diff($comm)±"}},
		{"exit($time)", item{false, AtReturn, "exit($time)@return"}},
		{"exit(t)", item{false, AtEntry, "exit(t)="}},
		{`$comm == "ping"`, item{true, AtEntry, "$comm="}},
		{`sk->dev->name ~ "eth*"`, item{true, AtEntry, "sk->dev->name="}},
		{`"lo" != sk->dev->alias`, item{true, AtEntry, "sk->dev->alias="}},
		{"sk", item{false, AtEntry, "sk="}},
		{"*sk", item{false, AtEntry, "*sk="}},
		{"sk->dev", item{false, AtEntry, "sk->dev="}},
		{"sk->dev->name", item{false, AtEntry, "sk->dev->name="}},
		{"t", item{false, AtEntry, "t="}},
		{"sk->ratio", item{false, AtEntry, "sk->ratio="}},
		{"sk->big", item{false, AtEntry, "sk->big="}},
		{"sk->data", item{false, AtEntry, "sk->data"}},
		{"str(buf)", item{false, AtEntry, "str(buf)="}},
		{"buf(sk->data, count)", item{false, AtEntry, "buf(sk->data, count)="}},
		{"hex(flags)", item{false, AtEntry, "hex(flags)"}},
	} {
		items, err := check("send("+tt.text+")", typeLong)
		if err != nil {
			t.Errorf("%s:\n%v", tt.text, err)
			continue
		}
		it := items[0]
		var shown []string
		for _, c := range it.Captures {
			s := c.Label
			if c.Target != nil {
				s += "="
			}
			if c.After != nil {
				s = strings.TrimSuffix(s, "=") + "±"
			}
			if c.Phase() == AtReturn {
				s += "@return"
			}
			shown = append(shown, s)
		}
		phase := it.Phase
		if it.Predicate == nil {
			phase = it.Captures[0].Phase()
		}
		got := item{it.Predicate != nil, phase, strings.Join(shown, ", ")}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.text, got, tt.want)
		}
	}
}

// Without parentheses: everything. With empty ones: nothing.
func TestCheckEverything(t *testing.T) {
	items, err := check("send", typeInt)
	if err != nil {
		t.Fatal(err)
	}
	var labels []string
	for _, it := range items {
		labels = append(labels, it.Captures[0].Label)
	}
	if diff := cmp.Diff([]string{"sk", "buf", "count", "flags", "cpu", "t", "return"}, labels); diff != "" {
		t.Error(diff)
	}
	if items, err := check("send()", typeInt); err != nil || len(items) != 0 {
		t.Errorf("send(): %d items, %v", len(items), err)
	}
}

// fakeMachine has one page of memory at 0x1000 of a kernel's upper half.
type fakeMachine struct {
	args   []uint64
	result uint64
	memory []byte
	comm   string
}

const fakeBase = 0xffff_8000_0000_0000

func (m *fakeMachine) Arg(i int, off uint32, p []byte) {
	b := binary.LittleEndian.AppendUint64(nil, m.args[i])
	copy(p, append(b, b...)[off:])
}
func (m *fakeMachine) Result(off uint32, p []byte) {
	copy(p, binary.LittleEndian.AppendUint64(nil, m.result)[off:])
}

func (m *fakeMachine) Context(v ContextVar, at Phase) uint64 {
	return 100 + uint64(v) + 100*uint64(at)
}

func (m *fakeMachine) Comm(at Phase) string {
	if at == AtReturn {
		return m.comm + "ed"
	}
	return m.comm
}
func (m *fakeMachine) Kept(int) (uint64, error) { return 0, nil }
func (m *fakeMachine) Read(space Space, at Phase, addr uint64, p []byte) bool {
	off := addr - fakeBase
	if space != Kernel || off > uint64(len(m.memory)) || uint64(len(p)) > uint64(len(m.memory))-off {
		return false
	}
	copy(p, m.memory[off:])
	return true
}

// evaluate computes the first item of a SPEC of testScope.
func evaluate(t *testing.T, text string, result btf.Type, m Machine) (uint64, error) {
	t.Helper()
	items, err := check("send("+text+")", result)
	if err != nil {
		t.Fatalf("%s:\n%v", text, err)
	}
	term := items[0].Predicate
	if term == nil {
		term = items[0].Captures[0].Value
	}
	return Eval(term, m)
}

// The traps into which tools of this kind have fallen, each with what C says.
func TestTraps(t *testing.T) {
	s8 := &btf.Int{Name: "signed char", Size: 1, Encoding: btf.Signed}
	const minus1 = 1<<64 - 1
	m := func(result uint64, args ...uint64) *fakeMachine {
		memory := make([]byte, 4096)
		binary.LittleEndian.PutUint64(memory[16:], fakeBase+1024) // sk->dev
		binary.LittleEndian.PutUint32(memory[4:], 0x80020001)     // sk->addr, of which lo and hi are halves
		copy(memory[1024:], "eth0")                               // sk->dev->name
		memory[1024+24] = 0xfd                                    // sk->dev->flags 5, mode 31 and more
		memory[1024+25] = 0xff
		for len(args) < 6 {
			args = append(args, 0)
		}
		return &fakeMachine{args: args, result: result, memory: memory, comm: "ping"}
	}
	for _, tt := range []struct {
		name   string
		text   string
		result btf.Type
		m      *fakeMachine
		want   uint64
		err    error
	}{
		{"negative int, register not extended", "return < 0", typeInt, m(0xffff_ffff), 1, nil},
		{"negative int, register extended", "return < 0", typeInt, m(minus1), 1, nil},
		{"positive int under garbage", "return < 0", typeInt, m(0xffffffff_00000001), 0, nil},
		{"negative long", "return < 0", typeLong, m(minus1), 1, nil},
		{"long with bit 31", "return < 0", typeLong, m(0x80000000), 0, nil},
		{"negative s8 under garbage", "return < 0", s8, m(0x1234_80), 1, nil},
		{"positive s8 under garbage", "return < 0", s8, m(0xffff_7f), 0, nil},
		{"bool is never negative", "return < 0", typeBool, m(0xffffff01), 0, nil},
		{"bool under garbage", "return == 1", typeBool, m(0xffffff01), 1, nil},
		{"errno of an int", "return == -EINVAL", typeInt, m(0xffff_ffea), 1, nil},
		{"unsigned against negative int", "count > -1", typeInt, m(0, 0, 0, 5), 0, nil},
		{"unsigned against negative long", "count == -1", typeInt, m(0, 0, 0, minus1), 1, nil},
		{"u8 against negative", "cpu > -1", typeInt, m(0, 0, 0, 0, 0, 0xffffff05), 1, nil},
		{"u32 against negative", "sk->addr > -1", typeInt, m(0, fakeBase), 0, nil},
		{"& binds less than ==", "(flags & 4 == 4) == 0", typeInt, m(0, 0, 0, 0, 4), 1, nil},
		{"& in parentheses", "(flags & 4) == 4", typeInt, m(0, 0, 0, 0, 4), 1, nil},
		{"64-bit constant", "count == 0x123456789a", typeInt, m(0, 0, 0, 0x123456789a), 1, nil},
		{"64-bit constant, low half alone", "count == 0x123456789a", typeInt, m(0, 0, 0, 0x3456789a), 0, nil},
		{"0x100000040 is not 64", "count == 0x100000040", typeInt, m(0, 0, 0, 64), 0, nil},
		{"pointer is NULL", "sk == NULL", typeInt, m(0, 0), 1, nil},
		{"pointer is not NULL", "sk != NULL", typeInt, m(0, fakeBase), 1, nil},
		{"pointer as truth", "!sk", typeInt, m(0, 0), 1, nil},
		{"error pointer is not NULL", "sk == NULL", typeInt, m(0, minus1-1), 0, nil},
		{"&& does not read on", "sk && sk->family == 2", typeInt, m(0, 0), 0, nil},
		{"|| does not read on", "!sk || sk->family == 2", typeInt, m(0, 0), 1, nil},
		{"&& reads on", "sk && sk->family == 2", typeInt, m(0, 1), 0, ErrUnreadable},
		{"NULL", "sk->family == 0", typeInt, m(0, 0), 0, ErrUnreadable},
		{"NULL is no match of anything", "sk->family != 2", typeInt, m(0, 0), 0, ErrUnreadable},
		{"error pointer", "sk->family == 0", typeInt, m(0, minus1-11), 0, ErrUnreadable},
		{"user address", "sk->family == 0", typeInt, m(0, 0x7ffc_0000_1000), 0, ErrUnreadable},
		{"not mapped", "sk->family == 0", typeInt, m(0, fakeBase+4094), 0, ErrUnreadable},
		{"parameter called cpu", "cpu == 3", typeInt, m(0, 0, 0, 0, 0, 3), 1, nil},
		{"context value cpu", "$cpu == 103", typeInt, m(0, 0, 0, 0, 0, 3), 1, nil},
		{"anonymous union", "sk->addr == 0x80020001", typeInt, m(0, fakeBase), 1, nil},
		{"struct in anonymous union", "sk->hi == 0x8002", typeInt, m(0, fakeBase), 1, nil},
		{"bitfield alone", "sk->dev->flags == 5", typeInt, m(0, fakeBase), 1, nil},
		{"narrow bitfield is an int", "sk->dev->flags - 6 < 0", typeInt, m(0, fakeBase), 1, nil},
		{"narrow bitfield by value", "t.bit - 31 < 0", typeInt, m(0, 0, 0, 0, 0, 0, 0), 1, nil},
		{"narrow bitfield by value, at return", "exit(t.bit) - 31 < 0", typeInt, m(0, 0, 0, 0, 0, 0, 0), 1, nil},
		{"its cast is unsigned", "(unsigned)exit(t.bit) - 31 < 0", typeInt, m(0, 0, 0, 0, 0, 0, 0), 0, nil},
		{"bitfield of memory, at return", "-exit(sk->dev->flags) < 0", typeInt, m(0, fakeBase), 1, nil},
		{"char array", `sk->dev->name == "eth0"`, typeInt, m(0, fakeBase), 1, nil},
		{"char array, longer text", `sk->dev->name == "eth01"`, typeInt, m(0, fakeBase), 0, nil},
		{"glob", `sk->dev->name ~ "e?h*"`, typeInt, m(0, fakeBase), 1, nil},
		{"comm", `$comm == "ping" && $comm != "pin"`, typeInt, m(0), 1, nil},
		{"comm at return", `exit($comm) == "pinged" && entry($comm) == "ping"`, typeInt, m(0), 1, nil},
		{"context value at return", "exit($cpu) == 203 && $cpu == 103 && exit($pid) == 200", typeInt, m(0), 1, nil},
		{"parameter at return", "exit(count) == 7 && exit(sk) == sk", typeInt, m(0, 9, 0, 7), 1, nil},
		{"string through NULL", `str(buf) == ""`, typeInt, m(0), 0, ErrUnreadable},
		{"division by zero", "1 / flags == 0", typeInt, m(0), 0, ErrDivide},
		{"remainder by zero", "count % flags == 0", typeInt, m(0), 0, ErrDivide},
		{"division by a constant zero", "1 / 0", typeInt, m(0), 0, ErrDivide},
		{"&& keeps from dividing", "flags && 1 / flags", typeInt, m(0), 0, nil},
		{"shift by the width", "1 << 32", typeInt, m(0), 1, nil},
		{"shift by 65", "count << 65", typeInt, m(0, 0, 0, 3), 6, nil},
		{"shift by -1", "1 << -1", typeInt, m(0), 0xffffffff_80000000, nil},
		{"smallest int by -1", "+((flags - 1) / -1)", typeInt, m(0, 0, 0, 0, 0x80000001), 0xffffffff_80000000, nil},
		{"int wraps", "flags + 1 < 0", typeInt, m(0, 0, 0, 0, 0x7fffffff), 1, nil},
		{"enumerators of the other operand", "(enum light)flags == GREEN", typeInt, m(0, 0, 0, 0, 0xfffffff9), 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v, err := evaluate(t, tt.text, tt.result, tt.m)
			if !errors.Is(err, tt.err) || err == nil && v != tt.want {
				t.Errorf("%s = %#x, %v, want %#x, %v", tt.text, v, err, tt.want, tt.err)
			}
		})
	}
}

// A bitfield of more than 57 bits may lie in 9 bytes; gcc has f of
// struct { u8 e : 3; u64 f : 62; } there, packed, with these values.
func TestWideBitfield(t *testing.T) {
	m := &fakeMachine{memory: []byte{0x0d, 0x19, 0x2a, 0x3b, 0x4c, 0x5d, 0x6e, 0x7f, 0x01}}
	for _, tt := range []struct {
		t    btf.Type
		want uint64
	}{{typeUlong, 0x2fedcba987654321}, {typeLong, 0xefedcba987654321}} {
		load := &Load{T: tt.t, Addr: &Const{typeUlong, fakeBase}, Width: 9, Bits: Bits{3, 62}}
		if got, err := Eval(load, m); err != nil || got != tt.want {
			t.Errorf("%#x, %v, want %#x", got, err, tt.want)
		}
	}
}

// TestUntypedArguments: of a function without types, the arguments in registers are known. It may have others. A system call has none.
func TestUntypedArguments(t *testing.T) {
	for _, tt := range []struct {
		user  bool
		base  Term
		parts []string
	}{
		{true, nil, []string{"only the arguments in registers are: $arg1 to $arg2", "others would be on the stack, and only the debug info of C (gcc -g) tells where"}},
		{true, &Const{T: typeUlong}, []string{"only the arguments in registers are: $arg1 to $arg2"}},
		{false, nil, []string{"only the arguments in registers are: $arg1 to $arg2"}},
		{false, &Const{T: typeUlong}, []string{"send has 2 parameters, not 3"}},
	} {
		scope := testScope(typeInt)
		scope.Untyped, scope.User = true, tt.user
		scope.Params = []Param{{Type: typeLong, Base: tt.base}, {Type: typeLong, Base: tt.base}, {Name: "$di", Type: typeLong}}
		spec, err := Parse("send($arg3)")
		if err != nil {
			t.Fatal(err)
		}
		_, err = Check(spec, scope)
		for _, part := range tt.parts {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%+v: %v", tt, err)
			}
		}
	}
}

// TestArgumentNumbers: registers are declared behind the parameters, and have no number.
func TestArgumentNumbers(t *testing.T) {
	scope := testScope(typeInt)
	scope.Params = []Param{{Type: typeLong}, {Type: typeLong}, {Name: "$di", Type: typeLong}, {Name: "$sp", Type: typeLong}}
	for text, want := range map[string]string{"send($arg2, $sp)": "", "send($arg3)": "send has 2 parameters, not 3"} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = Check(spec, scope); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestLocatedArrays: the kernel's __string() is __dynamic_array(char); a string ends at its NUL. Those of unsigned
// char and u8 are filled by memcpy() in scsi, nfsd, 9p and dlm: their length is in the field.
func TestLocatedArrays(t *testing.T) {
	uchar := &btf.Int{Name: "unsigned char", Size: 1}
	for _, tt := range []struct {
		name string
		t    btf.Type
		text bool
	}{{"char", typeChar, true}, {"const char", &btf.Const{Type: typeChar}, true}, {"unsigned char", uchar, false}, {"const unsigned char", &btf.Const{Type: uchar}, false},
		{"u8", testU8, false}, {"unsigned long", typeUlong, false}} {
		for _, form := range []Form{Located, RelLocated} {
			scope := &Scope{Func: "tp", Point: true, Types: noTypes{}, Params: []Param{{Name: "x", Type: tt.t, Base: &ContextTerm{T: pointerTo(typeVoid), Var: ContextRecord}, Off: 8, Form: form}}}
			spec, err := Parse("tp(x)")
			if err != nil {
				t.Fatal(err)
			}
			items, err := Check(spec, scope)
			if err != nil {
				t.Fatal(err)
			}
			if _, text := items[0].Captures[0].Target.(*Text); text != tt.text {
				t.Errorf("%s[]: captured as a string: %t", tt.name, text)
			}
		}
	}
}
