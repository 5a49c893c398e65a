// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ksnoop/ksnoop/bpf"
	"github.com/ksnoop/ksnoop/expr"
	"github.com/ksnoop/ksnoop/internal/debuginfo"
	"github.com/ksnoop/ksnoop/internal/kernel"
	"github.com/ksnoop/ksnoop/layout"
)

func TestFileTree(t *testing.T) {
	tree := fileTree{}
	root := fstest.MapFS{}
	for _, name := range []string{"proc/kallsyms", "sys/kernel/btf/vmlinux", "sys/kernel/btf/mod", "top"} {
		root[name] = &fstest.MapFile{Data: []byte("data of " + name)}
		if err := tree.addBlock(fileTree{name: root[name].Data}.appendBlock(nil, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fstest.TestFS(tree, "proc/kallsyms", "sys/kernel/btf/vmlinux", "sys/kernel/btf/mod", "top"); err != nil {
		t.Error(err)
	}
	copied := fileTree{}
	for name, file := range root {
		if err := copied.add(root, name); err != nil || !bytes.Equal(copied[name], file.Data) || !bytes.Equal(tree[name], file.Data) {
			t.Errorf("%s: %q, %q, %v", name, copied[name], tree[name], err)
		}
	}
	if err := copied.add(root, "proc/missing"); err != nil || len(copied) != len(root) {
		t.Errorf("a missing file: %v, %d files", err, len(copied))
	}
}

func TestFileTreeRefuses(t *testing.T) {
	full := fileTree{}
	for i := range maxFiles {
		full[string(binary.AppendUvarint(nil, uint64(i)))] = nil
	}
	for _, test := range []struct {
		name  string
		tree  fileTree
		block string
	}{
		{"no end of the name", fileTree{}, "proc"},
		{"no name", fileTree{}, "\x00data"},
		{"outside", fileTree{}, "../etc/passwd\x00data"},
		{"absolute", fileTree{}, "/etc/passwd\x00data"},
		{"twice", fileTree{"a": []byte{}}, "a\x00"},
		{"too many", full, "one/more\x00"},
		{"too large", fileTree{"a": make([]byte, maxBytes)}, "b\x001"},
		{"too large with its name", fileTree{"a": make([]byte, maxBytes-3)}, "b\x0012"},
		{"a long name", fileTree{}, strings.Repeat("a", maxName+1) + "\x00"},
	} {
		if err := test.tree.addBlock([]byte(test.block)); !errors.Is(err, errDamaged) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// A rawBlock is one that was not made by a Writer.
type rawBlock struct {
	kind blockKind
	data string
}

// build writes a recording of these blocks, checksums and all.
func build(t testing.TB, blocks ...rawBlock) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := newBlockWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks {
		if err := w.write(block.kind, []byte(block.data)); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// blocksOf takes a recording apart.
func blocksOf(t testing.TB, data []byte) []rawBlock {
	t.Helper()
	r, err := newBlockReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []rawBlock
	for {
		kind, data, err := r.read(nil)
		if err != nil {
			return blocks
		}
		blocks = append(blocks, rawBlock{kind, string(data)})
	}
}

// Recordings that are whole but make no sense are refused for the right
// reason. Each test changes one block of a good one, or leaves it out, or adds
// one behind it.
func TestRefused(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "ip_send_skb(skb->len)", "vfs_read")
	f.records(5)
	good := blocksOf(t, f.bytes(t))
	replace := func(old, new string) func(string) []string {
		return func(data string) []string {
			if !strings.Contains(data, old) {
				t.Fatalf("no %s in %s", old, data)
			}
			return []string{strings.Replace(data, old, new, 1)}
		}
	}
	omit := func(string) []string { return nil }
	twice := func(data string) []string { return []string{data, data} }
	for _, test := range []struct {
		name   string
		kind   blockKind
		change func(string) []string
		want   string
	}{
		{"other header", blockInfo, replace(`"Header":`, `"Header":1`), fmt.Sprintf("recorded by ksnoop test, whose records have headers of 1%[1]d bytes rather than %[1]d", bpf.EventSize)},
		{"hostile writer", blockInfo, replace(`"Writer":"test","Header":`, `"Writer":"\u001b[2J\nx","Header":1`), `recorded by ksnoop \x1b[2J\nx, whose records`},
		{"hostile name", blockPlan, replace(`"Func":"ip_send_skb"`, `"Func":"\u001b[2J\nx","Module":"\u202e\n"`), `to get the types of module \xe2\x80\xae\n`},
		{"hostile function", blockPlan, replace(`"Func":"ip_send_skb","Type":`, `"Func":"\u001b[2J\nx","Type":99`), `type of \x1b[2J\nx: `},
		{"no JSON", blockInfo, replace("{", ""), "damaged"},
		{"no info", blockInfo, omit, "damaged: a block of kind 2 is out of place"},
		{"two infos", blockInfo, twice, "damaged: a block of kind 1 is out of place"},
		{"much JSON", blockInfo, replace("{", "{"+strings.Repeat(" ", maxJSON)), "bytes of JSON"},
		{"file twice", blockFile, twice, "damaged: a file has a wrong name"},
		{"no plan", blockPlan, omit, "damaged: a block of kind 4 is out of place"},
		{"two plans", blockPlan, twice, "after 0 records: the recording is damaged: a block of kind 3 is out of place"},
		{"plan cut", blockPlan, replace("}\n", ""), "damaged: its plan"},
		{"no SPEC", blockPlan, replace("Spec", "spic"), "its plan begins without a SPEC"},
		{"bad SPEC", blockPlan, replace("aXBfc2VuZF9za2Ioc2tiLT5sZW4p", "aXBfc2VuZF9za2Ioc2tiLT5sZW4"), "damaged: its plan"},
		{"SPEC of another time", blockPlan, replace("aXBfc2VuZF9za2Ioc2tiLT5sZW4p", "aXBfc2VuZF9za2Ioc2tiLT5sb24p"), "struct sk_buff has no member \"lon\""},
		{"other layout", blockPlan, replace(`"Layout":"`, `"Layout":"0`), "recorded by ksnoop test: ip_send_skb: this ksnoop lays records out in another way"},
		{"other method", blockPlan, replace(`"Method":"fentry"`, `"Method":"magic"`), `ip_send_skb: no way to attach is called "magic"`},
		{"no such type", blockPlan, replace(`"Type":`, `"Type":99`), "type of ip_send_skb: "},
		{"no function", blockPlan, func(data string) []string {
			var p probe
			if err := json.Unmarshal([]byte(data[:strings.Index(data, "\n")]), &p); err != nil {
				t.Fatal(err)
			}
			p.Type += 3 // behind the functions
			line, _ := json.Marshal(p)
			return []string{string(line)}
		}, "is not that of function ip_send_skb"},
		{"no such module", blockPlan, replace(`"Func":"ip_send_skb"`, `"Func":"ip_send_skb","Module":"gone"`), "recorded by ksnoop test: "},
		{"long record", blockRecords, func(data string) []string { return []string{data[:len(data)-1]} }, "after 4 records: the recording is damaged: a record is longer than its block"},
		{"huge record", blockRecords, func(string) []string { return []string{strings.Repeat("\xff", 9) + "\x01"} }, "after 0 records: the recording is damaged: a record is longer"},
		{"endless length", blockRecords, func(string) []string { return []string{strings.Repeat("\xff", 20)} }, "after 0 records: the recording is damaged: a record is longer"},
		{"records missing", blockRecords, omit, "damaged: it has 0 records of 5"},
		{"records twice", blockRecords, twice, "damaged: it has 10 records of 5"},
		{"other counters", blockEnd, replace(`"Lost":[`, `"Lost":[1,`), "recorded by ksnoop test, which counts "},
		{"no end", blockEnd, omit, "after 5 records: the recording was cut off"},
		{"two ends", blockEnd, twice, "damaged: something follows its end"},
		{"end is no JSON", blockEnd, replace("{", "["), "damaged"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var blocks []rawBlock
			done := false
			for _, b := range good {
				if b.kind != test.kind || done {
					blocks = append(blocks, b)
					continue
				}
				done = true
				for _, data := range test.change(b.data) {
					blocks = append(blocks, rawBlock{b.kind, data})
				}
			}
			_, _, err := read(build(t, blocks...))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			if strings.Contains(test.name, "hostile") && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "\x1b")) {
				t.Errorf("%q", err)
			}
		})
	}
}

// What is claimed about a block's size costs no memory.
func TestBlockClaims(t *testing.T) {
	good := build(t, rawBlock{blockInfo, "{}"})
	start := len(magic) + 4
	for _, test := range []struct {
		name         string
		packed, size uint32
		want         error
	}{
		{"more than there is", maxBlock, 2, errCut},
		{"packed too large", maxBlock + 1, 2, errDamaged},
		{"too large", 0, maxBlock + 1, errDamaged},
		{"all of it", 0xffffffff, 0xffffffff, errDamaged},
	} {
		data := slices.Clone(good)
		if test.packed != 0 {
			binary.LittleEndian.PutUint32(data[start+offPacked:], test.packed)
		}
		binary.LittleEndian.PutUint32(data[start+offSize:], test.size)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := NewReader(bytes.NewReader(data))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: takes %d bytes", test.name, used)
		}
	}
	// A size that is wrong, with the right checksum.
	for _, size := range []uint32{0, 1, 3, maxBlock} {
		data := slices.Clone(good)
		header := data[start : start+headerSize]
		binary.LittleEndian.PutUint32(header[offSize:], size)
		binary.LittleEndian.PutUint32(header[offChecksum:], checksum(header, data[start+headerSize:]))
		if _, err := NewReader(bytes.NewReader(data)); !errors.Is(err, errDamaged) {
			t.Errorf("2 bytes said to be %d: %v", size, err)
		}
	}
}

func TestVersion(t *testing.T) {
	data := build(t)
	data[len(magic)] = 1
	_, err := NewReader(bytes.NewReader(data))
	if err == nil || err.Error() != "the recording has format 1, this ksnoop reads formats 3 to 6" {
		t.Error(err)
	}
	// What format 3 has is what --full records.
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	f.source.Full = true
	f.records(3)
	data = f.bytes(t)
	data[len(magic)] = 3
	if _, raw, err := read(data); err != nil || len(raw) != 3 {
		t.Errorf("format 3: %d records, %v", len(raw), err)
	}
}

// FuzzReader reads bytes as they are, which get as far as their checksums.
func FuzzReader(f *testing.F) {
	fix := newFixture(f, layout.MethodAuto, "ip_send_skb(skb)")
	fix.records(3)
	data := fix.bytes(f)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, raw, err := read(data); err == nil && len(raw) != 3 {
			t.Error("a recording that nobody made")
		}
	})
}

