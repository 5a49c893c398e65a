// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"iter"
	"slices"
	"testing"
	"testing/fstest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/calls"
	"github.com/ksnoop/ksnoop/internal/event"
	"github.com/ksnoop/ksnoop/internal/jsonlines"
	"github.com/ksnoop/ksnoop/internal/output"
	"github.com/ksnoop/ksnoop/internal/plan"
	"github.com/ksnoop/ksnoop/internal/process"
	"github.com/ksnoop/ksnoop/internal/session"
	"github.com/ksnoop/ksnoop/internal/symbols"
	"github.com/ksnoop/ksnoop/layout"
)

// contents are what the blocks of a recording hold.
type contents struct{ info, kallsyms, types, plan, symbols, records, end []byte }

func contentsOf(t testing.TB, data []byte) (c contents) {
	for _, b := range blocksOf(t, data) {
		switch b.kind {
		case blockInfo:
			c.info = []byte(b.data)
		case blockPlan:
			c.plan = []byte(b.data)
		case blockRecords:
			c.records = append(c.records, b.data...)
		case blockSymbols:
			c.symbols = append(c.symbols, b.data...)
		case blockEnd:
			c.end = []byte(b.data)
		case blockFile:
			tree := fileTree{}
			if err := tree.addBlock([]byte(b.data)); err != nil {
				t.Fatal(err)
			}
			if text := tree[symbolFile]; text != nil {
				c.kallsyms = text
			}
			if types := tree[btfDir+"vmlinux"]; types != nil {
				c.types = types
			}
		}
	}
	return c
}

// codeAddr is in vfs_read.
const codeAddr = 0xffffffff81000010

func symbolsOfTest(t testing.TB) fstest.MapFS {
	root := fakeKernel(t)
	root["proc/kallsyms"] = &fstest.MapFile{Data: []byte("ffffffff81000000 T vfs_read\nffffffff81000100 T vfs_write\nffffffff81000200 T ip_send_skb\nffffffffc0000000 t mod_probe\t[mod]\n")}
	return root
}

// callSeeds are recordings of calls: with two records each and with one, with
// stacks and branches, and with marks of losses.
func callSeeds(t testing.TB) (seeds [][]byte) {
	address := binary.LittleEndian.AppendUint64(nil, codeAddr)
	branches := slices.Concat(address, address, make([]byte, bpf.BranchSize-16), address, address, make([]byte, bpf.BranchSize-16))
	for _, specs := range [][]string{{"ip_send_skb(skb, return < 0)", "mod_probe"}, {"vfs_read(diff(count), return)", "ip_send_skb(*skb, skb->name, buf(skb, 8))"}, {"ip_send_skb(skb->name ~ \"x*\")"}} {
		f := fixtureOf(t, symbolsOfTest(t), layout.MethodAuto, specs...)
		f.records(4)
		e := bpf.Event{Time: 5, PID: 7, TID: 7, Kind: bpf.KindEntry, HasTail: true}
		raw := bpf.AppendEvent(nil, &e)
		if half := f.plan.Probes[0].Entry; half != nil && half.Record != nil {
			raw = append(raw, make([]byte, half.Record.Size)...)
		}
		raw = bpf.AppendSection(raw, &bpf.Section{Kind: bpf.SectionStack, Data: address, Cut: true})
		raw = bpf.AppendSection(raw, &bpf.Section{Kind: bpf.SectionUserStack, Data: []byte{1, 0, 0, 0, 0, 0, 0, 0}})
		raw = bpf.AppendSection(raw, &bpf.Section{Kind: bpf.SectionBranches, Data: branches, All: true})
		lost := bpf.Event{Time: 6, Kind: bpf.KindLost, Probe: uint32(bpf.LostRingbuf)}
		f.raw = append(f.raw, raw, append(bpf.AppendEvent(nil, &lost), 3, 0, 0, 0, 0, 0, 0, 0))
		seeds = append(seeds, f.bytes(t))
	}
	return seeds
}

