// SPDX-License-Identifier: Apache-2.0

package requery

import (
	"encoding/binary"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/exprfuzz"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/layout"
)

// packets is a kernel with functions on a packet, which belongs to a socket.
func packets(t testing.TB) *kernel.View {
	t.Helper()
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	sock := &btf.Struct{Name: "sock", Size: 24, Members: []btf.Member{
		{Name: "sk_state", Type: integer}, {Name: "sk_name", Type: &btf.Array{Index: integer, Type: char, Nelems: 16}, Offset: 64}}}
	skb := &btf.Struct{Name: "sk_buff", Size: 32, Members: []btf.Member{
		{Name: "len", Type: integer}, {Name: "cb", Type: &btf.Array{Index: integer, Type: integer, Nelems: 3}, Offset: 32},
		{Name: "sk", Type: &btf.Pointer{Target: sock}, Offset: 128}, {Name: "dev", Type: &btf.Pointer{Target: char}, Offset: 192}}}
	function := func(name string, params ...btf.FuncParam) *btf.Func {
		return &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: integer, Params: params}}
	}
	packet := btf.FuncParam{Name: "skb", Type: &btf.Pointer{Target: skb}}
	return kernelOf(t, function("ip_send_skb", packet, btf.FuncParam{Name: "id", Type: integer}), function("ip_rcv", packet), function("vfs_read", btf.FuncParam{Name: "count", Type: integer}))
}

// What was not recorded is refused, with its place and with what to record.
func TestRefuses(t *testing.T) {
	view := packets(t)
	const f = "ip_send_skb("
	for _, test := range []struct{ base, asked, want string }{
		{f + "skb)", f + "skb->sk->sk_state == 1)", `
  ip_send_skb(skb->sk->sk_state == 1)
              ^~~~~~~~~~~~~~~~~
  column 13: ` + "`skb->sk->sk_state` was not captured; record `*skb->sk` too"},
		{f + "skb)", f + "skb->len, skb->sk)", `
  ip_send_skb(skb->len, skb->sk)
                        ^~~~~~~
  column 23: ` + "what `skb->sk` points to was not captured; record `skb->sk` too, or ask for `hex(skb->sk)`"},
		{f + "skb)", f + "skb->sk == NULL, hex(skb->sk), skb->cb[2], skb->cb[id & 1])", `
  …send_skb(skb->sk == NULL, hex(skb->sk), skb->cb[2], skb->cb[id & 1])
                                                               ^~
  column 64: ` + "`id` was not captured; record `id` too"},
		{f + "skb->len)", f + "skb->len > 5 && skb->cb[1] == 2, id)", `
  ip_send_skb(skb->len > 5 && skb->cb[1] == 2, id)
                              ^~~~~~~~~~
  column 29: ` + "`skb->cb[1]` was not captured; record `*skb` too" + `
  ip_send_skb(skb->len > 5 && skb->cb[1] == 2, id)
                                               ^~
  column 46: ` + "`id` was not captured; record `id` too"},
		{f + "skb)", f + "exit(skb->len), return)", `
  ip_send_skb(exit(skb->len), return)
                   ^~~~~~~~
  column 18: ` + "`exit(skb->len)` was not captured; record `exit(*skb)` too" + `
  ip_send_skb(exit(skb->len), return)
                              ^~~~~~
  column 29: ` + "`return` was not captured; record `return` too"},
		{f + "skb, return == 0)", f + `$comm ~ "x*", $uid == 0, $duration > 5)`, `
  ip_send_skb($comm ~ "x*", $uid == 0, $duration > 5)
              ^~~~~
  column 13: ` + "`$comm` was recorded as it is at return; ask for `exit($comm)`" + `
  ip_send_skb($comm ~ "x*", $uid == 0, $duration > 5)
                            ^~~~
  column 27: ` + "`$uid` was not captured; record `$uid` too" + `
  ip_send_skb($comm ~ "x*", $uid == 0, $duration > 5)
                                       ^~~~~~~~~
  column 38: ` + "`$duration` was not captured; record `$duration` too"},
		{f + "skb)", f + "str(skb->dev), buf(skb->dev, 4))", `
  ip_send_skb(str(skb->dev), buf(skb->dev, 4))
              ^~~~~~~~~~~~~
  column 13: ` + "`str(skb->dev)` was not captured; record `str(skb->dev)` too" + `
  ip_send_skb(str(skb->dev), buf(skb->dev, 4))
                             ^~~~~~~~~~~~~~~~
  column 28: ` + "`buf(skb->dev, 4)` was not captured; record `buf(skb->dev, 4)` too"},
		{f + "skb)", f + "(struct tcp_sock *)skb->sk)", `
  ip_send_skb((struct tcp_sock *)skb->sk)
               ^~~~~~~~~~~~~~~~~
  column 14: the recording has no type "struct tcp_sock"; one made with --full has all that the kernel has`},
		{f + "skb)", "ip_*(id)", `
  ip_*(id)
       ^~
  column 6: ` + "`id` was not captured; record `id` too"},
		{f + "skb)", "ip_rcv", `
  ip_rcv
  ^~~~~~
  column 1: no calls of ip_rcv were recorded; recorded are ip_send_skb`},
		{f + "skb)", ":net/*.c", `
  :net/*.c
  ^~~~~~~~
  column 1: a recording does not tell which source file defines a function`},
	} {
		_, err := New(planOf(t, view, layout.MethodFentry, test.base), view, Question{Specs: parse(t, test.asked), Arch: "amd64"})
		if got := "\n" + faults(err); got != test.want {
			t.Errorf("recorded %s, asked %s:%s\nwant%s", test.base, test.asked, got, test.want)
		}
	}
}