// A recording holds the symbols of the addresses in its records, wherever these stand, and of
// no others. With Full, it holds all. The length of a symbol is up to the next one, which
// need not be recorded.
func TestSymbols(t *testing.T) {
	const addr = uint64(0xffffffff81000010)
	for off := range 16 {
		for _, full := range []bool{false, true} {
			f := fixtureOf(t, symbolsOfTest(t), layout.MethodKprobe, "ip_send_skb(*skb)")
			f.source.Full = full
			f.records(1)
			data := f.raw[0][bpf.EventSize:]
			clear(data)
			binary.LittleEndian.PutUint64(data[off:], addr)
			binary.LittleEndian.PutUint64(data[24:], 0xffffffffc0000000)
			r, _, err := read(f.bytes(t))
			if err != nil {
				t.Fatal(err)
			}
			for addr, want := range map[uint64]string{
				addr:               "vfs_read+0x10/0x100",
				0xffffffff81000000: "vfs_read+0x0/0x100",
				0xffffffff810000ff: "vfs_read+0xff/0x100",
				0xffffffff81000100: "vfs_write+0x0/0x100 only if full",
				0xffffffff81000280: "ip_send_skb+0x80/0x4e00", // which is traced
				0xffffffffc0000001: "mod_probe+0x1/0x5000 [mod]",
				0xffffffffc0005000: "none",
			} {
				want, onlyFull := strings.CutSuffix(want, " only if full")
				if onlyFull && !full {
					want = "none"
				}
				got := "none"
				if s, ok := r.Kernel().Symbol(addr); ok {
					got = s.String()
				}
				if got != want {
					t.Errorf("at %d, full %t: %#x is %s, want %s", off, full, addr, got, want)
				}
			}
		}
	}
}

