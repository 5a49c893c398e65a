// SPDX-License-Identifier: Apache-2.0

// Package formattest has the calls and sessions that the tests of several formats print.
package formattest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cilium/ebpf/btf"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/layout"
)

// Addresses of the functions of the kernel.
const (
	Syscall uint64 = 0xffffffff81000000
	Open    uint64 = 0xffffffff81001000
	Read    uint64 = 0xffffffff81002000
	alloc   uint64 = 0xffffffff81003000
)

// Boot is when the kernel was booted.
var Boot = time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)

// A Trace is a traced kernel with three functions whose names begin with Prefix:
//
//	long PREFIXopen(int flags)
//	int PREFIXread(char *path, unsigned int count, _Bool quick, struct request *r)
//	void *PREFIXalloc(unsigned long size)
//
// They are called by entry_SYSCALL_64, into which do_syscall is inlined.
type Trace struct {
	t       testing.TB
	view    *kernel.View
	types   []byte // as BTF
	symbols []byte // as in kallsyms
	Run     output.Run
	// Redact are globs over what Calls and Sessions are not to capture.
	Redact []string
	// Owner is what records have of the task whose call it was.
	Owner layout.Owner
	// Release is that of the kernel in Recording.
	Release string
}

// New returns the kernel with a prefix.
func New(t testing.TB, prefix string) *Trace {
	t.Helper()
	k := &Trace{t: t, Release: "6.12.0", types: types(t, prefix), symbols: fmt.Appendf(nil, "%x T entry_SYSCALL_64\n%x T %sopen\n%x T %sread\n%x T %salloc\t[mod]\n%x T end\n",
		Syscall, Open, line(prefix), Read, line(prefix), alloc, line(prefix), alloc+0x1000)}
	var err error
	k.view, err = kernel.OpenBTF(bytes.NewReader(k.types), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	named := kernel.Open(fstest.MapFS{"proc/kallsyms": {Data: k.symbols}})
	k.Run = output.Run{Kernel: named, Resolver: symbols.New(named, lines{}, symbols.LevelInlines), Boot: Boot, Arch: "amd64"}
	return k
}

// line returns a name as it can stand in kallsyms.
func line(name string) string {
	return strings.NewReplacer("\n", "", "\t", "", "\r", "", " ", "").Replace(name)
}

// types is the BTF of the kernel.
func types(t testing.TB, prefix string) []byte {
	integer := func(name string, size uint32, e btf.IntEncoding) *btf.Int {
		return &btf.Int{Name: name, Size: size, Encoding: e}
	}
	char, flags, long := integer("char", 1, btf.Signed), integer("int", 4, btf.Signed), integer("long int", 8, btf.Signed)
	request := &btf.Struct{Name: "request", Size: 8, Members: []btf.Member{{Name: "id", Type: flags}, {Name: "tag", Type: flags, Offset: 32}}}
	function := func(name string, result btf.Type, params ...btf.FuncParam) btf.Type {
		return &btf.Func{Name: prefix + name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: result, Params: params}}
	}
	b, err := btf.NewBuilder([]btf.Type{
		function("open", long, btf.FuncParam{Name: "flags", Type: flags}),
		function("read", flags, btf.FuncParam{Name: "path", Type: &btf.Pointer{Target: char}}, btf.FuncParam{Name: "count", Type: integer("unsigned int", 4, btf.Unsigned)},
			btf.FuncParam{Name: "quick", Type: integer("_Bool", 1, btf.Bool)}, btf.FuncParam{Name: "r", Type: &btf.Pointer{Target: request}}),
		function("alloc", &btf.Pointer{Target: (*btf.Void)(nil)}, btf.FuncParam{Name: "size", Type: integer("unsigned long", 8, btf.Unsigned)}),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(raw)
}

// lines is the debug info of the kernel.
type lines struct{}

func (lines) Lookup(dst []debuginfo.Frame, addr uint64, _ string) []debuginfo.Frame {
	switch addr &^ 0xfff {
	case Syscall:
		return append(dst, debuginfo.Frame{Func: "do_syscall", File: "entry/common.c", Line: 81}, debuginfo.Frame{Func: "entry_SYSCALL_64", File: "entry/entry.S", Line: 121})
	case Open:
		return append(dst, debuginfo.Frame{Func: "open", File: "fs/open.c", Line: 1400})
	}
	return dst
}

// Calls resolves SPECs of the calls view.
func (t *Trace) Calls(specs ...string) {
	p, _, err := plan.Resolve(t.view, t.parse(specs), plan.Options{Arch: "amd64", Redact: t.Redact, Owner: t.Owner})
	t.use(p, err)
}

// Sessions resolves SPECs of sessions: of the entry function, and of those inside.
func (t *Trace) Sessions(args bool, entry string, inside ...string) {
	p, _, err := plan.ResolveSession(t.view, plan.SessionRequest{Args: args, Entry: t.parse([]string{entry}), Allow: t.parse(inside)}, plan.Options{Arch: "amd64", Redact: t.Redact, Owner: t.Owner})
	t.use(p, err)
}

func (t *Trace) parse(texts []string) (specs []*expr.Spec) {
	for _, text := range texts {
		spec, err := expr.Parse(text)
		if err != nil {
			t.t.Fatal(err)
		}
		specs = append(specs, spec)
	}
	return specs
}

// use takes a plan, and gives its functions their addresses.
func (t *Trace) use(p *plan.Plan, err error) {
	t.t.Helper()
	if err != nil {
		t.t.Fatal(err)
	}
	for _, probe := range p.Probes {
		switch name := probe.Func.Name; {
		case strings.HasSuffix(name, "alloc"):
			probe.Func.Addr, probe.Func.Module = alloc, "mod"
		case strings.HasSuffix(name, "open"):
			probe.Func.Addr = Open
		default:
			probe.Func.Addr = Read
		}
	}
	t.Run.Plan = p
}

// Probe returns the probe of a function, by the end of its name.
func (t *Trace) Probe(name string) *plan.Probe { return t.Run.Plan.Probes[t.index(name)] }

func (t *Trace) index(name string) int {
	t.t.Helper()
	i := slices.IndexFunc(t.Run.Plan.Probes, func(p *plan.Probe) bool { return strings.HasSuffix(p.Func.Name, name) })
	if i < 0 {
		t.t.Fatalf("no probe %s", name)
	}
	return i
}

// A Record describes a record of a call.
type Record struct {
	Func string // the end of its name
	bpf.Event
	Owner bpf.Owner // if Trace.Owner asks for it
	Words []uint64  // the values of its slots of 8 bytes
	Text  string    // in its longer slots
	Stack []uint64  // innermost first; nil for none
}

// Raw returns the bytes of a record.
func (t *Trace) Raw(r Record) []byte {
	t.t.Helper()
	r.Probe, r.HasTail = uint32(t.index(r.Func)), r.Stack != nil
	half := t.Probe(r.Func).Return
	if r.Kind == bpf.KindEntry {
		half = t.Probe(r.Func).Entry
	}
	values := make([]byte, half.Record.Size)
	if t.Probe(r.Func).Owner != 0 {
		bpf.AppendOwner(values[:0], r.Owner)
	}
	for i, words := 0, r.Words; i < len(half.Record.Slots); i++ {
		switch s := &half.Record.Slots[i]; {
		case s.Size != 8:
			copy(values[s.Off:s.Off+s.Size], r.Text)
		case len(words) > 0:
			binary.LittleEndian.PutUint64(values[s.Off:], words[0])
			words = words[1:]
		}
	}
	raw := append(bpf.AppendEvent(nil, &r.Event), values...)
	if r.Stack != nil {
		var data []byte
		for _, addr := range r.Stack {
			data = binary.LittleEndian.AppendUint64(data, addr)
		}
		raw = bpf.AppendSection(raw, &bpf.Section{Kind: bpf.SectionStack, Data: data})
	}
	return raw
}

// Joined yields the calls that records are of.
func (t *Trace) Joined(raw ...[]byte) iter.Seq[*calls.Call] {
	return func(yield func(*calls.Call) bool) {
		records := func(yield func([]byte, error) bool) {
			for _, r := range raw {
				if !yield(r, nil) {
					return
				}
			}
		}
		var j calls.Joiner
		for c, err := range j.Join(event.All(t.Run.Plan, records)) {
			if err != nil {
				t.t.Fatal(err)
			}
			if !yield(c) {
				return
			}
		}
	}
}

// Comm returns a thread's name as records have it.
func Comm(name string) (comm [16]byte) {
	copy(comm[:15], name)
	return comm
}

// Errno returns the register of a result that is an error.
func Errno(n uint64) uint64 { return -n }

// Failed returns a session in which open calls read in vain, because alloc fails. Its entry
// function is open, and read and alloc are inside.
func (t *Trace) Failed() *session.Session {
	open, read, allocate := t.Probe("open"), t.Probe("read"), t.Probe("alloc")
	return &session.Session{PID: 7, TID: 8, Comm: "cat", Leader: "sh", Start: 1000, End: 2000, Func: open, Failed: true,
		Chain: session.Chain{
			Frames: []session.Frame{{Func: open, Entry: 1000, Duration: 1000, Result: Errno(12), Finished: true, Failed: true},
				{Func: read, Entry: 1500, Duration: 300, Result: Errno(12), Finished: true, Failed: true},
				{Func: allocate, Entry: 1600, Duration: 100, Finished: true, Failed: true}},
			Stack: []uint64{Read + 0x40, Open + 0x50, Syscall + 0x60},
		}}
}

// Quiet has the entry function return void, and returns Failed. The session's error is that of
// read: what the register of the entry function's result holds means nothing.
func (t *Trace) Quiet() *session.Session {
	s := t.Failed()
	s.Func.Result, s.Func.Class = nil, layout.NeverFails
	f := &s.Chain.Frames[0]
	f.Result, f.Failed = Errno(5), false
	return s
}

// Evil is a name as somebody would choose it who wants to act on a terminal, or on what reads
// a format: escape sequences, lines of its own, marks of direction, separators, and what is
// no UTF-8.
const Evil = "e\x1b]0;x\x07\x1b[2J\r\n;a;b 7\t\x7f\u009b\u202e\x9b\xff"

// Unsafe returns the first byte or rune of a text that a terminal would act on, besides the
// ends of lines.
func Unsafe(text string) string {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 || r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return text[i : i+n]
		}
		i += n
	}
	return ""
}