// sessionSeeds are recordings of sessions: of a failing chain with its stack and
// branches, and of one that is logged piece by piece.
func sessionSeeds(t testing.TB) (seeds [][]byte) {
	parse := func(text string) *expr.Spec {
		s, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, traced := range []bool{false, true} {
		f := fixtureOf(t, symbolsOfTest(t), layout.MethodAuto, "vfs_read")
		s, _, err := plan.ResolveSession(f.source.View, plan.SessionRequest{Args: true, Entry: []*expr.Spec{parse("vfs_read")},
			Allow: []*expr.Spec{parse("vfs_write(count, return < 0)")}, Specs: []*expr.Spec{parse("ip_send_skb(skb->len)")},
			Inject: []plan.InjectedSpec{{Spec: parse("kprobe:vfs_read+0x4($di)")}}}, plan.Options{Arch: "amd64", Owner: layout.OwnerUID | layout.OwnerCgroup})
		if err != nil {
			t.Fatal(err)
		}
		f.plan, f.source.Sessions = s, &Sessions{Traced: traced, Live: traced, Args: true, Boot: time.Unix(0, 0)}
		log := logEntry(nil, bpf.LogEntry, 1e9)
		log = logEntry(log, bpf.LogArgs, 33)
		log = logEntry(log, bpf.LogExit, 2e9, 1e9, codeAddr)
		for kind := bpf.SessionEnd; kind <= bpf.SessionExec; kind++ {
			h := bpf.SessionHeader{Kind: kind, PID: 7, TID: 8, Start: 1e9, End: 2e9, Failed: true, HasOffCPU: traced, HasOwner: traced, Owner: bpf.Owner{Cgroup: 5}, Frames: 1, Stack: 1, Branches: 1, LogSize: uint32(len(log)), LostDeep: 1, Depth: 1}
			raw := append(bpf.AppendSession(nil, &h), log...)
			raw = bpf.AppendCall(raw, bpf.SessionCall{Flags: bpf.CallFinished | bpf.CallFailed, Result: codeAddr})
			raw = binary.LittleEndian.AppendUint64(raw, codeAddr)
			raw = append(raw, make([]byte, bpf.BranchSize)...)
			f.raw = append(f.raw, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(raw, 2e8), 1e8))
		}
		seeds = append(seeds, f.bytes(t))
	}
	return seeds
}

// logEntry appends an entry of a session's log, about its first function.
func logEntry(dst []byte, kind bpf.LogKind, words ...uint64) []byte {
	const head = 8
	dst = append(dst, byte(kind), 0)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(head+8*len(words)))
	dst = append(dst, 0, 0, 0, 0)
	for _, w := range words {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	return dst
}

// FuzzBlocks gives a recording's blocks right checksums and wrong contents, and
// prints what comes of them in all forms, as replay does.
func FuzzBlocks(f *testing.F) {
	fake := fakeKernel(f)
	for _, seed := range slices.Concat(callSeeds(f), sessionSeeds(f)) {
		c := contentsOf(f, seed)
		f.Add(c.info, c.kallsyms, c.types, c.plan, c.symbols, c.records, c.end)
	}
	f.Fuzz(func(t *testing.T, info, kallsyms, types, plan, symbols, records, end []byte) {
		all := []rawBlock{{blockInfo, string(info)}, {blockFile, symbolFile + "\x00" + string(kallsyms)}, {blockFile, btfDir + "vmlinux\x00" + string(types)},
			{blockFile, btfDir + "mod\x00" + string(fake[btfDir+"mod"].Data)}, {blockPlan, string(plan)}, {blockSymbols, string(symbols)}, {blockRecords, string(records)}, {blockEnd, string(end)}}
		r, raw, err := read(build(t, all...))
		if err == nil && len(raw) != int(r.records) {
			t.Errorf("%d records of %d", len(raw), r.records)
		}
		if len(raw) > 0 {
			used := allocated(func() { printAll(t, r, raw) })
			// Each record is printed a few times, by types that may be large.
			if most := uint64(64<<20 + 20000*(len(records)+len(types))); used > most {
				t.Errorf("%d bytes are taken to print %d of records, by %d of types", used, len(records), len(types))
			}
		}
	})
}

// TestSeeds says that the seeds get as far as to be printed.
func TestSeeds(t *testing.T) {
	for i, seed := range slices.Concat(callSeeds(t), sessionSeeds(t)) {
		r, raw, err := read(seed)
		if err != nil || len(raw) == 0 {
			t.Errorf("seed %d: %d records, %v", i, len(raw), err)
			continue
		}
		if n := printAll(t, r, raw); n < 80*len(raw) {
			t.Errorf("seed %d: %d bytes of text for %d records", i, n, len(raw))
		}
	}
}

// printAll prints records in all forms. It returns how much text that was.
func printAll(t *testing.T, r *Reader, raw [][]byte) (printed int) {
	t.Helper()
	return printTo(t, io.Discard, r, raw)
}