// A return address where a function begins belongs to a call at the end of the function
// before, which is what a stack names.
func TestSymbolsOfCallers(t *testing.T) {
	f := fixtureOf(t, symbolsOfTest(t), layout.MethodKprobe, "vfs_read(count)")
	f.records(1)
	binary.LittleEndian.PutUint64(f.raw[0][bpf.EventSize:], 0xffffffff81000200)
	r, _, err := read(f.bytes(t))
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[uint64]string{0xffffffff81000200: "ip_send_skb", 0xffffffff810001ff: "vfs_write"} {
		if s, _ := r.Kernel().Symbol(addr); s.Name != want {
			t.Errorf("%#x is in %q, want %s", addr, s.Name, want)
		}
	}
}

// Where the kernel hides addresses, a recording has none of functions.
func TestHiddenSymbols(t *testing.T) {
	root := fakeKernel(t)
	const hidden = "0000000000000000 T vfs_read\n0000000000000000 T vfs_write\n"
	root["proc/kallsyms"] = &fstest.MapFile{Data: []byte(hidden)}
	for _, b := range blocksOf(t, fixtureOf(t, root, layout.MethodAuto, "vfs_read", "vfs_write").bytes(t)) {
		if b.kind == blockPlan && (strings.Count(b.data, `"Func"`) != 2 || strings.Contains(b.data, "Addr")) {
			t.Errorf("the plan is %s", b.data)
		}
		if name, data, _ := strings.Cut(b.data, "\x00"); name == symbolFile && data != hidden {
			t.Errorf("the symbols are %s", data)
		}
	}
}

