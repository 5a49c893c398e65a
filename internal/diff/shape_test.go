// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/jsonlines"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/layout"
)

// TestArgumentsAsJSON: the arguments of real sessions have the values that their JSON has, which is made in another way.
func TestArgumentsAsJSON(t *testing.T) {
	for _, name := range []string{"../../cmd/ksnoop/testdata/pairs/6.12/same1.ks", "../../cmd/ksnoop/testdata/pairs/7.3/same1.ks"} {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		rec, err := record.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		run := output.Run{Plan: rec.Plan(), Kernel: rec.Kernel()}
		r, json := newReader(run, NewNames(), NewIgnore(nil, true), true), jsonlines.New(run, false)
		compared := 0
		d := session.Decoder{Plan: run.Plan, Traced: true}
		for s, err := range d.Sessions(rec.Records()) {
			if err != nil {
				t.Fatal(err)
			}
			if s.State == session.Missing {
				continue
			}
			text, err := json.AppendSession(nil, s)
			if err != nil {
				t.Fatal(err)
			}
			line := text[strings.LastIndexByte(strings.TrimSpace(string(text)), '\n')+1:]
			i := 0
			for step := range elements(member(line, "trace")) {
				want, got := &Call{Func: s.Trace[i].Func.Name}, &Call{Func: s.Trace[i].Func.Name}
				r.values(want, member(step, "args"), false)
				if err := r.captured(got, &session.Values{Args: s.Trace[i].Values.Args}, jsonlines.AtEntry, false); err != nil {
					t.Fatal(err)
				}
				// A struct of which the end was not captured has a member that says so.
				var whole []Value
				for _, v := range want.Values {
					if !strings.HasSuffix(v.Name, ".") {
						whole = append(whole, v)
					}
				}
				if diff := cmp.Diff(whole, got.values()); diff != "" {
					t.Fatalf("%s: %s: %s\n%s", name, got.Func, diff, step)
				}
				compared += len(whole)
				i++
			}
		}
		if compared < 500 {
			t.Errorf("%s: %d values", name, compared)
		}
		t.Logf("%s: %d values", name, compared)
	}
}