// TestRefusesRedacted: what a run hid is not asked to be recorded again.
func TestRefusesRedacted(t *testing.T) {
	view := packets(t)
	p, _, err := plan.Resolve(view, parse(t, "ip_send_skb(skb->len, id)"), plan.Options{Arch: "amd64", Redact: []string{"i*"},
		Method: func(*plan.Probe) layout.Method { return layout.MethodFentry }})
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(p, view, Question{Specs: parse(t, "ip_send_skb(skb->len, id > 1)"), Arch: "amd64"})
	if want := "`id` was redacted when it was recorded"; !strings.Contains(faults(err), want) {
		t.Errorf("%s\nwant %s", faults(err), want)
	}
}

func faults(err error) string {
	if err == nil {
		return "no fault"
	}
	return err.Error()
}

// newSimulated returns a call of ip_send_skb with a packet at an address.
func newSimulated(skb uint64, id uint64) *simulated {
	const size = 4096
	c := &simulated{Machine: exprfuzz.Machine{Words: []uint64{skb, id}, Before: make([]byte, size), Kernel: kernelMemory, User: 0x7f00_0000_0000, PID: 10, TID: 11, Name: "ping"}, start: 1e9, stop: 2e9}
	binary.LittleEndian.PutUint32(c.Before, 84)
	c.After = slices.Clone(c.Before)
	return c
}

const kernelMemory = 0xffff_8880_0000_0000

func both(calls ...*simulated) (moments []moment) {
	for _, c := range calls {
		moments = append(moments, moment{c, expr.AtEntry}, moment{c, expr.AtReturn})
	}
	return moments
}