// allocated is how much memory f takes, all in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A small recording cannot ask for much: the plan of one is bounded by what it
// takes to resolve it. vfs_read has one parameter, so that a probe costs 1 and 16
// and 8 for its name, or what n+n*n/512 is for a SPEC of n bytes.
func TestPlanCost(t *testing.T) {
	long := "vfs_read(" + strings.Repeat("count+", 1300) + "count > 0)"
	n := len(long)
	for _, test := range []struct {
		spec string
		most int // probes
	}{
		{"vfs_read", maxCost / (1 + 16 + 8)}, // 8*8/512 is 0
		{long, maxCost / (1 + 16 + n + n*n/512)},
	} {
		f := newFixture(t, layout.MethodAuto, test.spec)
		blocks := blocksOf(t, f.bytes(t))
		var line string
		for _, b := range blocks {
			if b.kind == blockPlan {
				line = strings.TrimSuffix(b.data, "\n")
			}
		}
		var first probe
		if err := json.Unmarshal([]byte(line), &first); err != nil {
			t.Fatal(err)
		}
		first.Spec = nil
		next, err := json.Marshal(&first)
		if err != nil {
			t.Fatal(err)
		}
		with := func(probes int) []byte {
			var changed []rawBlock
			for _, b := range blocks {
				if b.kind == blockPlan {
					b.data = line + "\n" + strings.Repeat(string(next)+"\n", probes-1)
				}
				changed = append(changed, b)
			}
			return build(t, changed...)
		}
		data := with(min(test.most+1, maxProbes+1))
		used := allocated(func() { _, _, err = read(data) })
		if !errors.Is(err, errDamaged) && (err == nil || !strings.Contains(err.Error(), "its plan ")) || used > 512<<20 {
			t.Errorf("%.20s: %d bytes are taken for %d bytes, %v", test.spec, used, len(data), err)
		}
		if test.most < 100 {
			if _, _, err := read(with(test.most)); err != nil {
				t.Errorf("%.20s: %d probes: %v", test.spec, test.most, err)
			}
			for len(f.plan.Probes) <= test.most {
				f.plan.Probes = append(f.plan.Probes, f.plan.Probes[0])
			}
			if _, err := NewWriter(io.Discard, f.source, f.plan); err == nil || !strings.Contains(err.Error(), "too many for a recording") {
				t.Errorf("what cannot be replayed is recorded: %v", err)
			}
		}
	}
}

