// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const kallsyms = `0000000000000000 A fixed_percpu_data
0000000000001000 A cpu_tss_rw
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000040 t __pfx_ip_send_skb
ffffffff81000050 T ip_send_skb
ffffffff81000100 t ip_send_skb.cold
ffffffff81000110 T ip_rcv
ffffffff81000200 t copied.isra.0
ffffffff81000300 t both
ffffffff81000310 t both.constprop.0
ffffffff81000400 t twice
ffffffff81000500 t twice
ffffffff81000600 W no_btf
ffffffff82000000 D jiffies_64
ffffffff82001000 r kallsyms_seqs_of_names
ffffffffc0000000 t mod_probe	[mod]
ffffffffc0000080 t ip_rcv	[mod]
ffffffffc0000100 d mod_data	[mod]
ffffffffc0200000 t bpf_prog_6deef7357e7b4530	[bpf]
ffffffffc0201000 t ftrace_trampoline	[__builtin__ftrace]
`

func TestSymbol(t *testing.T) {
	v := Open(fstest.MapFS{kallsymsFile: {Data: []byte(kallsyms)}})
	for _, test := range []struct {
		addr uint64
		want string // "" for none
	}{
		{0, ""},
		{0x1008, ""}, // an offset in per-CPU memory, not an address
		{0xffffffff80ffffff, ""},
		{0xffffffff81000000, "_stext+0x0/0x40"}, // the first of two names
		{0xffffffff81000050, "ip_send_skb+0x0/0xb0"},
		{0xffffffff810000ff, "ip_send_skb+0xaf/0xb0"},
		{0xffffffff81000100, "ip_send_skb.cold+0x0/0x10"},
		{0xffffffff81ffffff, "no_btf+0xfff9ff/0xfffa00"}, // vmlinux has no gaps
		{0xffffffff82000008, "jiffies_64+0x8/0x1000"},
		{0xffffffff82001800, ""}, // a literal behind the table
		{0xffffffffc0000090, "ip_rcv+0x10/0x80 [mod]"},
		{0xffffffffc0000110, "mod_data+0x10/0xf00 [mod]"},
		{0xffffffffc0004fff, ""},
		{0xffffffffc0005000, ""}, // a gap: memory of nobody known
		{0xffffffffc0100000, ""},
		{0xffffffffc0200010, "bpf_prog_6deef7357e7b4530+0x10/0x1000 [bpf]"},
		{0xffffffffffffffff, ""},
	} {
		s, ok := v.Symbol(test.addr)
		got := s.String()
		if !ok {
			got = ""
		}
		if got != test.want {
			t.Errorf("Symbol(%#x) = %q, want %q", test.addr, got, test.want)
		}
	}
	if err := v.Symbols(); err != nil {
		t.Error(err)
	}
}

// A trampoline that comes later lies where an older one seemed to reach.
func TestRenew(t *testing.T) {
	const at = 0xffffffffc0203010
	later := func(name string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(kallsyms + "ffffffffc0203000 t " + name + "\t[bpf]\n")}
	}
	root := fstest.MapFS{kallsymsFile: {Data: []byte(kallsyms)}}
	v := Open(root)
	named := func(want string) {
		t.Helper()
		if s, ok := v.Symbol(at); s.Name != want || !ok {
			t.Errorf("%#x is in %q, want %s", uint64(at), s.Name, want)
		}
	}
	named("ftrace_trampoline")
	root[kallsymsFile] = later("bpf_trampoline_1")
	named("ftrace_trampoline") // what was read is kept
	if !v.Renew() {
		t.Error("there is nothing to renew")
	}
	named("bpf_trampoline_1")
	v.Pin(later("bpf_trampoline_2").Data)
	if v.Renew() {
		t.Error("symbols were renewed that should stay")
	}
	named("bpf_trampoline_2")
}

// TestRenewFunctions: attaching adds no functions. They are read again when a module has come,
// or gone and come back elsewhere; that it is in use now is no reason.
func TestRenewFunctions(t *testing.T) {
	list := func(users string, at uint64) *fstest.MapFile {
		return &fstest.MapFile{Data: fmt.Appendf(nil, "tun 65536 %s - Live %#x\n", users, at)}
	}
	symbols := func(at uint64) *fstest.MapFile {
		return &fstest.MapFile{Data: fmt.Appendf(nil, "ffffffff81000000 T _text\n%x t tun_open\t[tun]\n", at)}
	}
	const first, second = 0xffffffffc0100000, 0xffffffffc0200000
	root := fstest.MapFS{kallsymsFile: symbols(first), modulesFile: list("0", first)}
	v := Open(root)
	at := func(want uint64) {
		t.Helper()
		found, err := v.Locate([]Function{{Name: "tun_open", Module: "tun"}})
		if err != nil || len(found) != 1 || found[0].Addr != want {
			t.Errorf("tun_open is %+v, %v; want it at %#x", found, err, want)
		}
	}
	if _, ok := v.Symbol(first); !ok {
		t.Fatal("tun_open is not found")
	}
	at(first)
	root[kallsymsFile], root[modulesFile] = symbols(second), list("1", first)
	v.Renew()
	at(first)                                            // as the list of modules says
	if s, ok := v.Symbol(second); !ok || s.Offset != 0 { // here the symbols are read
		t.Errorf("%#x is in %v", uint64(second), s)
	}
	at(first) // what is sorted by names already is kept
	v.Renew()
	at(first)
	root[modulesFile] = list("1", second)
	at(second)
	root[kallsymsFile] = symbols(first)
	v.Renew()
	delete(root, modulesFile)
	at(first)
}

// TestRenewRebuilt: a module that was built anew may be loaded at the address of the old one. The number of its pages tells.
func TestRenewRebuilt(t *testing.T) {
	root := fstest.MapFS{kallsymsFile: {Data: []byte("ffffffffc0100000 t tun_open\t[tun]\n")}, modulesFile: {Data: []byte("tun 65536 0 - Live 0xffffffffc0100000\n")}}
	v := Open(root)
	v.Symbol(0)
	root[kallsymsFile] = &fstest.MapFile{Data: []byte("ffffffffc0100010 t tun_open\t[tun]\n")}
	for _, tt := range []struct {
		size int
		want uint64
	}{{65536, 0xffffffffc0100000}, {69632, 0xffffffffc0100010}} {
		root[modulesFile] = &fstest.MapFile{Data: fmt.Appendf(nil, "tun %d 1 - Live 0xffffffffc0100000\n", tt.size)}
		v.Renew()
		if found, err := v.Locate([]Function{{Name: "tun_open", Module: "tun"}}); err != nil || len(found) != 1 || found[0].Addr != tt.want {
			t.Errorf("with %d bytes tun_open is %+v, %v; want it at %#x", tt.size, found, err, tt.want)
		}
	}
}

// TestNamedSymbol: the kernel takes the first of several symbols of one name in a module, also of data.
func TestNamedSymbol(t *testing.T) {
	v := Open(fstest.MapFS{kallsymsFile: {Data: []byte(`ffffffff81000000 T _stext
