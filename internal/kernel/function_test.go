// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/ksnoop/ksnoop/internal/glob"
)

// fakeKernel is a kernel with one module and, if asked for, with tracefs.
func fakeKernel(t testing.TB, traceable string) fstest.MapFS {
	t.Helper()
	base := vmlinuxBTF(t)
	files := fstest.MapFS{
		"sys/kernel/btf/vmlinux": {Data: base},
		"sys/kernel/btf/mod":     {Data: moduleBTF(t, base)},
		"sys/kernel/btf/broken":  {Data: []byte("no BTF")},
		kallsymsFile:             {Data: []byte(kallsyms)},
	}
	if traceable != "" {
		files[tracefs+"/"+filterFile] = &fstest.MapFile{Data: []byte(traceable)}
	}
	return files
}

// list renders functions as "name[module]@address:arguments".
func list(funcs []Function) string {
	var out []string
	for _, f := range funcs {
		text := f.String()
		if f.Addr != 0 {
			text += fmt.Sprintf("@%x", f.Addr&0xffff)
		}
		if f.Type != nil {
			text += ":" + f.Type.Name
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// Of functions of one name, those are found that the list of addresses has,
// under all names that the code has.
func TestMatchSites(t *testing.T) {
	files := fakeKernel(t, "twice\nno_btf\n")
	files[tracefs+"/"+sitesFile] = &fstest.MapFile{Data: []byte("ffffffff81000504 twice\nffffffff81000054 ip_send_skb\nffffffff81000630 no_btf\nffffffffc0000080 ip_rcv [mod]\n")}
	v := Open(files)
	funcs, err := v.Match("*", "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := list(funcs), "ip_rcv[mod]@80:ip_rcv ip_send_skb@50:ip_send_skb twice@500"; got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	for addr, refused := range map[uint64]bool{0xffffffff81000400: true, 0xffffffff81000500: false} {
		a, err := v.Attachable(Function{Name: "twice", Addr: addr})
		if !errors.Is(err, fs.ErrNotExist) || (a.kprobeMulti != nil) != refused {
			t.Errorf("%x: %v, %v", addr, a.kprobeMulti, err)
		}
	}
}

func TestCopyOf(t *testing.T) {
	for name, want := range map[string]string{"f": "", "f.isra.0": "f", "f.constprop.0.isra.0": "f", "f.llvm.17803414105218893241": "f", "f.part.0": "", "f.cold": "", ".isra.0": ""} {
		if base, ok := copyOf(name); ok != (want != "") || ok && base != want {
			t.Errorf("%s: %s, %v", name, base, ok)
		}
	}
}

func TestExactMatch(t *testing.T) {
	v := Open(fakeKernel(t, ""))
	for _, test := range []struct{ name, want string }{
		{"ip_send_skb", "ip_send_skb:ip_send_skb"},
		{"ip_rcv", "ip_rcv:ip_rcv ip_rcv[mod]:ip_rcv"},
		{"mod_probe", "mod_probe[mod]:mod_probe"},
		{"no_btf", "no_btf@600"},
		{"copied.isra.0", "copied.isra.0@200:copied"},
		{"both.constprop.0", "both.constprop.0@310"}, // BTF describes the original
	} {
		funcs, err := v.Match(test.name, "")
		if got := list(funcs); err != nil || got != test.want {
			t.Errorf("Match(%s) = %s, %v, want %s", test.name, got, err, test.want)
		}
	}
}

// An exact look-up must not read kallsyms if BTF answers: it is what takes the
// time of `ksnoop info`.
func TestExactMatchReadsNoSymbols(t *testing.T) {
	files := fakeKernel(t, "")
	files[kallsymsFile] = &fstest.MapFile{Data: []byte("this would be an error\n")}
	v := Open(files)
	if funcs, err := v.Match("ip_send_skb", ""); err != nil || len(funcs) != 1 {
		t.Errorf("Match: %v, %v", funcs, err)
	}
	if err := v.Symbols(); err == nil {
		t.Error("Symbols: no error")
	}
}

func TestMatch(t *testing.T) {
	const traceable = "ip_send_skb\nip_rcv\ntwice\nno_btf\nmod_probe [mod]\ncopied.isra.0\n"
	for _, test := range []struct{ traceable, glob, module, want string }{
		{"", "ip_*", "", "ip_rcv@110:ip_rcv ip_rcv[mod]@80:ip_rcv ip_send_skb@50:ip_send_skb"},
		{"", "*ip_*", "m*", "ip_rcv[mod]@80:ip_rcv"},
		{"", "ip_rcv", "mod", "ip_rcv[mod]:ip_rcv"},
		{"", "ip_?cv", "no", ""},
		{"", "twi?e", "", "twice@400 twice@500"}, // which signature is whose is unknown
		{"", "co*", "", "copied.isra.0@200:copied"},
		{"", "nothing*", "", ""},
		{"", "nothing", "", ""},
		{"", "bpf_prog*", "", ""},
		{"", "*_data", "", ""},
		{traceable, "ip_*", "", "ip_rcv@110:ip_rcv ip_send_skb@50:ip_send_skb"},
		{traceable, "both*", "", ""},
		{traceable, "both", "", "both:both"}, // a name is a name
	} {
		funcs, err := Open(fakeKernel(t, test.traceable)).Match(test.glob, test.module)
		if got := list(funcs); err != nil || got != test.want {
			t.Errorf("Match(%q, %q) = %s, %v, want %s", test.glob, test.module, got, err, test.want)
		}
	}
}

// TestDescribeAt: what cannot be traced has a type, too.
func TestDescribeAt(t *testing.T) {
	v := Open(fakeKernel(t, "ip_rcv\n"))
	addrs := []uint64{0xffffffff81000050, 0xffffffff81000110}
	traced, err := v.SelectAt(addrs)
	if got := list(traced); err != nil || got != "ip_rcv@110:ip_rcv" {
		t.Errorf("SelectAt: %s, %v", got, err)
	}
	all, err := v.DescribeAt(addrs)
	if got := list(all); err != nil || got != "ip_rcv@110:ip_rcv ip_send_skb@50:ip_send_skb" {
		t.Errorf("DescribeAt: %s, %v", got, err)
	}
}

func TestMatchWithoutSymbols(t *testing.T) {
	files := fakeKernel(t, "")
	delete(files, kallsymsFile)
	funcs, err := Open(files).Match("*", "")
	const want = "both:both copied:copied ip_rcv:ip_rcv ip_rcv[mod]:ip_rcv ip_send_skb:ip_send_skb " +
		"mod_probe[mod]:mod_probe tcp_v4_rcv:tcp_v4_rcv twice:twice twice:twice"
	if got := list(funcs); err != nil || got != want {
		t.Errorf("Match = %s, %v, want %s", got, err, want)
	}
}

// Without BTF functions are found by symbol; without both, the error is BTF's.
func TestMatchWithoutBTF(t *testing.T) {
	files := fakeKernel(t, "")
	delete(files, "sys/kernel/btf/vmlinux")
	funcs, err := Open(files).Match("ip_rcv", "")
	if got := list(funcs); err != nil || got != "ip_rcv@110 ip_rcv[mod]@80" {
		t.Errorf("Match = %s, %v", got, err)
	}
	delete(files, kallsymsFile)
	_, err = Open(files).Match("ip_rcv", "")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "CONFIG_DEBUG_INFO_BTF") {
		t.Errorf("%v, want what to do about it", err)
	}
}

func TestLocate(t *testing.T) {
	whole := Open(fakeKernel(t, ""))
	if err := whole.Symbols(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, want string }{
		{"ip_send_skb", "ip_send_skb@50:ip_send_skb"},
		{"ip_rcv", "ip_rcv@110:ip_rcv ip_rcv[mod]@80:ip_rcv"},
		{"copied", "copied.isra.0@200:copied"},
		{"both", "both@300:both"},
		{"twice", "twice@400 twice@500"},
		{"tcp_v4_rcv", ""}, // in BTF only
	} {
		// Symbols are looked for in the file by a view that has not read them, once.
		fresh := Open(fakeKernel(t, ""))
		funcs, err := fresh.Match(test.name, "")
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range []*View{fresh, fresh, whole} {
			located, err := v.Locate(funcs)
			if got := list(located); err != nil || got != test.want {
				t.Errorf("Locate(%s), %d: %s, %v, want %s", test.name, i, got, err, test.want)
			}
		}
	}
}

// What has a type under another name of its code only needs all symbols.
func TestLocateAlias(t *testing.T) {
	files := fakeKernel(t, "")
	files[kallsymsFile] = &fstest.MapFile{Data: []byte(kallsyms + "ffffffff81000050 T sys_send\n")}
	v := Open(files)
	located, err := v.Locate([]Function{{Name: "sys_send"}})
	if err != nil || len(located) != 1 || located[0].Type == nil || located[0].Type.Name != "ip_send_skb" || !located[0].Alias {
		t.Errorf("%+v, %v", located, err)
	}
}

func TestNearest(t *testing.T) {
	v := Open(fakeKernel(t, ""))
	for _, test := range []struct{ name, want string }{
		{"ip_recv", "ip_rcv"},
		{"tcp_v4_rvc", "tcp_v4_rcv"},
		{"mod_prob", "mod_probe"},
		{"copied", "copied,copied.isra.0"},
		{"entirely_different", ""},
		{"", ""},
	} {
		if got := strings.Join(v.Nearest(test.name, 3), ","); got != test.want {
			t.Errorf("Nearest(%s) = %s, want %s", test.name, got, test.want)
		}
	}
}

func TestAttachable(t *testing.T) {
	files := fakeKernel(t, "ip_send_skb\nno_btf\nmod_probe [mod]\n")
	files[blacklistFile] = &fstest.MapFile{Data: []byte(
		"0xffffffff81000600-0xffffffff81000610\tno_btf\n0xffffffffc0000080-0xffffffffc00000a0\tip_rcv [mod]\n")}
	v := Open(files)
	for _, test := range []struct {
		f    Function
		want [3]Refusal // fentry, kprobe, kprobe.multi
	}{
		{Function{Name: "ip_send_skb"}, [3]Refusal{}},
		{Function{Name: "no_btf"}, [3]Refusal{NoBTF, Blacklisted, Blacklisted}},
		{Function{Name: "ip_rcv"}, [3]Refusal{NotTraceable, NotTraceable, NotTraceable}},
		{Function{Name: "ip_rcv", Module: "mod"}, [3]Refusal{NotTraceable, NotTraceable, NotTraceable}},
		{Function{Name: "mod_probe", Module: "mod"}, [3]Refusal{}},
	} {
		if test.want[0] != NoBTF {
			test.f.Type = fakeFunc(test.f.Name, fakeInt)
		}
		a, err := v.Attachable(test.f)
		if err != nil {
			t.Fatal(err)
		}
		var got [3]Refusal
		for i, err := range []error{a.fentry, a.kprobe, a.kprobeMulti} {
			var refused *RefusedError
			if errors.As(err, &refused) {
				got[i] = refused.Why
			}
		}
		if got != test.want {
			t.Errorf("%s: %v, want %v", test.f, got, test.want)
		}
	}
	// within_notrace_func in kernel/trace/trace_kprobe.c is compiled out by this option.
	files["proc/sys/kernel/osrelease"] = &fstest.MapFile{Data: []byte("6.12.0\n")}
	files["boot/config-6.12.0"] = &fstest.MapFile{Data: []byte("CONFIG_KPROBE_EVENTS_ON_NOTRACE=y\n")}
	if a, err := Open(files).Attachable(Function{Name: "ip_rcv"}); err != nil || a.kprobe != nil || a.kprobeMulti == nil || a.Refusal() != nil {
		t.Errorf("kprobes on notrace functions: %+v, %v", a, err)
	}
	copied := Function{Name: "ip_send_skb.isra.0", Type: fakeFunc("ip_send_skb", fakeInt)}
	a, err := v.Attachable(copied)
	var refused *RefusedError
	if err != nil || !errors.As(a.fentry, &refused) || refused.Why != Renamed {
		t.Errorf("%s: %+v, %v, want fentry refused for its name", copied, a, err)
	}
	delete(files, blacklistFile)
	a, err = Open(files).Attachable(Function{Name: "ip_send_skb"})
	if !errors.Is(err, fs.ErrNotExist) || a.kprobe != nil || a.fentry == nil {
		t.Errorf("without the blacklist: %+v, %v", a, err)
	}
}

// What no method can attach to has the kernel's reason; ftrace lists one of
// several names of the same code.
func TestRefusal(t *testing.T) {
	files := fakeKernel(t, "__do_sys_getppid\nip_send_skb\n")
	files[kallsymsFile] = &fstest.MapFile{Data: []byte("ffffffff81000ab0 t __do_sys_getppid\nffffffff81000ab0 T __x64_sys_getppid\n" +
		"ffffffff81000ac0 T native_sched_clock\nffffffff81000ad0 T ip_send_skb\n")}
	files[blacklistFile] = &fstest.MapFile{Data: []byte("0xffffffff81000ad0-0xffffffff81000ae0\tip_send_skb\n")}
	v := Open(files)
	for _, test := range []struct {
		f    Function
		want string
	}{
		{Function{Name: "__x64_sys_getppid"}, ""},
		{Function{Name: "native_sched_clock"}, "native_sched_clock: the kernel does not let it be traced (notrace)"},
		{Function{Name: "ip_send_skb"}, "ip_send_skb: the kernel does not let it be probed (NOKPROBE)"},
		{Function{Name: "ip_send_skb", Type: fakeFunc("ip_send_skb", fakeInt)}, ""}, // fentry is no kprobe
	} {
		a, err := v.Attachable(test.f)
		got := ""
		var refused *RefusedError
		if errors.As(a.Refusal(), &refused) {
			got = refused.Error()
			if reason := refused.Reason(); strings.Contains(reason, test.f.Name) || !strings.HasSuffix(got, reason) {
				t.Errorf("%s: the reason is %q", test.f, reason)
			}
		}
		if err != nil || got != test.want {
			t.Errorf("%s: %q, %v, want %q", test.f, got, err, test.want)
		}
	}
}

// openBytes is OpenBTF of blobs.
func openBytes(t testing.TB, data, base []byte) *View {
	t.Helper()
	var b *strings.Reader
	v, err := OpenBTF(strings.NewReader(string(data)), nil, "")
	if base != nil {
		b = strings.NewReader(string(base))
		v, err = OpenBTF(strings.NewReader(string(data)), b, "mod")
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestConcurrent(t *testing.T) {
	v := Open(fakeKernel(t, "ip_rcv\n"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			funcs, err := v.Match("ip_rcv", "")
			if err != nil || len(funcs) != 2 {
				t.Errorf("Function: %v, %v", funcs, err)
			}
			if _, err := v.Locate(funcs); err != nil {
				t.Error(err)
			}
			if s, ok := v.Symbol(0xffffffff81000110); !ok || s.Name != "ip_rcv" {
				t.Errorf("Symbol: %v", s)
			}
		})
	}
	wg.Wait()
}

// The kernel that runs the test: what it says of itself must fit together.
func TestRunningKernel(t *testing.T) {
	v := Open(os.DirFS("/"))
	if _, err := v.BTF(); err != nil {
		t.Skip("needs a kernel with BTF: ", err)
	}
	funcs, err := v.Match("vfs_read", "")
	if err != nil || len(funcs) != 1 || funcs[0].Type == nil {
		t.Fatalf("Function(vfs_read) = %v, %v", funcs, err)
	}
	file, err := os.Open("/" + btfDir + "/vmlinux")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	blob, err := OpenBTF(file, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if same, err := blob.Match("vfs_read", ""); err != nil || list(same) != list(funcs) {
		t.Errorf("OpenBTF: %v, %v", same, err)
	}
	if err := v.Symbols(); err != nil {
		t.Skip(err)
	}
	funcs, err = v.Locate(funcs)
	if err != nil || len(funcs) != 1 {
		t.Fatalf("Locate(vfs_read) = %v, %v", funcs, err)
	}
	s, ok := v.Symbol(funcs[0].Addr + 4)
	if diff := cmp.Diff(Symbol{Name: "vfs_read", Addr: funcs[0].Addr, Offset: 4, Size: s.Size}, s); !ok || diff != "" {
		t.Errorf("Symbol: %v %s", ok, diff)
	}
}

// TestMatchOften: what one glob finds does not depend on how many were looked for before, which
// decides how the symbols are searched.
func TestMatchOften(t *testing.T) {
	v := Open(fakeKernel(t, ""))
	all, err := v.Select(func(Function) bool { return true })
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for i := range 2 * fewNames {
		for _, pattern := range []string{"*", "?*", "ip_*", "ip_?cv", "*_*", "twice*", "twicer*", "co*0", "\xff*"} {
			want := slices.DeleteFunc(slices.Clone(all), func(f Function) bool { return !glob.Match(pattern, f.Name) })
			got, err := v.Match(pattern, "")
			if err != nil || list(got) != list(want) {
				t.Fatalf("%d: Match(%q) = %s, %v, want %s", i, pattern, list(got), err, list(want))
			}
		}
	}
}

func BenchmarkFunction(b *testing.B) {
	for b.Loop() {
		if _, err := Open(os.DirFS("/")).Match("ip_send_skb", ""); err != nil {
			b.Skip(err)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for b.Loop() {
		if _, err := Open(os.DirFS("/")).Match("tcp_*", ""); err != nil {
			b.Skip(err)
		}
	}
}