// What a probe is declared with counts as well, wherever it stands, and before all of it is
// in memory: of a few kilobytes of recording it once took gigabytes.
func TestHookCost(t *testing.T) {
	f := newFixture(t, layout.MethodAuto, "vfs_read")
	blocks := blocksOf(t, f.bytes(t))
	for what, c := range map[string]struct {
		change func(p *probe, n int)
		n      int // in each of so many probes
		probes int
	}{
		"fields in one probe":   {func(p *probe, n int) { p.Hook.Kind, p.Hook.Fields = expr.Tracepoint, make([]kernel.Field, n) }, 600_000, 1},
		"fields in many probes": {func(p *probe, n int) { p.Hook.Kind, p.Hook.Fields = expr.Tracepoint, make([]kernel.Field, n) }, 10_000, 60},
		"parameters":            {func(p *probe, n int) { p.Hook.Params = make([]debuginfo.Param, n) }, 10_000, 60},
		"of system calls":       {func(p *probe, n int) { p.Syscall = make([]kernel.Field, n) }, 10_000, 60},
		"names": {func(p *probe, n int) {
			p.Hook.Kind, p.Hook.Fields = expr.Tracepoint, []kernel.Field{{Name: "a", Decl: strings.Repeat("b", n), Size: 8}}
		}, 1_000_000, 6},
	} {
		var changed []rawBlock
		for _, b := range blocks {
			if b.kind == blockPlan {
				var p probe
				if err := json.Unmarshal([]byte(b.data), &p); err != nil {
					t.Fatal(err)
				}
				c.change(&p, c.n)
				line, err := json.Marshal(&p)
				if err != nil {
					t.Fatal(err)
				}
				b.data = strings.Repeat(string(line)+"\n", c.probes)
			}
			changed = append(changed, b)
		}
		data := build(t, changed...)
		var err error
		used := allocated(func() { _, _, err = read(data) })
		if !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "its plan ") || used > 400<<20 {
			t.Errorf("%s: %d bytes are taken for %d bytes, %v", what, used, len(data), err)
		}
	}
}

// A short line for each symbol of kallsyms would take far more memory than the
// text.
func TestManySymbols(t *testing.T) {
	for _, test := range []struct{ lines, refused int }{{kernel.MaxSymbols, 0}, {kernel.MaxSymbols + 1, 1}} {
		tree := fileTree{}
		err := tree.addBlock([]byte(symbolFile + "\x00" + strings.Repeat("1 t a\n", test.lines)))
		if refused := err != nil && strings.Contains(err.Error(), fmt.Sprintf("%d symbols, more than 2097152", test.lines)); refused != (test.refused == 1) {
			t.Errorf("%d lines: %v", test.lines, err)
		}
	}
}