// ask returns the text of the answer and what it has counted.
func ask(t *testing.T, view *kernel.View, base, asked string, moments []moment) (string, Counts) {
	t.Helper()
	p := planOf(t, view, layout.MethodKprobe, base)
	a, err := New(p, view, Question{Specs: parse(t, asked), Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	return printed(t, a.Plan(), a.Records(sent(p, moments)), a.Pairs()), a.Counts()
}

// An object that could not be read as a whole may have parts that can be: then the recording does
// not tell. What a null pointer points to certainly could not be read.
func TestUnreadable(t *testing.T) {
	view := packets(t)
	atEnd := uint64(kernelMemory + 4096 - 8) // len can be read there, the whole packet cannot
	for _, test := range []struct {
		skb  uint64
		spec string
		want Counts
		text string
	}{
		{kernelMemory, "ip_send_skb(skb->len == 84)", Counts{}, "skb->len = (int)84"},
		{0, "ip_send_skb(skb->len == 84)", Counts{Faults: 1}, ""},
		{^uint64(11), "ip_send_skb(skb->len == 84)", Counts{Faults: 1}, ""},
		{0x1000, "ip_send_skb(skb->len == 84)", Counts{Faults: 1}, ""},
		{atEnd, "ip_send_skb(skb->len == 84)", Counts{Unsure: 1}, ""},
		{atEnd, "ip_send_skb(skb->len)", Counts{Partial: 1}, "skb->len = ?"},
		{atEnd, "ip_send_skb(skb == NULL || id == 7, id)", Counts{}, "id = (int)7"},
		{kernelMemory, "ip_send_skb(skb->cb[id] == 0)", Counts{Unsure: 1}, ""}, // cb[7] is beyond the packet
	} {
		text, counts := ask(t, view, "ip_send_skb(skb, id)", test.spec, both(newSimulated(test.skb, 7)))
		if counts != test.want || !strings.Contains(text, test.text) || (text == "") != (test.text == "") {
			t.Errorf("%s of %#x: %+v, want %+v:\n%s", test.spec, test.skb, counts, test.want, text)
		}
	}
}

// A string that was recorded with an object ends at its NUL, or where the object does.
func TestText(t *testing.T) {
	view := packets(t)
	c := newSimulated(kernelMemory, 1)
	binary.LittleEndian.PutUint64(c.Before[16:], kernelMemory+64)
	copy(c.Before[64+8:], "listener")
	for asked, want := range map[string]string{
		`ip_send_skb(skb->sk->sk_name ~ "li*er", skb->sk->sk_name)`: `skb->sk->sk_name = (char[16])"listener"`,
		`ip_send_skb(str(&skb->sk->sk_name) == "listener")`:         `str(&skb->sk->sk_name) = `,
		`ip_send_skb(skb->sk->sk_name == "other")`:                  "",
		`ip_send_skb(buf(&skb->sk->sk_name, 4))`:                    `buf(&skb->sk->sk_name, 4) = `,
	} {
		text, counts := ask(t, view, "ip_send_skb(skb, skb->sk)", asked, both(c))
		if counts != (Counts{}) || !strings.Contains(text, want) || (text == "") != (want == "") {
			t.Errorf("%s: %+v\n%s\nwant %s", asked, counts, text, want)
		}
	}
}

// A call that was recorded at its return is shown as a run with --join shows it. A call whose
// entry is missing is left out where it decides.
func TestHalves(t *testing.T) {
	view := packets(t)
	c := newSimulated(kernelMemory, 1)
	text, counts := ask(t, view, "ip_send_skb(skb, return == 0)", "ip_send_skb(skb->len, return)", both(c))
	if strings.Count(text, "ip_send_skb(") != 1 || !strings.Contains(text, "2.000000 ip_send_skb(\n        skb->len = (int)84,\n\n        return = (int)0\n") || counts != (Counts{}) {
		t.Errorf("%+v\n%s", counts, text)
	}
	for asked, want := range map[string]Counts{
		"ip_send_skb(return == 0)":            {NoEntry: 1},
		"ip_send_skb(skb->len == 84, return)": {NoEntry: 1},
		"ip_send_skb(return)":                 {},
	} {
		text, counts := ask(t, view, "ip_send_skb(skb, return)", asked, []moment{{c, expr.AtReturn}})
		if counts != want || (text == "") == (want == Counts{}) {
			t.Errorf("%s: %+v\n%s", asked, counts, text)
		}
	}
}

// Of a function that was recorded for several SPECs, the first that has the values answers. A SPEC
// without parentheses shows what all have recorded.
func TestSeveral(t *testing.T) {
	view := packets(t)
	p := planOf(t, view, layout.MethodKprobe, "ip_send_skb(id)", "ip_send_skb(skb)", "ip_send_skb(skb, id)", "vfs_read(count)")
	moments := both(newSimulated(kernelMemory, 5))
	for asked, want := range map[string]struct{ blocks, notes, skbs int }{
		"ip_send_skb(skb->len)": {1, 1, 0},
		"ip_send_skb(id)":       {1, 2, 0},
		"ip_send_skb":           {3, 0, 2},
		"*":                     {4, 0, 2},
	} {
		a, err := New(p, view, Question{Specs: parse(t, asked), Arch: "amd64"})
		if err != nil {
			t.Fatal(err)
		}
		text := printed(t, a.Plan(), a.Records(sent(p, moments)), false)
		if n := strings.Count(text, ");\n"); n != want.blocks || len(a.Notes()) != want.notes || strings.Count(text, "skb = ") != want.skbs {
			t.Errorf("%s: %d blocks, notes %v, want %+v\n%s", asked, n, a.Notes(), want, text)
		}
	}
}

// Filters look at the task and the time of each record, and let marks of losses pass.
func TestFilter(t *testing.T) {
	view := packets(t)
	p := planOf(t, view, layout.MethodKprobe, "ip_send_skb(id)")
	record := func(ms uint64, pid, tid uint32, inner bpf.Inner, comm string) []byte {
		e := bpf.Event{Time: 5e9 + ms*1e6, PID: pid, TID: tid, Inner: inner, Kind: bpf.KindEntry}
		copy(e.Comm[:], comm)
		return binary.LittleEndian.AppendUint64(bpf.AppendEvent(nil, &e), ms)
	}
	lost := bpf.Event{Time: 5e9 + 2e6, Probe: uint32(bpf.LostRingbuf), Kind: bpf.KindLost}
	mark := append(bpf.AppendEvent(nil, &lost), make([]byte, bpf.LostSize)...)
	raw := [][]byte{record(0, 1, 2, bpf.Inner{}, "sh"), record(1, 3, 4, bpf.Inner{PID: 1, TID: 2, Ours: true}, "a-name-of-15-by"), mark, record(3, 1, 5, bpf.Inner{PID: 9, TID: 9}, "ssh")}
	at := func(text string) Moment {
		m, err := ParseMoment(text)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, test := range []struct {
		filter Filter
		want   string
	}{
		{Filter{}, "0 1 lost 3"},
		{Filter{PIDs: []uint32{1}}, "0 1 lost 3"},
		{Filter{PIDs: []uint32{3, 9}}, "lost"},
		{Filter{NotPIDs: []uint32{1}}, "lost"},
		{Filter{TIDs: []uint32{2}}, "0 1 lost"},
		{Filter{Comms: []string{"sh"}}, "0 lost"},
		{Filter{Comms: []string{"*sh", "a-name-of-15-bytes"}}, "0 1 lost 3"},
		{Filter{Comms: []string{"a-name-of-15-bytes*"}}, "1 lost"},
		{Filter{Comms: []string{"a-name-of-15-by*x"}}, "1 lost"},
		{Filter{NotComms: []string{"a-name-of-15-bytes*"}}, "0 lost 3"},
		{Filter{NotComms: []string{"s*"}}, "1 lost"},
		{Filter{Range: Range{Since: at("+1ms")}}, "1 lost 3"},
		{Filter{Range: Range{Since: at("5.001"), Until: at("+2ms")}}, "1 lost"},
		{Filter{Range: Range{Until: at("5")}}, "0"},
	} {
		a, err := New(p, view, Question{Filter: test.filter})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for e, err := range event.All(a.Plan(), a.Records(each(raw))) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == bpf.KindLost {
				got = append(got, "lost")
			} else {
				got = append(got, string('0'+e.Data[0]))
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%+v: %q, want %q", test.filter, got, test.want)
		}
	}
}

func each(raw [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, r := range raw {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Whatever records hold, the answer's records are well-formed.
func FuzzRecords(f *testing.F) {
	view := packets(f)
	var plans []*plan.Plan
	var answers []*Answer
	for _, base := range []string{"ip_send_skb(skb, id, return, str(skb->dev), buf(skb->dev, id))", "ip_send_skb(*skb, str(skb->dev), skb->sk, return == id)"} {
		p := planOf(f, view, layout.MethodKprobe, base)
		a, err := New(p, view, Question{Arch: "amd64", Specs: parse(f, `ip_send_skb(skb->len > 4, skb->dev == "eth0", return)`, "ip_send_skb(skb->cb[skb->len], *skb, return == 1)", "ip_*", "ip_send_skb(buf(&skb->cb, skb->len), skb->dev)")})
		if err != nil {
			f.Fatal(err)
		}
		plans, answers = append(plans, p), append(answers, a)
		var seed []byte
		for raw := range sent(p, both(newSimulated(kernelMemory, 1), newSimulated(0, 2))) {
			seed = append(binary.LittleEndian.AppendUint16(seed, uint16(len(raw))), raw...)
		}
		f.Add(len(plans)-1, seed)
	}
	f.Fuzz(func(t *testing.T, which int, data []byte) {
		i := int(uint(which) % uint(len(plans)))
		var raw [][]byte
		for len(data) >= 2 {
			n := min(int(binary.LittleEndian.Uint16(data)), len(data)-2)
			raw, data = append(raw, data[2:2+n]), data[2+n:]
		}
		records := 0
		for out, err := range answers[i].Records(each(raw)) {
			if err != nil {
				break // of the input
			}
			var e event.Event
			if err := event.Decode(answers[i].Plan(), out, &e); err != nil {
				t.Fatal(err)
			}
			records++
		}
		if most := 8 * len(raw); records > most {
			t.Errorf("%d records of %d", records, len(raw))
		}
	})
}

// TestTargetOfReturns: SPECs of the calls of a function of user space and of its returns are on one thing.
func TestTargetOfReturns(t *testing.T) {
	probe := func(name string, offset uint64) *plan.Probe {
		return &plan.Probe{Hook: plan.Hook{Kind: expr.UserFunction, File: "/bin/x", Name: "f", Offset: offset},
			Probe: layout.Probe{Name: name, Kind: expr.UserFunction}}
	}
	call, back, inside := targetOf(probe("uprobe:/bin/x:f", 0)), targetOf(probe("uretprobe:/bin/x:f", 0)), targetOf(probe("uprobe:/bin/x:f+0x4", 4))
	if call != back || call == inside {
		t.Errorf("%v, %v, %v", call, back, inside)
	}
}