// TestArgument: the leaves of an argument, by its type.
func TestArgument(t *testing.T) {
	integer := func(size uint32, e btf.IntEncoding) *btf.Int { return &btf.Int{Name: "int", Size: size, Encoding: e} }
	i32, u64, boolean := integer(4, btf.Signed), integer(8, btf.Unsigned), integer(1, btf.Bool)
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	color := &btf.Enum{Name: "color", Size: 4, Values: []btf.EnumValue{{Name: "RED", Value: 1}}}
	request := &btf.Struct{Name: "request", Size: 64, Members: []btf.Member{
		{Name: "id", Type: i32},
		{Name: "low", Type: i32, Offset: 32, BitfieldSize: 3},
		{Name: "high", Type: integer(4, btf.Unsigned), Offset: 35, BitfieldSize: 5},
		{Name: "on", Type: boolean, Offset: 40},
		{Name: "tag", Type: &btf.Array{Type: char, Nelems: 2}, Offset: 48},
		{Name: "next", Type: &btf.Pointer{Target: i32}, Offset: 64},
		{Type: &btf.Union{Size: 8, Members: []btf.Member{{Name: "word", Type: u64}, {Name: "half", Type: i32}}}, Offset: 128},
		{Name: "of", Type: &btf.Array{Type: &btf.Struct{Size: 4, Members: []btf.Member{{Name: "x", Type: i32}}}, Nelems: 2}, Offset: 192},
		{Name: "kind", Type: color, Offset: 256},
		{Name: "stamp", Type: u64, Offset: 320},
		{Name: "ends", Type: &btf.Array{Type: u64, Nelems: 2}, Offset: 384},
	}}
	raw := make([]byte, 64)
	copy(raw, "\xfe\xff\xff\xff\xfd\x01ab") // id -2; low -3, high 31; on
	copy(raw[8:], "\x00\x00\x00\x80\x80\x88\xff\xff")
	copy(raw[16:], "\x05\x00\x00\x00\x01\x00\x00\x00\x07\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00")
	copy(raw[48:], "\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x88\xff\xff")
	at := []byte("\x00\x10\x00\x00\x80\x88\xff\xff")
	pointer := &btf.Pointer{Target: request}
	for _, c := range []struct {
		name string
		t    btf.Type
		arg  session.Arg
		want string
	}{
		{"a number", i32, session.Arg{Value: []byte("\xf9\xff\xff\xff")}, "a = -7"},
		{"an address as a number", u64, session.Arg{Value: at}, "a = an address"},
		{"nothing", i32, session.Arg{}, "a = unreadable"},
		{"withheld", i32, session.Arg{Value: at[:4], Withheld: true}, "a = unreadable"},
		{"an enum", color, session.Arg{Value: []byte("\x01\x00\x00\x00")}, "a = RED"},
		{"no enumerator", color, session.Arg{Value: []byte("\x09\x00\x00\x00")}, "a = 9"},
		{"NULL", pointer, session.Arg{Value: make([]byte, 8)}, "a = NULL"},
		{"an error", pointer, session.Arg{Value: []byte("\xf2\xff\xff\xff\xff\xff\xff\xff")}, "a = -EFAULT"},
		{"a text", &btf.Pointer{Target: char}, session.Arg{Value: at, Target: []byte(`a"b`), Text: true}, `a = "a\"b"`},
		{"no text", &btf.Pointer{Target: char}, session.Arg{Value: at, Target: []byte{}, Text: true}, `a = ""`},
		{"a number behind", &btf.Pointer{Target: i32}, session.Arg{Value: at, Target: []byte("\x05\x00\x00\x00"), TargetType: i32}, "a = an address; *a = 5"},
		{"a struct", pointer, session.Arg{Value: at, Target: raw, TargetType: request},
			`a = an address; a->id = -2; a->low = -3; a->high = 31; a->on = true; a->tag = "ab"; a->next = an address; a->word = 4294967301; a->half = 5; a->of[0].x = 7; a->of[1].x = 8; a->kind = RED; a->ends = {9, an address}`},
		{"its begin", pointer, session.Arg{Value: at, Target: raw[:12], TargetType: request}, `a = an address; a->id = -2; a->low = -3; a->high = 31; a->on = true; a->tag = "ab"`},
		{"a struct by value", request, session.Arg{Value: raw[:8]}, `a.id = -2; a.low = -3; a.high = 31; a.on = true; a.tag = "ab"`},
	} {
		c.arg.Param = &layout.Param{Param: expr.Param{Name: "a", Type: c.t}}
		call := &Call{Func: "f"}
		r := newReader(output.Run{}, NewNames(), NewIgnore(nil, false), false)
		if err := r.argument(call, &c.arg, 0); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range call.values() {
			got = append(got, v.Name+" = "+v.Text)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, "; ")); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// TestUsualMembers: of what -A captures, locks, counts, numbers that are drawn and such are not compared, unless all is.
func TestUsualMembers(t *testing.T) {
	u16, u32 := &btf.Int{Name: "u16", Size: 2}, &btf.Int{Name: "u32", Size: 4}
	one := func(name string, t btf.Type) *btf.Struct {
		return &btf.Struct{Name: name, Size: 4, Members: []btf.Member{{Name: "x", Type: t}}}
	}
	inode := &btf.Struct{Name: "inode", Size: 32, Members: []btf.Member{
		{Name: "i_mode", Type: u32},
		{Name: "i_ino", Type: u32, Offset: 32},
		{Name: "i_lock", Type: &btf.Typedef{Name: "spinlock_t", Type: one("spinlock", u32)}, Offset: 64},
		{Name: "i_rw", Type: &btf.Typedef{Name: "rwlock_t", Type: one("", u32)}, Offset: 96},
		{Name: "i_page", Type: &btf.Const{Type: one("page", u32)}, Offset: 128},
		{Type: &btf.Struct{Size: 4, Members: []btf.Member{{Name: "i_generation", Type: u32}}}, Offset: 160},
		{Name: "i_size", Type: one("other", u32), Offset: 192},
	}}
	// Times are when it happened where the member's name says so, and else what the caller has asked for.
	moment := &btf.Struct{Name: "timespec64", Size: 4, Members: []btf.Member{{Name: "tv_nsec", Type: u32}}}
	times := &btf.Struct{Name: "itimerspec64", Size: 8, Members: []btf.Member{{Name: "it_value", Type: moment}, {Name: "i_atime", Type: moment, Offset: 32}}}
	common := &btf.Struct{Name: "sock_common", Size: 4, Members: []btf.Member{{Name: "skc_num", Type: u16}, {Name: "skc_dport", Type: u16, Offset: 16}}}
	inet := &btf.Struct{Name: "inet_sock", Size: 2, Members: []btf.Member{{Name: "inet_sport", Type: u16}}}
	for _, c := range []struct {
		t     btf.Type
		raw   string
		exact bool
		want  string
	}{
		{inode, strings.Repeat("\x01\x00\x00\x00", 8), false, "a.i_mode = 1; a.i_size.x = 1"},
		{inode, strings.Repeat("\x01\x00\x00\x00", 8), true,
			"a.i_mode = 1; a.i_ino = 1; a.i_lock.x = 1; a.i_rw.x = 1; a.i_page.x = 1; a.i_generation = 1; a.i_size.x = 1"},
		{moment, "\x01\x00\x00\x00", false, "a.tv_nsec = 1"},
		{times, "\x01\x00\x00\x00\x02\x00\x00\x00", false, "a.it_value.tv_nsec = 1"},
		{times, "\x01\x00\x00\x00\x02\x00\x00\x00", true, "a.it_value.tv_nsec = 1; a.i_atime.tv_nsec = 2"},
		{common, "\xff\x7f\x00\x80", false, "a.skc_num = 32767; a.skc_dport = 32768"},
		{common, "\x00\x80\x00\x80", false, "a.skc_num = a port of the kernel's choice; a.skc_dport = 32768"},
		{common, "\x47\xee\x00\x00", false, "a.skc_num = a port of the kernel's choice; a.skc_dport = 0"}, // 60999
		{common, "\x48\xee\x00\x00", false, "a.skc_num = 61000; a.skc_dport = 0"},
		{common, "\x00\x80\x00\x80", true, "a.skc_num = 32768; a.skc_dport = 32768"},
		{inet, "\x80\x00", false, "a.inet_sport = a port of the kernel's choice"},
		{inet, "\x00\x80", false, "a.inet_sport = 32768"}, // 128
	} {
		call := &Call{Func: "f"}
		r := newReader(output.Run{}, NewNames(), NewIgnore(nil, c.exact), c.exact)
		if err := r.argument(call, &session.Arg{Param: &layout.Param{Param: expr.Param{Name: "a", Type: c.t}}, Value: []byte(c.raw)}, 0); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range call.values() {
			got = append(got, v.Name+" = "+v.Text)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, "; ")); diff != "" {
			t.Errorf("%q, exact %v: %s", c.raw, c.exact, diff)
		}
	}
}

