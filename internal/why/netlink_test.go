// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/trace"
)

// TestRequestName: the names are those of linux/rtnetlink.h.
func TestRequestName(t *testing.T) {
	for kind, want := range map[uint64]string{unix.RTM_NEWLINK: "RTM_NEWLINK", unix.RTM_SETLINK: "RTM_SETLINK", unix.RTM_DELADDR: "RTM_DELADDR", unix.RTM_GETROUTE: "RTM_GETROUTE",
		unix.RTM_NEWQDISC: "RTM_NEWQDISC", unix.RTM_DELTFILTER: "RTM_DELTFILTER", unix.RTM_GETACTION: "RTM_GETACTION", unix.RTM_NEWPREFIX: "RTM_NEWPREFIX",
		unix.RTM_SETNEIGHTBL: "RTM_SETNEIGHTBL", unix.RTM_GETADDRLABEL: "RTM_GETADDRLABEL", unix.RTM_SETDCB: "RTM_SETDCB", unix.RTM_GETNETCONF: "RTM_GETNETCONF",
		unix.RTM_DELMDB: "RTM_DELMDB", unix.RTM_NEWNSID: "RTM_NEWNSID", unix.RTM_GETSTATS: "RTM_GETSTATS", unix.RTM_NEWCACHEREPORT: "RTM_NEWCACHEREPORT",
		unix.RTM_NEWCHAIN: "RTM_NEWCHAIN", unix.RTM_DELNEXTHOP: "RTM_DELNEXTHOP", unix.RTM_NEWLINKPROP: "RTM_NEWLINKPROP", unix.RTM_GETVLAN: "RTM_GETVLAN",
		unix.RTM_GETNEXTHOPBUCKET: "RTM_GETNEXTHOPBUCKET", 15: "0xf", 16 + 4*27: "0x7c"} {
		if got := requestName(rtnetlinkFunction, kind); got != want {
			t.Errorf("%d: %s, want %s", kind, got, want)
		}
	}
	if got := requestName(genericFunction, unix.RTM_NEWLINK); got != "0x10" { // GENL_ID_CTRL
		t.Errorf("of generic netlink: %s", got)
	}
}

// A returned is a call that has returned a value.
type returned struct {
	expr.Machine // nothing else is read
	value        int32
}

func (r returned) Result(off uint32, p []byte) {
	copy(p, binary.LittleEndian.AppendUint32(nil, uint32(r.value))[off:])
}

// noTypes has no types: none are named.
type noTypes struct{}

func (noTypes) TypesByName(string) ([]btf.Type, error)        { return nil, nil }
func (noTypes) Enumerators(string) ([]expr.Enumerator, error) { return nil, nil }

// TestRequestSpec: only what is answered with an error is a request that has failed. A dump that has started
// returns -EINTR and is not answered by netlink_rcv_skb; with -EAGAIN, nfnetlink_rcv_batch begins again.
func TestRequestSpec(t *testing.T) {
	u16, u32 := &btf.Int{Name: "__u16", Size: 2}, &btf.Int{Name: "__u32", Size: 4}
	header := &btf.Pointer{Target: &btf.Struct{Name: "nlmsghdr", Size: 16, Members: []btf.Member{{Name: "nlmsg_len", Type: u32}, {Name: "nlmsg_type", Type: u16, Offset: 32}, {Name: "nlmsg_flags", Type: u16, Offset: 48}}}}
	info := &btf.Pointer{Target: &btf.Struct{Name: "nfnl_info", Size: 8, Members: []btf.Member{{Name: "nlh", Type: header}}}}
	for _, c := range []struct {
		function, header string
		param            expr.Param
		again            bool // -EAGAIN is recorded
	}{
		{rtnetlinkFunction, "nlh", expr.Param{Name: "nlh", Type: header}, true},
		{genericFunction, "nlh", expr.Param{Name: "nlh", Type: header}, true},
		{"nf_tables_newrule", "info->nlh", expr.Param{Name: "info", Type: info}, false},
	} {
		spec, err := expr.Parse(requestSpec(c.function, c.header))
		if err != nil {
			t.Fatal(err)
		}
		items, err := expr.Check(spec, &expr.Scope{Func: c.function, Params: []expr.Param{c.param}, Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, Types: noTypes{}})
		if err != nil {
			t.Fatal(err)
		}
		for value, want := range map[int32]bool{0: false, 1: false, -int32(unix.EPERM): true, -int32(unix.EINTR): false, -int32(unix.EAGAIN): c.again, -int32(unix.EOPNOTSUPP): true, -4095: true, -4096: false} {
			holds := true
			for _, item := range items {
				if item.Predicate == nil {
					continue
				}
				v, err := expr.Eval(item.Predicate, returned{value: value})
				if err != nil {
					t.Fatal(err)
				}
				holds = holds && v != 0
			}
			if holds != want {
				t.Errorf("%s, %d: recorded: %t, want %t", c.function, value, holds, want)
			}
		}
	}
}

