// SPDX-License-Identifier: Apache-2.0

package jsonlines

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/formattest"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/record"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/layout"
)

var boot = time.Date(2026, 11, 23, 6, 0, 0, 250, time.UTC)

// testTypes are functions that take and return types of all kinds:
//
//	long ksys(int i, unsigned long u, bool b, enum color e, struct point *p, char *s)
//	struct point *make(void), enum color paint(void), bool ask(void), void end(void),
//	unsigned long area(void), int fail(void), short narrow(void),
//	struct pair where(void), __int128 wide(void), enum hook find(void), enum mask select(void)
func testTypes() []btf.Type {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	pair := &btf.Struct{Name: "pair", Size: 8, Members: []btf.Member{{Name: "x", Type: integer}, {Name: "y", Type: integer, Offset: 32}}}
	wide := &btf.Int{Name: "__int128", Size: 16, Encoding: btf.Signed}
	short := &btf.Int{Name: "short", Size: 2, Encoding: btf.Signed}
	long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	ulong := &btf.Int{Name: "unsigned long", Size: 8}
	boolean := &btf.Int{Name: "bool", Size: 1, Encoding: btf.Bool}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	color := &btf.Enum{Name: "color", Size: 4, Values: []btf.EnumValue{{Name: "RED", Value: 1}, {Name: "BLUE", Value: 4}}}
	hook := &btf.Enum{Name: "hook", Size: 4, Signed: true, Values: []btf.EnumValue{{Name: "NO_HOOK", Value: math.MaxUint64}, {Name: "FIRST_HOOK"}}}
	mask := &btf.Enum{Name: "mask", Size: 4, Values: []btf.EnumValue{{Name: "NONE"}, {Name: "ALL", Value: math.MaxUint32}}}
	point := &btf.Struct{Name: "point", Size: 40, Members: []btf.Member{
		{Name: "x", Type: integer}, {Name: "on", Type: boolean, Offset: 32}, {Name: "c", Type: color, Offset: 64},
		{Name: "big", Type: ulong, Offset: 128}, {Name: "name", Type: &btf.Array{Index: integer, Type: char, Nelems: 8}, Offset: 192},
	}}
	point.Members = append(point.Members, btf.Member{Name: "next", Type: &btf.Pointer{Target: point}, Offset: 256})
	function := func(name string, result btf.Type, params ...btf.FuncParam) btf.Type {
		return &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: result, Params: params}}
	}
	return []btf.Type{
		function("ksys", long, btf.FuncParam{Name: "i", Type: integer}, btf.FuncParam{Name: "u", Type: ulong}, btf.FuncParam{Name: "b", Type: boolean},
			btf.FuncParam{Name: "e", Type: color}, btf.FuncParam{Name: "p", Type: &btf.Pointer{Target: point}}, btf.FuncParam{Name: "s", Type: &btf.Pointer{Target: char}}),
		function("make", &btf.Pointer{Target: point}), function("paint", color), function("ask", boolean), function("end", (*btf.Void)(nil)),
		function("area", ulong), function("fail", integer), function("narrow", short), function("where", pair), function("wide", wide),
		function("find", hook), function("select", mask),
	}
}