func printTo(t *testing.T, w io.Writer, r *Reader, raw [][]byte) (printed int) {
	show := func(text []byte) {
		printed += len(text)
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	resolver := symbols.New(r.Kernel(), nil, symbols.LevelNone)
	symbol := func(dst []byte, addr uint64) []byte {
		s, _ := r.Kernel().Symbol(addr)
		return append(dst, s.Name...)
	}
	if p := r.Plan(); p.Sessions {
		for _, form := range []output.ArgsForm{output.ArgsCompact, output.ArgsMultiline, output.ArgsVerbose} {
			decoder := session.Decoder{Plan: p, Traced: r.Info().Sessions.Traced, Live: r.Info().Sessions.Live}
			printer := output.NewSessions(output.SessionOptions{Resolver: resolver, Names: output.Names{Symbol: symbol}, Args: form, Trace: decoder.Traced, Live: decoder.Live})
			for _, rec := range raw {
				s, err := decoder.Decode(rec)
				if err != nil || s == nil {
					continue
				}
				if s.State == session.Missing {
					show(printer.AppendLoss(nil, s.Loss))
					continue
				}
				text, err := printer.AppendSession(nil, s)
				if show(text); err == nil && len(text) == 0 {
					t.Error("printed as nothing")
				}
			}
		}
		printJSON(t, show, r, raw)
		return printed
	}
	tails := &output.Tails{Kernel: resolver, User: func(*bpf.Event, string) output.Process { return process.Unknown("a test") }}
	for _, printer := range []*output.Calls{output.NewCalls(output.Names{Symbol: symbol}), output.NewCompactCalls(output.Names{Symbol: symbol}, 160)} {
		printer.Tails = tails
		for call := range (&calls.Joiner{}).Join(events(r.Plan(), raw)) {
			if call.End == calls.Gap {
				show(printer.AppendLoss(nil, call.Return.Loss()))
				continue
			}
			text, err := printer.AppendCall(nil, call)
			// Types of all kinds can be captured; not all can be printed.
			if show(text); err == nil && len(text) == 0 {
				t.Error("printed as nothing")
			}
		}
	}
	printJSON(t, show, r, raw)
	return printed
}

// printJSON prints records as JSON, and holds each line to being that and no more.
func printJSON(t *testing.T, show func([]byte), r *Reader, raw [][]byte) {
	t.Helper()
	resolver := symbols.New(r.Kernel(), nil, symbols.LevelNone)
	user := func(*bpf.Event, string) output.Process { return process.Unknown("a test") }
	p := jsonlines.New(output.Run{Plan: r.Plan(), Kernel: r.Kernel(), Resolver: resolver, User: user, Boot: r.Info().Boot,
		Arch: r.Info().Arch, Host: r.Info().Host, Writer: r.Info().Writer, Options: r.Info().Options}, len(raw)%2 == 0)
	line := func(text []byte, err error) {
		if show(text); err != nil { // types of all kinds can be captured; not all can be printed
			text = nil
		}
		if !utf8.Valid(text) || bytes.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			t.Errorf("control characters, or no UTF-8, in %q", text)
		}
		for l := range bytes.Lines(text) {
			if !json.Valid(l) {
				t.Errorf("no JSON: %s", l)
			}
		}
	}
	line(p.AppendHeader(nil))
	if r.Plan().Sessions {
		decoder := session.Decoder{Plan: r.Plan(), Traced: r.Info().Sessions.Traced, Live: r.Info().Sessions.Live}
		for _, rec := range raw {
			switch s, err := decoder.Decode(rec); {
			case err != nil || s == nil:
			case s.State == session.Missing:
				line(p.AppendLoss(nil, s.Loss), nil)
			default:
				line(p.AppendSession(nil, s))
			}
		}
	} else {
		for call := range (&calls.Joiner{}).Join(events(r.Plan(), raw)) {
			if call.End == calls.Gap {
				line(p.AppendLoss(nil, call.Return.Loss()), nil)
				continue
			}
			line(p.AppendCall(nil, call))
		}
	}
	line(p.AppendEnd(nil, &output.Totals{Losses: r.Losses()}))
}

// events decodes records, and leaves out those that are not what they should be.
func events(p *plan.Plan, raw [][]byte) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for _, rec := range raw {
			var e event.Event
			if err := event.Decode(p, rec, &e); err == nil && !yield(&e, nil) {
				return
			}
		}
	}
}