// TestServesFilter: what nfnetlink calls for requests is known by its type (struct nfnl_callback in linux/netfilter/nfnetlink.h).
func TestServesFilter(t *testing.T) {
	pointer := func(to string) btf.FuncParam {
		return btf.FuncParam{Name: "info", Type: &btf.Pointer{Target: &btf.Const{Type: &btf.Struct{Name: to}}}}
	}
	function := func(params ...btf.FuncParam) *btf.Func { return &btf.Func{Type: &btf.FuncProto{Params: params}} }
	for i, c := range []struct {
		f    *btf.Func
		want bool
	}{
		{function(btf.FuncParam{Name: "skb"}, pointer(filterInfo), btf.FuncParam{Name: "nla"}), true},
		{function(btf.FuncParam{Name: "skb"}, pointer("genl_info"), btf.FuncParam{Name: "nla"}), false},
		{function(btf.FuncParam{Name: "portid"}, pointer(filterInfo), btf.FuncParam{Name: "nla"}, btf.FuncParam{Name: "reset"}), false},
		{function(pointer(filterInfo)), false},
		{function(btf.FuncParam{Name: "skb"}, btf.FuncParam{Name: "info", Type: &btf.Int{}}, btf.FuncParam{Name: "nla"}), false},
		{&btf.Func{Type: &btf.Int{}}, false},
		{nil, false},
	} {
		if got := servesFilter(c.f); got != c.want {
			t.Errorf("%d: %t", i, got)
		}
	}
}

// filterFiles are those of a kernel with a module that serves requests of nfnetlink by the function
// int nf_tables_newrule(void *skb, struct nfnl_info *info, void *nla). first is the ID of the first type of a module.
func filterFiles(t *testing.T) (files fstest.MapFS, first uint32) {
	t.Helper()
	u16, u32 := &btf.Int{Name: "__u16", Size: 2}, &btf.Int{Name: "__u32", Size: 4}
	header := &btf.Struct{Name: "nlmsghdr", Size: 16, Members: []btf.Member{{Name: "nlmsg_len", Type: u32}, {Name: "nlmsg_type", Type: u16, Offset: 32}, {Name: "nlmsg_flags", Type: u16, Offset: 48}}}
	info := &btf.Struct{Name: filterInfo, Size: 16, Members: []btf.Member{{Name: "nlh", Type: &btf.Pointer{Target: header}, Offset: 64}}}
	nothing := &btf.Pointer{Target: &btf.Void{}}
	serve := &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, Params: []btf.FuncParam{{Name: "skb", Type: nothing}, {Name: "info", Type: &btf.Pointer{Target: info}}, {Name: "nla", Type: nothing}}}
	builder, err := btf.NewBuilder([]btf.Type{&btf.Int{Name: "long unsigned int", Size: 8}, &btf.Int{Name: "long int", Size: 8, Encoding: btf.Signed}, serve}, nil)
	if err != nil {
		t.Fatal(err)
	}
	base, err := builder.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(base))
	if err != nil {
		t.Fatal(err)
	}
	proto := uint32(0)
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := typ.(*btf.FuncProto); ok {
			proto = first
		}
		first++
	}
	return fstest.MapFS{
		"proc/kallsyms":            {Data: []byte("ffffffffc0001000 t nf_tables_newrule\t[nf_tables]\n")},
		"sys/kernel/btf/vmlinux":   {Data: base},
		"sys/kernel/btf/nf_tables": {Data: functionBTF(base, "nf_tables_newrule", proto)},
	}, first
}