// TestNestedUnions: a recording's types do not take time without end, nor does what has no value.
func TestNestedUnions(t *testing.T) {
	var nested btf.Type = &btf.Struct{}
	for range maxNesting {
		nested = &btf.Union{Size: 4, Members: []btf.Member{{Name: "a", Type: nested}, {Name: "b", Type: nested}}}
	}
	r := newReader(output.Run{}, NewNames(), NewIgnore(nil, false), false)
	call := &Call{Func: "f"}
	if err := r.argument(call, &session.Arg{Param: &layout.Param{Param: expr.Param{Name: "a", Type: nested}}, Value: []byte("1234")}, 0); err != nil || len(call.groups) > 0 {
		t.Errorf("%v, %d groups", err, len(call.groups))
	}
}

// TestGroupHash: arguments that are compared alike have one hash, in whichever run they are.
func TestGroupHash(t *testing.T) {
	u64 := &btf.Int{Name: "u64", Size: 8}
	names := NewNames()
	hash := func(param btf.Type, exact bool, value string) uint64 {
		call := &Call{Func: "f"}
		r := newReader(output.Run{}, names, NewIgnore(nil, exact), exact)
		if err := r.argument(call, &session.Arg{Param: &layout.Param{Param: expr.Param{Name: "a", Type: param}}, Value: []byte(value)}, 0); err != nil {
			t.Fatal(err)
		}
		return call.groups[0].hash
	}
	const one, other = "\x00\x10\x00\x00\x80\x88\xff\xff", "\x00\x20\x00\x00\x80\x88\xff\xff"
	pointer := &btf.Pointer{Target: u64}
	for _, of := range []btf.Type{u64, pointer} {
		if hash(of, false, one) != hash(of, false, other) {
			t.Errorf("%v: two addresses differ", of)
		}
		if hash(of, true, one) == hash(of, true, other) {
			t.Errorf("%v: two addresses are one, exactly", of)
		}
		if hash(of, false, one) == hash(of, false, "\x00\x00\x00\x00\x00\x00\x00\x00") {
			t.Errorf("%v: an address is NULL, or 0", of)
		}
	}
}
