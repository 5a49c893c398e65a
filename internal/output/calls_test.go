// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

var (
	typeInt  = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	typeUint = &btf.Int{Name: "unsigned int", Size: 4}
	typeChar = &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}
	skb      = &btf.Struct{Name: "sk_buff", Size: 8, Members: []btf.Member{
		{Name: "len", Type: typeUint}, {Name: "data_len", Type: typeUint, Offset: 32}}}
	dev = &btf.Struct{Name: "net_device", Size: 48, Members: []btf.Member{
		{Name: "skb", Type: &btf.Pointer{Target: skb}}, {Name: "wide", Type: &btf.Int{Name: "__int128", Size: 16, Encoding: btf.Signed}, Offset: 128},
		{Name: "cb", Type: &btf.Array{Index: typeUint, Type: typeChar, Nelems: 8}, Offset: 256},
		{Name: "priv", Type: &btf.Pointer{Target: &btf.Void{}}, Offset: 320}}}
)

// noTypes is a kernel without named types.
type noTypes struct{}

func (noTypes) TypesByName(string) ([]btf.Type, error)        { return nil, nil }
func (noTypes) Enumerators(string) ([]expr.Enumerator, error) { return nil, nil }

// probe plans a SPEC for `int send(struct sk_buff *skb, char *name, struct net_device *dev)`.
func probe(t testing.TB, text string) *plan.Plan {
	t.Helper()
	spec, err := expr.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	params := []expr.Param{{Name: "skb", Type: &btf.Pointer{Target: skb}}, {Name: "name", Type: &btf.Pointer{Target: typeChar}},
		{Name: "dev", Type: &btf.Pointer{Target: dev}}}
	p := &plan.Probe{Func: kernel.Function{Name: "send"}, Probe: layout.Probe{Name: "send", Function: "send", Spec: spec, Result: typeInt, Method: layout.MethodFentry}}
	for i, param := range params {
		p.Params = append(p.Params, layout.Param{Param: param, Loc: layout.Loc{Slot: i, Slots: 1, Reg: i}})
	}
	p.Items, err = expr.Check(spec, &expr.Scope{Func: "send", Params: params, Return: typeInt, Types: noTypes{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Lay(); err != nil {
		t.Fatal(err)
	}
	return &plan.Plan{Probes: []*plan.Probe{p}}
}

// data lays out values as a record has them: 8 bytes for a number, the bytes
// of an object padded to a multiple of 8.
func data(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case int:
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		case uint64:
			b = binary.LittleEndian.AppendUint64(b, v)
		case []byte:
			b = append(b, v...)
			b = append(b, make([]byte, -len(b)&7)...)
		case string: // a captured string, with a byte more to see whether it goes on
			b = append(append(b, v...), make([]byte, (expr.MaxText+1+7)&^7-len(v))...)
		}
	}
	return b
}

const head = "            ping    3833    1    251523.617250 send("

// TestCalls has the format of ../../shared/reference/ksnoop-rfc.txt: columns,
// `name = value` separated by empty lines, ");" at the end.
func TestCalls(t *testing.T) {
	object := []byte{84, 0, 0, 0, 3, 0, 0, 0}
	const ptr = uint64(0xffff930a01095c00)
	for _, c := range []struct {
		name, spec string
		kind       bpf.Kind
		faults     uint64
		data       []byte
		want       string
	}{
		{"result", "send(return)", bpf.KindReturn, 0, data(0), "        return = (int)0\n"},
		{"error", "send(return)", bpf.KindReturn, 0, data(-2), "        return = (int)-2 /* -ENOENT */\n"},
		{"error in hexadecimal", "send(hex(return))", bpf.KindReturn, 0, data(-2), "        hex(return) = (int)0xfffffffe /* -ENOENT */\n"},
		{"error in decimal", "send(dec(return))", bpf.KindReturn, 0, data(-2), "        dec(return) = (int)-2 /* -ENOENT */\n"},
		{"no error in hexadecimal", "send(hex(return))", bpf.KindReturn, 0, data(2), "        hex(return) = (int)0x2\n"},
		{"error of the kernel's own", "send(return)", bpf.KindReturn, 0, data(-524), "        return = (int)-524 /* -ENOTSUPP */\n"},
		{"no error", "send(return)", bpf.KindReturn, 0, data(-5000), "        return = (int)-5000\n"},
		{"member", "send(skb->len == 84)", bpf.KindEntry, 0, data(84), "        skb->len = (unsigned int)84\n"},
		{"hexadecimal", "send(hex(skb->len))", bpf.KindEntry, 0, data(84), "        hex(skb->len) = (unsigned int)0x54\n"},
		{"object", "send(skb)", bpf.KindEntry, 0, data(ptr, object),
			"        skb = *(struct sk_buff){\n            .len = (unsigned int)84,\n            .data_len = (unsigned int)3,\n        }\n"},
		{"null", "send(skb)", bpf.KindEntry, 2, data(0, object), "        skb = (struct sk_buff *)NULL\n"},
		{"bad pointer", "send(skb)", bpf.KindEntry, 2, data(uint64(0x7ffd5a0cca10), object),
			"        skb = 0x7ffd5a0cca10\n        /* Cannot show 'skb' as 'struct sk_buff *'.\n         * Userspace/invalid ptr? */\n"},
		{"error pointer", "send(skb)", bpf.KindEntry, 2, data(-12, object), "        skb = (struct sk_buff *)-ENOMEM\n"},
		{"bad pointer on the way", "send(skb->len)", bpf.KindEntry, 1, data(0),
			"        skb->len = ?\n        /* Cannot show 'skb->len' as 'unsigned int'.\n         * Unreadable memory. */\n"},
		{"bad pointer on the way to a pointer", "send(dev->skb)", bpf.KindEntry, 3, data(0, make([]byte, 16)),
			"        dev->skb = ?\n        /* Cannot show 'dev->skb' as 'struct sk_buff *'.\n         * Userspace/invalid ptr? */\n"},
		{"bad pointer on the way to a wide number", "send(dev->wide)", bpf.KindEntry, 1, data(make([]byte, 16)),
			"        dev->wide = ?\n        /* Cannot show 'dev->wide' as '__int128'.\n         * Unreadable memory. */\n"},
		{"nothing to divide by", "send(1000 / skb->len)", bpf.KindEntry, 1, data(0),
			"        1000 / skb->len = ?\n        /* Cannot show '1000 / skb->len' as 'unsigned int'.\n         * Unreadable memory, or a division by zero. */\n"},
		{"division by 0", "send(skb->len / 0)", bpf.KindEntry, 1, data(0),
			"        skb->len / 0 = ?\n        /* Cannot show 'skb->len / 0' as 'unsigned int'.\n         * Unreadable memory, or a division by zero. */\n"},
		{"division by a constant", "send(skb->len / 8)", bpf.KindEntry, 1, data(0),
			"        skb->len / 8 = ?\n        /* Cannot show 'skb->len / 8' as 'unsigned int'.\n         * Unreadable memory. */\n"},
		{"string", "send(name)", bpf.KindEntry, 0, data(ptr, "eth0\x00junk"), "        name = (char *)0xffff930a01095c00 = \"eth0\"\n"},
		{"string with escapes", "send(str(name))", bpf.KindEntry, 0, data("a\"\\\n\x1b[31m\x00"), "        str(name) = \"a\\\"\\\\\\n\\x1b[31m\"\n"},
		{"string of letters", "send(str(name))", bpf.KindEntry, 0, data("grüße\r\x00"), "        str(name) = \"grüße\\r\"\n"},
		{"longest string", "send(str(name))", bpf.KindEntry, 0, data(strings.Repeat("x", 255) + "\x00"),
			"        str(name) = \"" + strings.Repeat("x", 255) + "\"\n"},
		{"cut string", "send(str(name))", bpf.KindEntry, 0, data(strings.Repeat("x", 255) + "y\x00"),
			"        str(name) = \"" + strings.Repeat("x", 255) + "\"...\n"},
		{"buffer", "send(buf(skb, 4))", bpf.KindEntry, 0, data(4, []byte{0, 'a', 1, 2}), "        buf(skb, 4) = \"\\x00a\\x01\\x02\"\n"},
		{"cut buffer", "send(buf(skb, skb->len))", bpf.KindEntry, 0, data(5000, make([]byte, 4096)), ""},
		{"changed member", "send(diff(*skb))", bpf.KindCall, 0, data(object, []byte{85, 0, 0, 0, 3, 0, 0, 0}),
			"        diff(*skb):\n            .len: 84 → 85\n"},
		{"changed object behind a pointer", "send(diff(skb))", bpf.KindCall, 0, data(ptr, object, ptr, []byte{84, 0, 0, 0, 4, 0, 0, 0}),
			"        diff(skb):\n            .data_len: 3 → 4\n"},
		{"another pointer to the same", "send(diff(dev->skb))", bpf.KindCall, 0, data(ptr, object, ptr+16, object),
			"        diff(dev->skb): 0xffff930a01095c00 → 0xffff930a01095c10\n"},
		{"another pointer to others", "send(diff(dev->skb))", bpf.KindCall, 0, data(ptr, object, ptr+16, []byte{85, 0, 0, 0, 4, 0, 0, 0}),
			"        diff(dev->skb): 0xffff930a01095c00 → 0xffff930a01095c10\n            .len: 84 → 85\n            .data_len: 3 → 4\n"},
		{"a pointer is set", "send(diff(dev->skb))", bpf.KindCall, 2, data(0, object, ptr, object), "        diff(dev->skb): NULL → 0xffff930a01095c00\n"},
		{"a pointer is cleared", "send(diff(dev->skb))", bpf.KindCall, 8, data(ptr, object, 0, object), "        diff(dev->skb): 0xffff930a01095c00 → NULL\n"},
		{"a pointer is an error", "send(diff(dev->skb))", bpf.KindCall, 8, data(ptr, object, -2, object), "        diff(dev->skb): 0xffff930a01095c00 → -ENOENT\n"},
		{"no pointer at either end", "send(diff(dev->skb))", bpf.KindCall, 10, data(0, object, 0, object), "        diff(dev->skb): no change\n"},
		{"a bad pointer at both ends", "send(diff(dev->skb))", bpf.KindCall, 10, data(0x7ffd5a0cca10, object, 0x7ffd5a0cca10, object),
			"        diff(dev->skb): ?\n        /* Cannot show 'diff(dev->skb)' as 'struct sk_buff *'.\n         * Userspace/invalid ptr? */\n"},
		{"a bad pointer at return", "send(diff(dev->skb))", bpf.KindCall, 8, data(ptr, object, 0x7ffd5a0cca10, object),
			"        diff(dev->skb): 0xffff930a01095c00 → 0x7ffd5a0cca10\n        /* Cannot show 'diff(dev->skb)' as 'struct sk_buff *'.\n         * Userspace/invalid ptr? */\n"},
		{"no way to a pointer", "send(diff(dev->skb))", bpf.KindCall, 15, data(0, object, 0, object),
			"        diff(dev->skb): ?\n        /* Cannot show 'diff(dev->skb)' as 'struct sk_buff *'.\n         * Userspace/invalid ptr? */\n"},
		{"another string", "send(diff(name))", bpf.KindCall, 0, data(ptr, "eth0", ptr+16, "eth1"),
			"        diff(name): 0xffff930a01095c00 = \"eth0\" → 0xffff930a01095c10 = \"eth1\"\n"},
		{"a string is set", "send(diff(name))", bpf.KindCall, 2, data(0, "", ptr, "eth1"), "        diff(name): NULL → 0xffff930a01095c00 = \"eth1\"\n"},
		{"changed string behind a pointer", "send(diff(name))", bpf.KindCall, 0, data(ptr, "eth0", ptr, "eth1"), "        diff(name): \"eth0\" → \"eth1\"\n"},
		{"changed pointer", "send(diff(dev->priv))", bpf.KindCall, 0, data(0, uint64(0xffffffff81000010)), "        diff(dev->priv): NULL → 0xffffffff81000010 <_text+0x10>\n"},
		{"changed address", "send(diff(ip(skb->len)))", bpf.KindCall, 0, data(0x0100007f, 0x0200007f), "        diff(ip(skb->len)): 127.0.0.1 → 127.0.0.2\n"},
		{"changed hexadecimal", "send(diff(hex(skb->len)))", bpf.KindCall, 0, data(84, 85), "        diff(hex(skb->len)): 0x54 → 0x55\n"},
		{"changed symbol", "send(diff(sym(dev->priv)))", bpf.KindCall, 0, data(0, uint64(0xffffffff81000010)), "        diff(sym(dev->priv)): 0x0 → 0xffffffff81000010 <_text+0x10>\n"},
		{"unchanged address", "send(diff(ip(skb->len)))", bpf.KindCall, 0, data(0x0100007f, 0x0100007f), "        diff(ip(skb->len)): no change\n"},
		{"changed number", "send(diff(skb->len))", bpf.KindCall, 0, data(84, 85), "        diff(skb->len): 84 → 85\n"},
		{"unchanged", "send(diff(*skb))", bpf.KindCall, 0, data(object, object), "        diff(*skb): no change\n"},
		{"changed string", "send(diff(str(name)))", bpf.KindCall, 0, data("eth0", "eth1"), "        diff(str(name)): \"eth0\" → \"eth1\"\n"},
		{"text behind a NUL", "send(dev->cb)", bpf.KindEntry, 0, data([]byte("\x00P\x00\x01\x00\x00\x00\x00")), "        dev->cb = (char[8])\"\\x00P\\x00\\x01\"\n"},
		{"changed bytes", "send(diff(buf(skb, 4)))", bpf.KindCall, 0, data(4, []byte("ab\x00c\x00\x00\x00\x00"), 4, []byte("ab\x00d\x00\x00\x00\x00")),
			"        diff(buf(skb, 4)): \"ab\\x00c\" → \"ab\\x00d\"\n"},
		{"changed text behind a NUL", "send(diff(dev->cb))", bpf.KindCall, 0, data([]byte("\x00P\x00\x01\x00\x00\x00\x00"), []byte("\x00Q\x00\x01\x00\x00\x00\x00")),
			"        diff(dev->cb): \"\\x00P\\x00\\x01\" → \"\\x00Q\\x00\\x01\"\n"},
		{"changed padding", "send(diff(*dev))", bpf.KindCall, 0, data(make([]byte, 48), append(make([]byte, 8), append([]byte{1}, make([]byte, 39)...)...)),
			"        diff(*dev): /* only bytes of no member differ */\n"},
		{"error in a member", "send(dev->priv)", bpf.KindEntry, 0, data(-2), "        dev->priv = (void *)-ENOENT\n"},
		{"error in an object", "send(*dev)", bpf.KindEntry, 0, data(-2, make([]byte, 40)), "        *dev = (struct net_device){\n            .skb = (struct sk_buff *)-ENOENT,\n        }\n"},
		{"gone", "send(diff(*skb))", bpf.KindCall, 2, data(object, object),
			"        diff(*skb): ?\n        /* Cannot show 'diff(*skb)' as 'struct sk_buff'.\n         * Unreadable memory. */\n"},
		{"symbol", "send(sym(skb))", bpf.KindEntry, 0, data(uint64(0xffffffff81000010)),
			"        sym(skb) = (struct sk_buff *)0xffffffff81000010 <_text+0x10>\n"},
		{"no symbol", "send(sym(skb))", bpf.KindEntry, 0, data(ptr), "        sym(skb) = (struct sk_buff *)0xffff930a01095c00\n"},
		{"IPv4 address", "send(ip(skb->len))", bpf.KindEntry, 0, data(0x0100007f), "        ip(skb->len) = (unsigned int)127.0.0.1\n"},
		{"hardware address", "send(mac(name))", bpf.KindEntry, 0, data(6, []byte{0x52, 0x54, 0, 0x12, 0x34, 0xff}),
			"        mac(name) = 52:54:00:12:34:ff\n"},
		{"two values", "send(skb->len, skb->data_len)", bpf.KindEntry, 0, data(84, 3),
			"        skb->len = (unsigned int)84,\n\n        skb->data_len = (unsigned int)3\n"},
		{"whole call", "send(skb->len, return < 0)", bpf.KindCall, 0, data(84, -1),
			"        skb->len = (unsigned int)84,\n\n        return = (int)-1 /* -EPERM */\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := probe(t, c.spec)
			e := bpf.Event{Time: 251523_617250_999, PID: 3833, TID: 3834, CPU: 1, Kind: c.kind, Faults: c.faults,
				Comm: [16]byte{'p', 'i', 'n', 'g'}}
			var ev event.Event
			if err := event.Decode(p, append(bpf.AppendEvent(nil, &e), c.data...), &ev); err != nil {
				t.Fatal(err)
			}
			got, err := NewCalls(Names{Symbol: symbol}).AppendCall(nil, &calls.Call{Entry: &ev, End: calls.Whole})
			if err != nil {
				t.Fatal(err)
			}
			line, err := NewCompactCalls(Names{Symbol: symbol}, 160).AppendCall(nil, &calls.Call{Entry: &ev, End: calls.Whole})
			if err != nil || bytes.Count(line, []byte("\n")) != 1 || !bytes.HasSuffix(line, []byte(")\n")) || !bytes.HasPrefix(line, []byte(head)) {
				t.Errorf("compact, error %v:\n%s", err, line)
			}
			if c.want == "" { // too long to write out: cut off, and marked
				if !bytes.HasSuffix(got, []byte("\\x00\\x00\"...\n\n);\n")) {
					t.Errorf("ends in %q", got[len(got)-20:])
				}
				return
			}
			if d := cmp.Diff(head+"\n"+c.want+"\n);\n", string(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCompact(t *testing.T) {
	ptr := uint64(0xffff930a01095c00)
	object := []byte{84, 0, 0, 0, 3, 0, 0, 0}
	for _, c := range []struct {
		spec   string
		kind   bpf.Kind
		faults uint64
		data   []byte
		want   string
	}{
		{"send(skb)", bpf.KindEntry, 0, data(ptr, object), "skb = &{.len = 84,.data_len = 3,}"},
		{"send(skb)", bpf.KindEntry, 2, data(-12, object), "skb = -ENOMEM"},
		{"send(skb->len, skb->data_len)", bpf.KindEntry, 0, data(84, 3), "skb->len = 84, skb->data_len = 3"},
		{"send(skb->len)", bpf.KindEntry, 1, data(0), "skb->len = ? (unreadable)"},
		{"send(name)", bpf.KindEntry, 0, data(ptr, "eth\n0\x00junk"), `name = "eth\n0"`},
		{"send(diff(skb->len))", bpf.KindCall, 0, data(84, 85), "diff(skb->len): 84 → 85"},
		{"send(return < 0)", bpf.KindCall, 0, data(-1), "return = -EPERM"},
		{"send(hex(return))", bpf.KindCall, 0, data(-1), "hex(return) = 0xffffffff"},
	} {
		p := probe(t, c.spec)
		var ev event.Event
		if err := event.Decode(p, append(bpf.AppendEvent(nil, &bpf.Event{Kind: c.kind, Faults: c.faults}), c.data...), &ev); err != nil {
			t.Fatal(err)
		}
		got, err := NewCompactCalls(Names{}, 160).AppendCall(nil, &calls.Call{Entry: &ev, End: calls.Whole})
		if err != nil {
			t.Fatal(err)
		}
		if _, values, _ := strings.Cut(string(got), " send("); values != c.want+")\n" {
			t.Errorf("%s: %q, want %q", c.spec, values, c.want)
		}
	}
}

// symbol names what lies behind one address.
func symbol(dst []byte, addr uint64) []byte {
	if off := addr - 0xffffffff81000000; off < 0x1000 {
		dst = fmt.Appendf(dst, "_text+%#x", off)
	}
	return dst
}

func TestHeader(t *testing.T) {
	want := "            TASK     PID CPU#        TIMESTAMP FUNCTION\n\n"
	if got, err := NewCalls(Names{}).AppendHeader(nil); string(got) != want || err != nil {
		t.Errorf("header %q, %v, want %q", got, err, want)
	}
}

// TestTaskName: a task's name stays in its column, and does not reach the terminal
// as it is.
func TestTaskName(t *testing.T) {
	for _, test := range []struct{ comm, want string }{
		{"bash", "            bash"},
		{"\x1b[31m\xff\n", `  \x1b[31m\xff\n`},
		{"grüße", "           grüße"},
		{"日本日本日", "           日本日本日"},
		{"\x1b]0;\u202exyz\x07", `\x1b]0;\xe2\x80\xaexyz\x07`}, // wider
		{"", "                "},
	} {
		e := &event.Event{Probe: &plan.Probe{}}
		copy(e.Comm[:], test.comm)
		if got := string(NewCalls(Names{}).appendHead([]byte("x"), e)); !strings.HasPrefix(got, "x"+test.want+"       0    0 ") {
			t.Errorf("%q: printed as %q", test.comm, got)
		}
	}
}

func TestAllocations(t *testing.T) {
	p := probe(t, "send(skb, name, return < 0)")
	var ev event.Event
	raw := append(bpf.AppendEvent(nil, &bpf.Event{Kind: bpf.KindCall, PID: 12345}),
		data(uint64(0xffff930a01095c00), make([]byte, 8), uint64(0xffff930a01095c00), "eth0", -1)...)
	if err := event.Decode(p, raw, &ev); err != nil {
		t.Fatal(err)
	}
	printer, call := NewCalls(Names{}), &calls.Call{Entry: &ev}
	buf, err := printer.AppendCall(nil, call)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { buf, _ = printer.AppendCall(buf[:0], call) }); n != 0 {
		t.Errorf("%v allocations for a call", n)
	}
}