// functionBTF writes the BTF of a module with a function, whose prototype has an ID. After it come further types.
func functionBTF(vmlinux []byte, name string, proto uint32, further ...uint32) []byte {
	ne := binary.NativeEndian
	const header, function = 24, 12 << 24
	types := append([]uint32{ne.Uint32(vmlinux[20:]), function, proto}, further...)
	size := uint32(4 * len(types))
	blob := append(ne.AppendUint16(nil, 0xeb9f), 1, 0)
	for _, w := range append([]uint32{header, 0, size, size, uint32(len(name) + 1)}, types...) {
		blob = ne.AppendUint32(blob, w)
	}
	return append(append(blob, name...), 0)
}

// TestAddRequest: a function of nfnetlink has the header of its request in info.
func TestAddRequest(t *testing.T) {
	files, _ := filterFiles(t)
	r := &Runner{Kernel: kernel.Open(files)}
	texts, headers := r.requestSpecs()
	if want := map[string]string{"nf_tables_newrule": "info->nlh"}; !maps.Equal(headers, want) {
		t.Fatalf("headers of %v, want %v", headers, want)
	}
	specs, err := trace.ParseSpecs(texts)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.Resolve(r.Kernel, specs, plan.Options{Arch: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	refused := int64(-int(unix.ENOENT))
	has := map[string]uint64{"info->nlh->nlmsg_type": 0xa06, "info->nlh->nlmsg_flags": 0xc01, "info->nlh->nlmsg_len": 92, "(unsigned long)info->nlh": 0xffff888001234000, "(long)return": uint64(refused)}
	raw := bpf.AppendEvent(nil, &bpf.Event{Time: 5, PID: 7, TID: 8, Kind: bpf.KindCall, Comm: [16]byte{'n', 'f', 't'}})
	raw = append(raw, make([]byte, p.Probes[0].Return.Record.Size)...)
	var e event.Event
	if err := event.Decode(p, raw, &e); err != nil {
		t.Fatal(err)
	}
	w := watcher{runner: r, headers: headers, fields: output.NewFields(output.Names{}), seen: &Seen{}}
	fields, err := w.fields.Of(&e)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		if slot, _ := f.Slots(); slot != nil {
			binary.LittleEndian.PutUint64(e.Data[slot.Off:], has[f.Label()])
		}
	}
	if err := w.add(&e); err != nil {
		t.Fatal(err)
	}
	f := w.seen.Calls[0]
	want := request{header: 0xffff888001234000, kind: 0xa06, flags: 0xc01, len: 92}
	if f.request == nil || *f.request != want || f.Errno != uint64(unix.ENOENT) || f.Function != "nf_tables_newrule" || f.PID != 7 || f.TID != 8 || f.Time != 5 || f.Comm != "nft" {
		t.Errorf("%+v with %+v, want %+v", f, f.request, want)
	}
}

// TestMalformedModule: malformed types of a module that has nothing to do with nfnetlink do not matter. Those of one that
// has are told.
func TestMalformedModule(t *testing.T) {
	for module, told := range map[string]bool{"nfs": false, "nfsd": false, "nfc": false, "nf_log_syslog": true, "nft_ct": true, "nfnetlink_log": true, "ip_set_hash_ip": true} {
		const proto, nowhere = 13<<24 | 1, 1 << 20 // the name of its parameter
		files, first := filterFiles(t)
		files["proc/kallsyms"].Data = append(files["proc/kallsyms"].Data, "ffffffffc0002000 t a\t["+module+"]\n"...)
		files["sys/kernel/btf/"+module] = &fstest.MapFile{Data: functionBTF(files["sys/kernel/btf/vmlinux"].Data, "a", first+1, 0, proto, 0, nowhere, 0)}
		var log strings.Builder
		_, headers := (&Runner{Kernel: kernel.Open(files), Log: slog.New(slog.NewTextHandler(&log, nil))}).requestSpecs()
		if got := strings.Contains(log.String(), "requests of nfnetlink are not looked at: "); got != told || len(headers) == 0 != told {
			t.Errorf("%s: headers of %v, and it says %q", module, headers, log.String())
		}
	}
}

// askedFor is a request that has failed at some time.
func askedFor(time uint64, tid uint32, errno unix.Errno) Failure {
	return Failure{Time: time, PID: tid, TID: tid, Comm: "ip", Number: requestNumber, Errno: uint64(errno), Function: rtnetlinkFunction, request: &request{kind: unix.RTM_NEWLINK, flags: 0x605, len: 52}}
}

// TestAssignAnswers: the answer has the header of its request and comes from the same thread, with the same error.
func TestAssignAnswers(t *testing.T) {
	open := call("openat", unix.ENOENT, "/a")
	open.Time, open.TID = 4, 1
	s := &Seen{Calls: []Failure{askedFor(1, 1, unix.EINVAL), askedFor(2, 2, unix.EPERM), askedFor(3, 1, unix.EOPNOTSUPP), open, askedFor(9, 1, unix.EINVAL)}}
	w := watcher{seen: s, answers: []answer{{5, uint64(unix.EOPNOTSUPP), requestPlace{1, 0}, "Unknown device type"}, {6, uint64(unix.EINVAL), requestPlace{2, 0}, "of another error"}, {7, uint64(unix.ENODEV), requestPlace{3, 0}, "of nobody"}}}
	w.assignAnswers()
	for i, want := range []string{"", "", "Unknown device type", "-", ""} {
		if q := s.Calls[i].request; q != nil && q.answer != want {
			t.Errorf("%d: %q, want %q", i, q.answer, want)
		}
	}
}

// TestAssignAnswersOrder: a request is answered once, and by nothing before it. A request and an answer of the same time are in
// this order. Answers need not come in the order of time.
func TestAssignAnswersOrder(t *testing.T) {
	s := &Seen{Calls: []Failure{askedFor(2, 1, unix.EINVAL), askedFor(4, 1, unix.EINVAL), askedFor(6, 2, unix.EINVAL), askedFor(8, 3, unix.ENOENT), askedFor(8, 4, unix.ENOENT)}}
	w := watcher{seen: s, answers: []answer{{6, uint64(unix.EINVAL), requestPlace{2, 0}, "third"}, {5, uint64(unix.EINVAL), requestPlace{1, 0}, "second"}, {7, uint64(unix.EINVAL), requestPlace{1, 0}, "of nobody"},
		{3, uint64(unix.EINVAL), requestPlace{1, 0}, "first"}, {1, uint64(unix.EINVAL), requestPlace{1, 0}, "too early"},
		{9, uint64(unix.ENOENT), requestPlace{3, 0}, ""}, {9, uint64(unix.EPERM), requestPlace{4, 0}, "of another error"}, {10, uint64(unix.ENOENT), requestPlace{3, 0}, "of genetlink"}, {10, uint64(unix.ENOENT), requestPlace{4, 0}, "of genetlink"}}}
	w.assignAnswers()
	for i, want := range []string{"first", "second", "third", "", ""} {
		if got := s.Calls[i].request.answer; got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
}

// TestAssignAnswersBatch: the errors of a batch are sent when all its requests were served, in their order. Each is known by its
// header. Generic netlink of the same thread has other headers.
func TestAssignAnswersBatch(t *testing.T) {
	s := &Seen{}
	for i := range uint64(3) {
		f := askedFor(i+1, 1, unix.ENOENT)
		f.Function, f.request.header = "nf_tables_newrule", 0x1000+i
		s.Calls = append(s.Calls, f)
	}
	w := watcher{seen: s}
	for i, text := range []string{"first", "second", "third"} {
		w.keepAnswer(answer{uint64(5 + i), uint64(unix.ENOENT), requestPlace{1, 0x1000 + uint64(i)}, text})
	}
	w.keepAnswer(answer{9, uint64(unix.ENOENT), requestPlace{1, 0x2000}, "of nobody"})
	w.assignAnswers()
	for i, want := range []string{"first", "second", "third"} {
		if got := s.Calls[i].request.answer; got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
}

// TestAddAnswer: an answer without a text is that of a request as well. Without it the request would get the text of what
// another kind of netlink answers later.
func TestAddAnswer(t *testing.T) {
	w := watcher{seen: &Seen{Calls: []Failure{askedFor(1, 1, unix.ENOENT)}}}
	e := &event.Event{}
	e.Time, e.TID = 2, 1
	w.addAnswer(e, values{}) // of which nothing could be read
	w.keepAnswer(answer{3, uint64(unix.ENOENT), requestPlace{1, 0}, "of genetlink"})
	w.assignAnswers()
	if got := w.seen.Calls[0].request.answer; got != "" {
		t.Errorf("the answer is %q", got)
	}
}

// TestManyAnswers: the last ones are kept. A request whose answer may be forgotten does not get the text of another.
func TestManyAnswers(t *testing.T) {
	const n = 5 * mostAnswers
	w := watcher{seen: &Seen{}}
	for i := range uint64(n) {
		w.seen.Calls = append(w.seen.Calls, askedFor(4*i, 1, unix.ENOENT))
		w.keepAnswer(answer{4*i + 1, uint64(unix.ENOENT), requestPlace{1, 0}, "its own"})
		if i == 0 {
			w.seen.Calls = append(w.seen.Calls, askedFor(2, 2, unix.ENOENT)) // it takes long until the next answer of its thread is kept
			w.keepAnswer(answer{3, uint64(unix.ENOENT), requestPlace{2, 0}, "forgotten"})
		}
	}
	w.keepAnswer(answer{4 * n, uint64(unix.ENOENT), requestPlace{2, 0}, "of genetlink"})
	if len(w.answers) < mostAnswers || len(w.answers) >= 2*mostAnswers {
		t.Errorf("%d answers are kept", len(w.answers))
	}
	kept := len(w.answers) - 1
	w.assignAnswers()
	for i, f := range w.seen.Calls {
		want := ""
		if f.TID == 1 && i >= len(w.seen.Calls)-kept {
			want = "its own"
		}
		if f.request.answer != want {
			t.Fatalf("%d of %d, thread %d: %q, want %q", i, len(w.seen.Calls), f.TID, f.request.answer, want)
		}
	}
}

// TestRequestPage: a request is named by the text of its answer, and printed with it.
func TestRequestPage(t *testing.T) {
	said := askedFor(1, 1, unix.EOPNOTSUPP)
	said.request.answer = "Unknown device type"
	later := call("openat", unix.EACCES, "/a")
	later.Time, later.Comm = 2, "ip"
	s := &Seen{Calls: []Failure{said, later}, Messages: []Message{{Time: 3, PID: 1, Text: "Error: Unknown device type.\n"}}, Status: 2}
	i, reason, err := s.Choose(Wish{})
	if err != nil || i != 0 {
		t.Fatalf("%d %q %v", i, reason, err)
	}
	p := NewPage([]string{"ip"}, s)
	p.Choose(s, i, reason)
	want := `netlink failed: operation not supported
    netlink(RTM_NEWLINK, 0x605, 52) = -EOPNOTSUPP
    the answer of the kernel says "Unknown device type"
    by ip[1], in a command with exit status 2; chosen since ip wrote "Error: Unknown device type."
`
	if got := string(p.AppendCall(nil)); got != want {
		t.Errorf("printed:\n%s\nwant:\n%s", got, want)
	}
	s.Messages[0].Text = "RTNETLINK answers: Operation not supported\n" // without the text of the answer
	if i, _, err := s.Choose(Wish{}); err != nil || i != 0 {
		t.Errorf("%d %v", i, err)
	}
}