ffffffff81000100 t twice
ffffffffc0000000 t once	[mod]
ffffffffc0000100 t twice	[mod]
ffffffffc0000200 t three	[mod]
ffffffffc0000300 t four	[mod]
ffffffffc0000400 t three	[mod]
ffffffffc0000500 d four	[mod]
ffffffffc0001000 t three	[other]
`)}})
	for addr, want := range map[uint64]string{
		0xffffffffc0000010: "once", 0xffffffffc0000110: "twice", 0xffffffff81000110: "twice", 0xffffffffc0000210: "", 0xffffffffc0000310: "",
		0xffffffffc0000410: "", 0xffffffffc0001010: "three", 0x10: "",
	} {
		if s, ok := v.NamedSymbol(addr); s.Name != want || ok != (want != "") {
			t.Errorf("%#x: %q, %v, want %q", addr, s.Name, ok, want)
		}
	}
}

// TestRenewSymbol: to name what lies in vmlinux, and what has no name for sure, nothing is
// read again.
func TestRenewSymbol(t *testing.T) {
	root := fstest.MapFS{kallsymsFile: {Data: []byte("ffffffff81000000 T _text\nffffffff81000010 T ip_rcv\nffffffff81000020 T _etext\n")}}
	v := Open(root)
	v.Symbol(0)
	v.Renew()
	root[kallsymsFile] = &fstest.MapFile{Data: []byte("ffffffff81000000 T _text\nffffffff81000010 T ip_rc2\nffffffff81000020 T _etext\nffffffffc0000000 t bpf_trampoline_1\t[bpf]\n")}
	for _, c := range []struct {
		addr uint64
		want string
	}{
		{0xffffffff81000018, "ip_rcv"},
		{0xffff888012345678, ""},
		{0xffffffffc0000008, "bpf_trampoline_1"}, // here the symbols are read
		{0xffffffff81000018, "ip_rc2"},
	} {
		if s, ok := v.Symbol(c.addr); s.Name != c.want || ok != (c.want != "") {
			t.Errorf("%#x is in %q, want %q", c.addr, s.Name, c.want)
		}
	}
}

// TestRenewNamed: what vmlinux and the modules call something is known without reading again.
func TestRenewNamed(t *testing.T) {
	root := fstest.MapFS{kallsymsFile: {Data: []byte("ffffffff81000010 T ip_rcv\n")}, modulesFile: {Data: []byte("tun 65536 0 - Live 0xffffffffc0100000\n")}}
	v := Open(root)
	v.Symbol(0)
	v.Renew()
	root[kallsymsFile] = &fstest.MapFile{Data: []byte("ffffffff81000020 T ip_rcv\nffffffffc0000000 t bpf_trampoline_1\t[bpf]\n")}
	for range 2 * fewNames {
		for name, want := range map[string]uint64{"ip_rcv": 0xffffffff81000010, "bpf_trampoline_1": 0xffffffffc0000000, "ip_rc": 0} {
			if s, ok := v.SymbolNamed(name, ""); s.Addr != want || ok != (want != 0) {
				t.Errorf("%s is at %#x, want %#x", name, s.Addr, want)
			}
		}
	}
}

func TestHiddenAddresses(t *testing.T) {
	hidden := "0000000000000000 T _text\n0000000000000000 T ip_rcv\n"
	v := Open(fstest.MapFS{kallsymsFile: {Data: []byte(hidden)}})
	if s, ok := v.Symbol(0); ok {
		t.Errorf("Symbol(0) = %v", s)
	}
	err := v.Symbols()
	var access *accessError
	if !errors.As(err, &access) || access.Need != "run as root or with CAP_SYSLOG" {
		t.Errorf("Symbols: %v, want an accessError that says who could", err)
	}
	const want = "/proc/kallsyms: addresses are hidden: run as root or with CAP_SYSLOG to get addresses of functions"
	if err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestParseSymbolsErrors(t *testing.T) {
	for _, text := range []string{
		"\n", "ffffffff81000000\n", "ffffffff81000000 T \n", "ffffffff81000000 T\n", " T name\n",
		"fffffffff81000000 T seventeen_digits\n", "FFFFFFFF81000000 T upper\n", "xyz T name\n",
		"ffffffff81000000 T name\tmod\n", "ffffffff81000000 T name\t[]\n", "ffffffff81000000 T \t[mod]\n",
		"ffffffff81000000 T " + strings.Repeat("x", 70000) + "\n",
	} {
		if table, err := parseSymbols(strings.NewReader("ffffffff80000000 T good\n"+text), nil); err == nil {
			t.Errorf("%.40q: no error, %d symbols", text, len(table.symbols))
		} else if !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%.40q: %v, want the line", text, err)
		}
	}
}

// FuzzKallsyms: what is accepted can be printed again to the same bytes, and
// every symbol is found at its own address.
func FuzzKallsyms(f *testing.F) {
	f.Add([]byte(kallsyms))
	f.Add([]byte("1 t a\n1 t b\n"))
	f.Add([]byte("ffffffffffffeff0 t last\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := parseSymbols(bytes.NewReader(data), nil)
		if err != nil {
			return
		}
		var lines []string
		for i := range table.symbols {
			s := &table.symbols[i]
			line := fmt.Sprintf("%x %s %s", s.addr, []byte{s.kind}, table.name(s))
			if m := table.module(s); m != "" {
				line += "\t[" + m + "]"
			}
			lines = append(lines, line)
			if s.addr == 0 || s.kind|0x20 == 'a' || s.addr >= errorPointers {
				continue
			}
			if found, ok := table.find(s.addr); !ok || found.Addr != s.addr {
				t.Errorf("find(%#x) = %v, %v", s.addr, found, ok)
			}
		}
		var want []string
		for line := range strings.Lines(string(data)) {
			addr, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if addr = strings.TrimLeft(addr, "0"); addr == "" {
				addr = "0"
			}
			want = append(want, addr+" "+rest)
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Error(diff)
		}
	})
}

// A table as large as that of a distribution's kernel.
func largeKallsyms(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		module := ""
		if i > n*2/3 {
			module = fmt.Sprintf("\t[module_%d]", i%100)
		}
		fmt.Fprintf(&b, "%016x t some_function_with_a_name_%d%s\n", 0xffffffff81000000+uint64(i)*0x90, i, module)
	}
	return b.Bytes()
}

func BenchmarkParseKallsyms(b *testing.B) {
	data := largeKallsyms(150_000)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseSymbols(bytes.NewReader(data), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// Parsing must not allocate for each symbol.
func TestParseSymbolsAllocs(t *testing.T) {
	data := largeKallsyms(30_000)
	allocs := testing.AllocsPerRun(3, func() {
		if _, err := parseSymbols(bytes.NewReader(data), nil); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 600 { // growth of two slices, and 100 modules
		t.Errorf("%.0f allocations for 30,000 symbols", allocs)
	}
}

// TestNamesakes: what the kernel finds by a name may be data, or in a module.
func TestNamesakes(t *testing.T) {
	lines := "ffffffff81000000 t alone\nffffffff81000100 t verbose\nffffffff81000200 t twice\nffffffff81000300 t twice\n" +
		"ffffffff81000400 t init_once\nffffffff81000500 t main\nffffffff82000000 b verbose\n" +
		"ffffffffc0000000 t init_once\t[mod]\nffffffffc0000100 d data\t[mod]\nffffffffc0000200 t data\t[mod]\nffffffffc0200000 t main\t[bpf]\n"
	want := map[string][2]bool{"alone": {}, "verbose": {true, false}, "twice": {true, false}, "init_once": {false, true}, "main": {}, "data": {true, false}}
	for searches := range fewNames + 2 { // names are found in the table as it is, and then in one by name
		v := Open(fstest.MapFS{kallsymsFile: {Data: []byte(lines)}})
		for range searches {
			_, _ = v.Match("alone", "")
		}
		for name, w := range want {
			funcs, err := v.Match(name, "")
			if err != nil || len(funcs) == 0 {
				t.Fatalf("%s: %v, %v", name, funcs, err)
			}
			for _, f := range funcs {
				if got := [2]bool{f.Namesakes, f.Shared}; f.Module != "bpf" && got != w {
					t.Errorf("%s after %d searches: namesakes, shared = %v, want %v", f, searches, got, w)
				}
			}
		}
	}
}

// TestHidden: who is shown addresses is decided as kallsyms_show_value of the kernel
// does (kernel/ksyms_common.c).
func TestHidden(t *testing.T) {
	const syslog, perfmon = "0000000400000000", "0000004000000000"
	const initial, contained = "0 0 4294967295\n", "0 1000 1\n"
	for _, c := range []struct {
		restrict, paranoid, caps, users, want string
	}{
		{"0", "1", perfmon, initial, ""}, {"0", "2", perfmon, initial, "CAP_SYSLOG"}, {"0", "3", syslog, initial, ""},
		{"1", "1", perfmon, initial, "CAP_SYSLOG"}, {"1", "1", syslog, initial, ""}, {"2", "1", syslog, initial, "kernel.kptr_restrict=1"},
		{"0", "1", syslog, contained, ""}, {"0", "2", syslog, contained, "CAP_SYSLOG"}, {"1", "1", syslog, contained, "CAP_SYSLOG"},
	} {
		v := Open(fstest.MapFS{
			"proc/sys/kernel/kptr_restrict":       {Data: []byte(c.restrict + "\n")},
			"proc/sys/kernel/perf_event_paranoid": {Data: []byte(c.paranoid + "\n")},
			"proc/self/status":                    {Data: []byte("Uid:\t1000\t1000\t1000\t1000\nCapEff:\t" + c.caps + "\n")},
			"proc/self/uid_map":                   {Data: []byte(c.users)},
		})
		if err := v.Hidden(); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("kptr_restrict %s, perf_event_paranoid %s, capabilities %s, users %q: %v, want %q", c.restrict, c.paranoid, c.caps, c.users, err, c.want)
		}
	}
}

// TestByName: symbols are sorted by name, whether names differ in the first eight bytes or not, and those of one name by position.
func TestByName(t *testing.T) {
	names := []string{"vfs_read_late", "vfs_read_iter", "vfs", "vfs_read", "a", "vfs_read_iter", "vfs_rea", "a", "\xffb", "vfs_read_", "vfs_read_iter.part.0"}
	var text bytes.Buffer
	for i, name := range names {
		fmt.Fprintf(&text, "%016x t %s\n", 0xffffffff81000000+uint64(i)*16, name)
	}
	table, err := parseSymbols(&text, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]uint32, len(names))
	for i := range want {
		want[i] = uint32(i)
	}
	slices.SortStableFunc(want, func(a, b uint32) int { return strings.Compare(names[a], names[b]) })
	if got := table.byName(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