func testKernel(t testing.TB) *kernel.View {
	t.Helper()
	b, err := btf.NewBuilder(testTypes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	view, err := kernel.OpenBTF(bytes.NewReader(raw), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return view
}

func resolve(t testing.TB, view *kernel.View, specs ...string) *plan.Plan {
	t.Helper()
	var parsed []*expr.Spec
	for _, text := range specs {
		s, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, s)
	}
	p, _, err := plan.Resolve(view, parsed, plan.Options{Arch: runtime.GOARCH})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newTestPrinter(t testing.TB, view *kernel.View, p *plan.Plan, strings64 bool) *Printer {
	t.Helper()
	return New(output.Run{Plan: p, Kernel: view, Resolver: symbols.New(view, nil, symbols.LevelNone), Boot: boot, Arch: "amd64", Host: "here", Writer: "test", Options: []string{"--pid=1"}}, strings64)
}

// recordOf returns an event of a probe. fill gives the bytes of each slot.
func recordOf(t testing.TB, p *plan.Plan, probe int, fill func(s *layout.Slot, raw []byte)) *event.Event {
	t.Helper()
	half, kind := p.Probes[probe].Entry, bpf.KindEntry
	if half == nil || half.Record == nil {
		half, kind = p.Probes[probe].Return, bpf.KindReturn
		if p.Probes[probe].Joined {
			kind = bpf.KindCall
		}
	}
	return eventOf(t, p, probe, half, kind, fill)
}

func eventOf(t testing.TB, p *plan.Plan, probe int, half *layout.Half, kind bpf.Kind, fill func(s *layout.Slot, raw []byte)) *event.Event {
	t.Helper()
	e := bpf.Event{Time: 5_000_000_007, Probe: uint32(probe), PID: 7, TID: 8, CPU: 1, Kind: kind}
	copy(e.Comm[:], "a \"task\"\x1b")
	data := make([]byte, half.Record.Size)
	for i := range half.Record.Slots {
		s := &half.Record.Slots[i]
		fill(s, data[s.Off:s.Off+s.Size])
	}
	var out event.Event
	if err := event.Decode(p, append(bpf.AppendEvent(nil, &e), data...), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

var schemaOfTest = func() *formattest.Schema {
	s, err := formattest.CompileSchema(Schema())
	if err != nil {
		panic(err)
	}
	return s
}()

// check holds every line to the schema, and the text to what a terminal shows as it is.
func check(t testing.TB, text []byte) (kinds string) {
	t.Helper()
	for line := range bytes.Lines(text) {
		var l struct{ Kind string }
		if err := errors.Join(schemaOfTest.Check(string(line)), json.Unmarshal(line, &l)); err != nil || line[len(line)-1] != '\n' {
			t.Errorf("%v:\n%s", err, line)
			continue
		}
		kinds += " " + l.Kind
	}
	return strings.TrimPrefix(kinds, " ")
}

// members returns members of a line, as they are written.
func members(t testing.TB, line []byte, keys ...string) string {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(line, &all); err != nil {
		t.Fatalf("%v:\n%s", err, line)
	}
	var out []string
	for _, k := range keys {
		if v, ok := all[k]; ok {
			out = append(out, k+":"+string(v))
		}
	}
	return strings.Join(out, " ")
}

// TestSchema: the schema is one, and it refuses what is wrong.
func TestSchema(t *testing.T) {
	for _, bad := range []string{`{}`, `{"kind":"other"}`, `{"kind":"end","seq":1,"records":0}`, `{"kind":"loss","seq":1,"cause":"luck","text":"","count":1}`,
		`{"kind":"end","seq":0,"records":0,"losses":{}}`, `{"kind":"warning","seq":1,"text":"","count":1,"more":1}`, `{"kind":"stack","id":1,"frames":[{"addr":"12"}]}`,
		`{"kind":"warning","seq":1,"text":"","count":1,"text":""}`, `{"kind":"warning","seq":1,"text":"` + "\u202e" + `","count":1}`} {
		if schemaOfTest.Check(bad) == nil {
			t.Errorf("the schema admits %s", bad)
		}
	}
}

// TestHeader: what all events have in common, with the types of expressions.
func TestHeader(t *testing.T) {
	view := testKernel(t)
	p := newTestPrinter(t, view, resolve(t, view, "ksys(i, p->x, str(s), return)", "end"), false)
	got, err := p.AppendHeader(nil)
	if err != nil {
		t.Fatal(err)
	}
	check(t, got)
	method := p.run.Plan.Probes[0].Method.String()
	want := `{"kind":"header","schema":1,"writer":"test","arch":"amd64","host":"here","boot":"2026-11-23T06:00:00.00000025Z",` +
		`"request":{"specs":["ksys(i, p->x, str(s), return)","end"],"options":["--pid=1"]},"functions":[` +
		`{"id":0,"name":"ksys","method":"` + method + `","spec":"ksys(i, p->x, str(s), return)","values":[` +
		`{"expr":"i","type":"int","when":"entry"},{"expr":"p->x","type":"int","when":"entry"},{"expr":"str(s)","type":"char *","when":"entry"},` +
		`{"expr":"return","type":"long","when":"return"}],"result":"long"},` +
		`{"id":1,"name":"end","method":"` + method + `","spec":"end","values":[]}]}` + "\n"
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
}

// TestCall: a line of a call, whole.
func TestCall(t *testing.T) {
	view := testKernel(t)
	p := resolve(t, view, "ksys(i, u)")
	e := recordOf(t, p, 0, func(s *layout.Slot, raw []byte) { binary.LittleEndian.PutUint64(raw, ^uint64(s.Index)) })
	e.Inner = bpf.Inner{PID: 3, TID: 4, Ours: true}
	got, err := newTestPrinter(t, view, p, false).AppendCall(nil, &calls.Call{Return: e, End: calls.Whole})
	if err != nil {
		t.Fatal(err)
	}
	check(t, got)
	want := `{"kind":"entry","seq":1,"time":5000000007,"wall":"2026-11-23T06:00:05.000000257Z","cpu":1,"pid":7,"tid":8,"namespace":{"pid":3,"tid":4,"own":true},` +
		`"comm":"a \"task\"\u001b","function":0,"name":"ksys","values":{"i":-1,"u":18446744073709551614}}` + "\n"
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Error(d)
	}
}

// TestValues: the form of a value depends on its C type.
func TestValues(t *testing.T) {
	view := testKernel(t)
	point := make([]byte, 40)
	binary.LittleEndian.PutUint32(point, 0xfffffff9)
	point[4], point[8] = 2, 4
	copy(point[16:], []byte{255, 255, 255, 255, 255, 255, 255, 255})
	copy(point[24:], "a\"\\\xff")
	word := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	minus := func(n int64) []byte { return word(uint64(n)) }
	const addr = 0xffff888000000010
	const wholePoint = `{"x":-7,"on":true,"c":{"name":"BLUE","value":4},"big":18446744073709551615,"name":"a\"\\\\\\xff","next":{"addr":"0x0"}}`
	for _, c := range []struct {
		spec    string
		scalar  []byte
		target  []byte
		unread  bool
		want    string
		strings string // with Strings64; "": the same
	}{
		{"ksys(i)", minus(-7), nil, false, `values:{"i":-7}`, ""},
		{"ksys(u)", minus(-1), nil, false, `values:{"u":18446744073709551615}`, `values:{"u":"18446744073709551615"}`},
		{"ksys(u)", word(1), nil, false, `values:{"u":1}`, `values:{"u":"1"}`},
		{"ksys(u)", word(1), nil, true, `values:{"u":null} unreadable:{"u":"unreadable memory"}`, ""},
		{"ksys(u / i)", word(1), nil, true, `values:{"u / i":null} unreadable:{"u / i":"unreadable memory, or a division by zero"}`, ""},
		{"ksys(b)", word(2), nil, false, `values:{"b":true}`, ""},
		{"ksys(b)", word(0), nil, false, `values:{"b":false}`, ""},
		{"ksys(e)", word(4), nil, false, `values:{"e":{"name":"BLUE","value":4}}`, ""},
		{"ksys(e)", word(9), nil, false, `values:{"e":{"name":null,"value":9}}`, ""},
		{"ksys(hex(i))", minus(-1), nil, false, `values:{"hex(i)":"0xffffffff"}`, ""},
		{"ksys(p)", word(addr), point, false, `values:{"p":{"addr":"0xffff888000000010","value":` + wholePoint + `}}`, "-"},
		{"ksys(p)", word(0), point, false, `values:{"p":{"addr":"0x0","value":null}}`, ""},
		{"ksys(*p)", nil, point, false, `values:{"*p":` + wholePoint + `}`, "-"},
		{"ksys(*p)", nil, point, true, `values:{"*p":null} unreadable:{"*p":"unreadable memory"}`, ""},
		{"ksys(str(s))", nil, []byte("a\x1b\\\xff\x00rest"), false, `values:{"str(s)":"a\u001b\\\\\\xff"}`, ""},
		{"ksys(str(s))", nil, bytes.Repeat([]byte("a"), expr.MaxText+1), false, `values:{"str(s)":"` + strings.Repeat("a", expr.MaxText-1) + `"} cut:["str(s)"]`, ""},
		{"ksys(buf(s, 2))", nil, []byte("\x03\x00\x00\x00\x00\x00\x00\x00\x00z"), false, `values:{"buf(s, 2)":"\u0000z"} cut:["buf(s, 2)"]`, ""},
		{"ksys(return)", minus(-2), nil, false, `values:{"return":{"value":-2,"error":"ENOENT"}}`, `values:{"return":{"value":"-2","error":"ENOENT"}}`},
		{"ksys(return)", word(2), nil, false, `values:{"return":{"value":2}}`, `values:{"return":{"value":"2"}}`},
		{"area(return)", minus(-12), nil, false, `values:{"return":{"value":18446744073709551604,"error":"ENOMEM"}}`, "-"},
		{"fail(return)", minus(-12), nil, false, `values:{"return":{"value":-12,"error":"ENOMEM"}}`, ""},
		{"fail(return)", minus(-4095), nil, false, `values:{"return":{"value":-4095,"error":"4095"}}`, ""},
		{"fail(return)", minus(-4096), nil, false, `values:{"return":{"value":-4096}}`, ""},
		{"narrow(return)", minus(-2), nil, false, `values:{"return":{"value":-2}}`, ""},
		{"paint(return)", word(1), nil, false, `values:{"return":{"name":"RED","value":1}}`, ""},
		{"paint(return)", word(0xffffffea), nil, false, `values:{"return":{"name":null,"value":4294967274,"error":"EINVAL"}}`, ""},
		{"paint(hex(return))", word(0xffffffea), nil, false, `values:{"hex(return)":{"value":"0xffffffea","error":"EINVAL"}}`, ""},
		{"find(return)", minus(-1), nil, false, `values:{"return":{"name":"NO_HOOK","value":-1}}`, ""},
		{"find(return)", minus(-2), nil, false, `values:{"return":{"name":null,"value":-2,"error":"ENOENT"}}`, ""},
		{"find(hex(return))", minus(-1), nil, false, `values:{"hex(return)":{"value":"0xffffffff"}}`, ""},
		{"select(return)", word(math.MaxUint32), nil, false, `values:{"return":{"name":"ALL","value":4294967295}}`, ""},
		{"fail(hex(return))", minus(-12), nil, false, `values:{"hex(return)":{"value":"0xfffffff4","error":"ENOMEM"}}`, ""},
		{"make(hex(return))", minus(-12), nil, false, `values:{"hex(return)":{"value":"0xfffffffffffffff4","error":"ENOMEM"}}`, ""},
		{"where(return)", nil, []byte("\x07\x00\x00\x00\xff\xff\xff\xff"), false, `values:{"return":{"value":{"x":7,"y":-1}}}`, ""},
		{"where(return)", nil, nil, true, `values:{"return":null} unreadable:{"return":"unreadable memory"}`, ""},
		{"where(return.x)", minus(-2), nil, false, `values:{"return.x":-2}`, ""},
		{"where(return.y)", minus(-2), nil, false, `values:{"return.y":-2}`, ""},
		{"wide(return)", nil, minus(1), false, `values:{"return":{"value":"0x1"}}`, ""},
		{"ask(return)", word(1), nil, false, `values:{"return":{"value":true}}`, ""},
		{"make(return->x)", minus(-7), nil, false, `values:{"return->x":-7}`, ""},
		{"make(return)", minus(-12), point, true, `values:{"return":null} unreadable:{"return":"unreadable memory"}`, ""},
		{"make(sym(return))", word(addr), nil, false, `values:{"sym(return)":{"addr":"0xffff888000000010"}}`, ""},
	} {
		for _, strings64 := range []bool{false, true} {
			want := c.want
			if strings64 && c.strings == "-" {
				continue
			} else if strings64 && c.strings != "" {
				want = c.strings
			}
			p := resolve(t, view, c.spec)
			e := recordOf(t, p, 0, func(s *layout.Slot, raw []byte) {
				switch s.Term.(type) {
				case *expr.Text, *expr.Buffer, *expr.Object:
					copy(raw, c.target)
				default:
					copy(raw, c.scalar)
				}
			})
			if c.unread {
				e.Faults = ^uint64(0)
			}
			got, err := newTestPrinter(t, view, p, strings64).AppendCall(nil, &calls.Call{Return: e, End: calls.Whole})
			if err != nil {
				t.Errorf("%s: %v", c.spec, err)
				continue
			}
			check(t, got)
			if got := members(t, got, "values", "unreadable", "cut"); got != want {
				t.Errorf("%s, strings %t:\n%s\nwant\n%s", c.spec, strings64, got, want)
			}
		}
	}
}

// TestDiff: each side of a diff is the value as it is else, pointers with their address.
func TestDiff(t *testing.T) {
	view := testKernel(t)
	const addr = 0xffff888000000010
	point := func(x byte) []byte { return append([]byte{x}, make([]byte, 39)...) }
	word := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	const shown = `{"x":%d,"on":false,"c":{"name":null,"value":0},"big":0,"name":"","next":{"addr":"0x0"}}`
	for _, c := range []struct {
		spec   string
		slots  [][]byte
		faults uint64
		want   string
	}{
		{"ksys(diff(p->x))", [][]byte{word(1), word(2)}, 0, `{"before":1,"after":2}`},
		{"ksys(diff(p->x))", [][]byte{word(1), word(2)}, 2, `null} unreadable:{"diff(p->x)":"unreadable memory"`},
		{"ksys(diff(hex(p->x)))", [][]byte{word(16), word(17)}, 0, `{"before":"0x10","after":"0x11"}`},
		{"ksys(diff(*p))", [][]byte{point(1), point(2)}, 0, `{"before":` + fmt.Sprintf(shown, 1) + `,"after":` + fmt.Sprintf(shown, 2) + `}`},
		{"ksys(diff(p->next))", [][]byte{word(addr), point(1), word(addr + 64), point(1)}, 0,
			`{"before":{"addr":"0xffff888000000010","value":` + fmt.Sprintf(shown, 1) + `},"after":{"addr":"0xffff888000000050","value":` + fmt.Sprintf(shown, 1) + `}}`},
		{"ksys(diff(p->next))", [][]byte{word(0), point(1), word(addr), point(1)}, 2,
			`{"before":{"addr":"0x0","value":null},"after":{"addr":"0xffff888000000010","value":` + fmt.Sprintf(shown, 1) + `}}`},
		{"ksys(diff(p->next))", [][]byte{word(0), point(1), word(addr), point(1)}, 10,
			`{"before":{"addr":"0x0","value":null},"after":{"addr":"0xffff888000000010","value":null}}} unreadable:{"diff(p->next)":"unreadable memory"`},
		{"ksys(diff(p->next))", [][]byte{word(0), point(1), word(addr), point(1)}, 1, `null} unreadable:{"diff(p->next)":"unreadable memory"`},
	} {
		p := resolve(t, view, c.spec)
		e := recordOf(t, p, 0, func(s *layout.Slot, raw []byte) {
			if s.Capture >= 0 {
				copy(raw, c.slots[s.Index])
			}
		})
		e.Faults = c.faults
		got, err := newTestPrinter(t, view, p, false).AppendCall(nil, &calls.Call{Return: e, End: calls.Whole})
		if err != nil {
			t.Fatal(err)
		}
		check(t, got)
		label := strings.TrimSuffix(strings.TrimPrefix(c.spec, "ksys("), ")")
		want := `values:{"` + label + `":` + c.want + `}`
		if got := members(t, got, "values", "unreadable", "cut"); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", c.spec, got, want)
		}
	}
}

// TestErrors: the schema admits every error, EPROBE_DEFER and those without a name too.
func TestErrors(t *testing.T) {
	view := testKernel(t)
	p := resolve(t, view, "fail(return)")
	printer := newTestPrinter(t, view, p, false)
	const mostErrors = 4095 // MAX_ERRNO
	for n := range uint64(mostErrors) {
		e := recordOf(t, p, 0, func(_ *layout.Slot, raw []byte) { binary.LittleEndian.PutUint64(raw, -(n + 1)) })
		got, err := printer.AppendCall(nil, &calls.Call{Return: e, End: calls.Whole})
		if err != nil || check(t, got) == "" || !bytes.Contains(got, []byte(`"error":"`)) {
			t.Fatalf("error %d: %v, %s", n+1, err, got)
		}
	}
}

// TestJoined: both ends of a call are one event, and what is missing of it is said.
func TestJoined(t *testing.T) {
	view := testKernel(t)
	p := resolve(t, view, "ksys(i, return)")
	probe := p.Probes[0]
	fill := func(s *layout.Slot, raw []byte) { binary.LittleEndian.PutUint64(raw, 5) }
	entry, ret := eventOf(t, p, 0, probe.Entry, bpf.KindEntry, fill), eventOf(t, p, 0, probe.Return, bpf.KindReturn, fill)
	ret.Time += 40
	for _, c := range []struct {
		call calls.Call
		want string
	}{
		{calls.Call{Entry: entry, Return: ret, End: calls.Paired}, `kind:"call" duration:40 values:{"i":5,"return":{"value":5}}`},
		{calls.Call{Entry: entry, End: calls.Open}, `kind:"call" missing:"open" values:{"i":5}`},
		{calls.Call{Entry: entry, End: calls.Evicted}, `kind:"call" missing:"given up" values:{"i":5}`},
		{calls.Call{Return: ret, End: calls.NoEntry}, `kind:"call" missing:"no entry" values:{"return":{"value":5}}`},
		{calls.Call{Return: ret, End: calls.Whole}, `kind:"return" values:{"return":{"value":5}}`},
	} {
		got, err := newTestPrinter(t, view, p, false).AppendCall(nil, &c.call)
		if err != nil {
			t.Fatal(err)
		}
		check(t, got)
		if got := members(t, got, "kind", "duration", "missing", "values"); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// TestWallSet: "wall" is by the time of day as it is by now, if it was set.
func TestWallSet(t *testing.T) {
	view, now := testKernel(t), boot
	p := New(output.Run{Plan: resolve(t, view, "end"), Kernel: view, Boot: boot, Booted: func() time.Time { return now }}, false)
	for _, want := range []string{"2026-11-23T06:00:01.000000250Z", "2026-11-23T06:00:03.000000250Z"} {
		if got := string(p.AppendLoss(nil, event.Loss{Count: 3, Time: 1e9})); !strings.Contains(got, `"wall":"`+want+`"`) {
			t.Errorf("%s, want %s", got, want)
		}
		now = boot.Add(2 * time.Second)
	}
}

// TestEnd: losses stand where they were, and the last line sums up.
func TestEnd(t *testing.T) {
	view := testKernel(t)
	p := newTestPrinter(t, view, resolve(t, view, "end"), false)
	out := p.AppendLoss(nil, event.Loss{Cause: bpf.LostRingbuf, Count: 3, Time: 1e9, CPU: 2})
	out = p.AppendLoss(out, event.Loss{Cause: bpf.RateLimited, Count: 4})
	totals := output.Totals{Records: 9, Evicted: 2, Failed: fmt.Errorf("cut \x1boff")}
	totals.Lost[bpf.LostRingbuf], totals.Cut, totals.Uncounted = 3, 5, true
	out, err := p.AppendEnd(out, &totals)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := check(t, out), "loss loss warning warning warning end"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if got, want := string(lines[0]), `{"kind":"loss","seq":1,"time":1000000000,"wall":"2026-11-23T06:00:01.00000025Z","cpu":2,"cause":"ringbuf","text":"records lost because the ring buffer was full","count":3}`; strings.Replace(got, "000000250Z", "00000025Z", 1) != want {
		t.Error(got)
	}
	if got := members(t, lines[5], "seq", "records", "error"); got != `seq:6 records:9 error:"cut \u001boff"` {
		t.Error(got)
	}
	totals.Unread = errors.New("detached")
	if out, err = p.AppendEnd(nil, &totals); err != nil || !bytes.Contains(out, []byte(`"losses":{},"error"`)) {
		t.Errorf("where the counters could not be read: %v\n%s", err, out)
	}
	check(t, out)
	for cause, name := range causes {
		if name == "" {
			t.Errorf("counter %d has no name", cause)
		}
	}
}

// TestRecorded prints the recordings that all packages read.
func TestRecorded(t *testing.T) {
	for name, want := range map[string]string{"calls": "header stack call call call end", "sessions": "header stack session end"} {
		text := printed(t, "../../testdata/"+name+".ks")
		if got := check(t, text); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		golden, err := os.ReadFile("../../testdata/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) { // what the text says, the JSON says
			var l struct {
				Kind   string
				Frames []struct{ Symbol string }
				Calls  []struct {
					Name   string
					Result struct{ Error string }
					Frame  *int
				}
			}
			if err := json.Unmarshal(line, &l); err != nil {
				t.Fatal(err)
			}
			for _, f := range l.Frames {
				if !bytes.Contains(golden, []byte(f.Symbol+"+")) {
					t.Errorf("%s: the text has no frame %s", name, f.Symbol)
				}
			}
			for _, c := range l.Calls {
				if !bytes.Contains(golden, []byte(c.Name)) || !bytes.Contains(golden, []byte("[-"+c.Result.Error+"]")) {
					t.Errorf("%s: the text has no call %+v", name, c)
				}
			}
		}
	}
}

// printed prints a whole recording.
func printed(t testing.TB, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := record.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	p := New(output.Run{Plan: r.Plan(), Kernel: r.Kernel(), Resolver: symbols.New(r.Kernel(), nil, symbols.LevelNone), Boot: r.Info().Boot}, false)
	out, err := p.AppendHeader(nil)
	if err != nil {
		t.Fatal(err)
	}
	totals := &output.Totals{}
	if how := r.Info().Sessions; how != nil {
		d := session.Decoder{Plan: r.Plan(), Traced: how.Traced, Live: how.Live}
		for s, err := range d.Sessions(r.Records()) {
			if err == nil {
				out, err = p.AppendSession(out, s)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	} else {
		for c, err := range calls.Each(event.All(r.Plan(), r.Records())) {
			if err == nil {
				out, err = p.AppendCall(out, c)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if out, err = p.AppendEnd(out, totals); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRandom prints records of random bytes, by random SPECs.
func TestRandom(t *testing.T) {
	view := testKernel(t)
	items := []string{"i", "u", "b", "e", "p", "*p", "p->x", "p->name", "p->c", "str(s)", "buf(s, 5)", "hex(u)", "sym(u)", "dec(u)", "diff(p->x)", "diff(*p)", "diff(u)",
		"return", "exit(p->big)", "$comm", "$duration", "i / p->x", "return < 0", "i != 3", "p", "u"}
	r := rand.New(rand.NewPCG(16, 1))
	for range 300 {
		var list []string
		for range 1 + r.IntN(8) {
			list = append(list, items[r.IntN(len(items))])
		}
		spec := "ksys(" + strings.Join(list, ", ") + ")"
		p := resolve(t, view, spec, "make", "end")
		printer := newTestPrinter(t, view, p, r.IntN(2) == 0)
		out, err := printer.AppendHeader(nil)
		if err != nil {
			t.Fatal(err)
		}
		for probe := range p.Probes {
			for _, half := range []*layout.Half{p.Probes[probe].Entry, p.Probes[probe].Return} {
				if half == nil || half.Record == nil {
					continue
				}
				kind := bpf.KindEntry
				if half == p.Probes[probe].Return {
					kind = bpf.KindReturn
				}
				e := eventOf(t, p, probe, half, kind, func(_ *layout.Slot, raw []byte) {
					for i := range raw {
						raw[i] = byte(r.Uint32() >> r.UintN(25))
					}
				})
				e.Faults = r.Uint64() & r.Uint64() & r.Uint64()
				for i := range e.Comm {
					e.Comm[i] = byte(r.Uint32())
				}
				if out, err = printer.AppendCall(out, &calls.Call{Return: e, End: calls.Whole}); err != nil {
					t.Fatalf("%s: %v", spec, err)
				}
			}
		}
		check(t, out)
	}
}

// TestForgets: the table of stacks is bounded, and no ID comes twice.
func TestForgets(t *testing.T) {
	var s stackTable
	seen := map[uint64]bool{}
	for i := range uint64(3 * mostStacks) {
		id, isNew := s.ofAddresses([]uint64{i})
		again, isNewAgain := s.ofAddresses([]uint64{i})
		if !isNew || seen[id] || isNewAgain || again != id || len(s.ids) > mostStacks {
			t.Fatalf("stack %d: ID %d, new %t, then %d, new %t; %d kept", i, id, isNew, again, isNewAgain, len(s.ids))
		}
		seen[id] = true
	}
}

// read is an event of vfs_read(count, file->f_flags, return), as of ksys.
func readEvent(t testing.TB) (*Printer, *calls.Call) {
	view := testKernel(t)
	p := resolve(t, view, "ksys(u, p->x, return != 1)")
	e := recordOf(t, p, 0, func(_ *layout.Slot, raw []byte) { binary.LittleEndian.PutUint64(raw, 4096) })
	return newTestPrinter(t, view, p, false), &calls.Call{Return: e, End: calls.Whole}
}

func TestAllocates(t *testing.T) {
	p, call := readEvent(t)
	buf, err := p.AppendCall(nil, call)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { buf, _ = p.AppendCall(buf[:0], call) }); n != 0 {
		t.Errorf("%v allocations for an event", n)
	}
}

func BenchmarkCall(b *testing.B) {
	p, call := readEvent(b)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		call.Return.Time += 1000
		buf, _ = p.AppendCall(buf[:0], call)
	}
	b.SetBytes(int64(len(buf)))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkStruct prints whole sk_buffs, by the types of this kernel.
func BenchmarkStruct(b *testing.B) {
	view := kernel.Open(os.DirFS("/"))
	if _, err := view.BTF(); err != nil {
		b.Skip("this kernel has no types: ", err)
	}
	p := resolve(b, view, "ip_send_skb(*skb)")
	r := rand.New(rand.NewPCG(1, 2))
	e := recordOf(b, p, 0, func(_ *layout.Slot, raw []byte) {
		for i := range raw {
			if r.IntN(3) == 0 {
				raw[i] = byte(r.Uint32())
			}
		}
	})
	printer := New(output.Run{Plan: p, Kernel: view, Boot: boot}, false)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = printer.AppendCall(buf[:0], &calls.Call{Return: e, End: calls.Whole}); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(buf)))
}
