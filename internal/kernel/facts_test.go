// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const fullConfig = `# comment
CONFIG_BPF_SYSCALL=y
CONFIG_BPF_EVENTS=y
CONFIG_BPF_JIT=y
CONFIG_BPF_JIT_ALWAYS_ON=y
CONFIG_KPROBES=y
CONFIG_KPROBE_EVENTS=y
CONFIG_FPROBE=y
CONFIG_FUNCTION_TRACER=y
CONFIG_DYNAMIC_FTRACE=y
CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=y
CONFIG_DEFAULT_HOSTNAME="(none)"
# CONFIG_SECURITY_LOCKDOWN_LSM is not set
`

var allCaps = Privileges{UID: 0, caps: 1<<41 - 1}

// healthy is a kernel on which everything works.
func healthy(t testing.TB) fstest.MapFS {
	files := fakeKernel(t, "ip_rcv\n")
	for name, text := range map[string]string{
		"proc/sys/kernel/osrelease":                 "6.12.111+deb12-cloud-arm64\n",
		"proc/sys/kernel/arch":                      "aarch64\n",
		"boot/config-6.12.111+deb12-cloud-arm64":    fullConfig,
		"proc/sys/kernel/kptr_restrict":             "0\n",
		"proc/sys/kernel/perf_event_paranoid":       "2\n",
		"proc/sys/kernel/unprivileged_bpf_disabled": "2\n",
		"proc/sys/net/core/bpf_jit_enable":          "1\n",
		"proc/sys/kernel/ftrace_enabled":            "1\n",
		"sys/kernel/security/lockdown":              "none [integrity] confidentiality\n",
		"sys/kernel/tracing/trace_clock":            "[local] global\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func TestFactsHealthy(t *testing.T) {
	facts := Open(healthy(t)).Facts(allCaps)
	for _, f := range facts {
		if f.Answer != Yes || f.Do != "" {
			t.Errorf("%+v, want yes", f)
		}
	}
	if f, ok := obstacle(facts.get); ok {
		t.Errorf("obstacle: %v", f)
	}
	for name, want := range map[FactName]string{
		FactRelease: "6.12.111+deb12-cloud-arm64", FactArch: "arm64", FactLockdown: "integrity",
		FactKallsyms: "21, those of 1 module included", FactModuleBTF: "1 of 1 module", FactPrivileges: "root",
	} {
		if got := facts.get(name).Value; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	seen := make(map[FactName]bool)
	for i, f := range facts {
		if seen[f.Name] || f.Name != factSources[i].name {
			t.Errorf("%s twice, or in place of %s", f.Name, factSources[i].name)
		}
		seen[f.Name] = true
	}
}

// Both facts about modules count the same ones: BPF programs and trampolines,
// which kallsyms lists like modules, are none.
func TestFactsModules(t *testing.T) {
	const own = "ffffffff81000000 T _stext\nffffffffc0200000 t bpf_prog_1\t[bpf]\nffffffffc0201000 t x\t[__builtin__kprobes]\n"
	for _, c := range []struct{ symbols, all, btf string }{
		{"", "3, those of 0 modules included", "0 of 0 modules"},
		{"ffffffffc0000000 t f\t[mod]\n", "4, those of 1 module included", "1 of 1 module"},
		{"ffffffffc0000000 t f\t[mod]\nffffffffc0000010 t g\t[without]\n", "5, those of 2 modules included", "1 of 2 modules"},
	} {
		files := healthy(t)
		files[kallsymsFile] = &fstest.MapFile{Data: []byte(own + c.symbols)}
		facts := Open(files).Facts(allCaps)
		if all, btf := facts.get(FactKallsyms).Value, facts.get(FactModuleBTF).Value; all != c.all || btf != c.btf {
			t.Errorf("%q, %q; want %q, %q", all, btf, c.all, c.btf)
		}
	}
	files := healthy(t)
	delete(files, kallsymsFile)
	if got := Open(files).Facts(allCaps).get(FactModuleBTF).Value; got != "2 modules" {
		t.Errorf("without symbols: %q", got)
	}
}

// without returns the configuration with some options taken out.
func without(options ...string) string {
	text := []byte(fullConfig)
	for _, o := range options {
		text = bytes.ReplaceAll(text, []byte("CONFIG_"+o+"=y\n"), nil)
	}
	return string(text)
}

func TestFactsNo(t *testing.T) {
	const configFile = "boot/config-6.12.111+deb12-cloud-arm64"
	for _, test := range []struct {
		name     FactName
		set      map[string]string // "" removes the file
		priv     Privileges
		want     Fact
		obstacle bool
	}{
		{name: FactPrivileges, priv: Privileges{UID: 1000},
			want:     Fact{Value: "uid 1000", Why: "tracing needs CAP_BPF and CAP_PERFMON", Do: "run as root, or give ksnoop these capabilities; some features need more"},
			obstacle: true},
		{name: FactPrivileges, priv: Privileges{caps: 1 << unix.CAP_BPF},
			want: Fact{Value: "root without capabilities", Why: "CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN, are missing: a container?",
				Do: "run outside of the container, or give it these capabilities"},
			obstacle: true},
		{name: FactPrivileges, priv: Privileges{caps: ^uint64(0), contained: true},
			want:     Fact{Value: "a user namespace", Why: "capabilities in a user namespace let nothing be traced", Do: "run outside of the container"},
			obstacle: true},
		{name: FactLockdown, set: map[string]string{"sys/kernel/security/lockdown": "none integrity [confidentiality]\n"},
			want:     Fact{Value: "confidentiality", Why: "lockdown forbids to read kernel memory", Do: "boot without lockdown=confidentiality"},
			obstacle: true},
		{name: FactBPF, set: map[string]string{configFile: without("BPF_SYSCALL")},
			want:     Fact{Why: "CONFIG_BPF_SYSCALL is not set in /" + configFile, Do: "use a kernel built with CONFIG_BPF_SYSCALL"},
			obstacle: true},
		{name: FactBTF, set: map[string]string{"sys/kernel/btf/vmlinux": ""},
			want:     Fact{Why: "/sys/kernel/btf/vmlinux: file does not exist", Do: noTypes},
			obstacle: true},
		{name: FactEvents, set: map[string]string{configFile: without("BPF_EVENTS")},
			want:     Fact{Why: "CONFIG_BPF_EVENTS is not set in /" + configFile, Do: "use a kernel built with CONFIG_BPF_EVENTS"},
			obstacle: true},
		{name: FactFtrace, set: map[string]string{"proc/sys/kernel/ftrace_enabled": "0\n"},
			want: Fact{Value: "off", Why: "ftrace_enabled is 0", Do: "sysctl kernel.ftrace_enabled=1"}},
		{name: FactFentry, set: map[string]string{configFile: without("DYNAMIC_FTRACE_WITH_DIRECT_CALLS")},
			want: Fact{Why: "CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS is not set in /" + configFile,
				Do: "use a kernel built with CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS"}},
		{name: FactKprobes, set: map[string]string{configFile: without("KPROBES")},
			want: Fact{Why: "CONFIG_KPROBES is not set in /" + configFile, Do: "use a kernel built with CONFIG_KPROBES"}},
		{name: FactKprobes, set: map[string]string{"sys/kernel/debug/kprobes/enabled": "0\n"},
			want: Fact{Value: "off", Why: "/sys/kernel/debug/kprobes/enabled is 0", Do: "write 1 to /sys/kernel/debug/kprobes/enabled"}},
		{name: FactFprobe, set: map[string]string{configFile: without("FPROBE")},
			want: Fact{Why: "CONFIG_FPROBE is not set in /" + configFile, Do: "use a kernel built with CONFIG_FPROBE"}},
		{name: FactTracefs, set: map[string]string{"sys/kernel/tracing/trace_clock": ""},
			want: Fact{Why: "nothing is mounted on /sys/kernel/tracing", Do: "mount -t tracefs tracefs /sys/kernel/tracing"}},
		{name: FactKallsyms, set: map[string]string{kallsymsFile: ""},
			want: Fact{Why: "/proc/kallsyms: file does not exist: the kernel must be built with CONFIG_KALLSYMS to get functions that BTF does not have",
				Do: "use a kernel built with CONFIG_KALLSYMS"}},
		{name: FactAddresses, set: map[string]string{"proc/sys/kernel/kptr_restrict": "2\n", kallsymsFile: "0 T x\n"},
			want: Fact{Value: "kptr_restrict 2", Why: "/proc/kallsyms: addresses are hidden",
				Do: "as root, sysctl kernel.kptr_restrict=1"}},
		{name: FactJIT, set: map[string]string{"proc/sys/net/core/bpf_jit_enable": "0\n"},
			want: Fact{Value: "0", Why: "programs are interpreted", Do: "sysctl net.core.bpf_jit_enable=1"}},
		{name: FactPerf, priv: Privileges{UID: 1},
			want: Fact{Value: "2", Why: "the kernel refuses it to this process", Do: "run as root"}, obstacle: true},
		{name: FactUnprivBPF, priv: Privileges{UID: 1},
			want: Fact{Value: "2", Why: "the kernel refuses it to this process", Do: "run as root"}, obstacle: true},
		{name: FactPerf, priv: Privileges{caps: ^uint64(0), contained: true},
			want: Fact{Value: "2", Why: "the kernel refuses it to this process", Do: "run as root"}, obstacle: true},
		{name: FactUnprivBPF, priv: Privileges{caps: ^uint64(0), contained: true},
			want: Fact{Value: "2", Why: "the kernel refuses it to this process", Do: "run as root"}, obstacle: true},
		{name: FactRelease, set: map[string]string{"proc/sys/kernel/osrelease": "5.15.0\n", "proc/config.gz": zipped(fullConfig)},
			want: Fact{Value: "5.15.0", Why: "older than Linux 5.18", Do: "use a newer kernel"}},
		{name: FactRelease, set: map[string]string{"proc/sys/kernel/osrelease": "5.10.0\n", "proc/sys/kernel/arch": "x86_64\n", "proc/config.gz": zipped(fullConfig)},
			want: Fact{Value: "5.10.0", Why: "older than Linux 5.12", Do: "use a newer kernel"}},
	} {
		files := healthy(t)
		for name, text := range test.set {
			if text == "" {
				delete(files, name)
			} else {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		if test.priv == (Privileges{}) {
			test.priv = allCaps
		}
		facts := Open(files).Facts(test.priv)
		test.want.Name, test.want.Answer = test.name, No
		if diff := cmp.Diff(test.want, facts.get(test.name)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		o, ok := obstacle(facts.get)
		if ok != test.obstacle {
			t.Errorf("%s: obstacle %v, want %v", test.name, ok, test.obstacle)
		}
		if o2, ok2 := Open(files).Obstacle(test.priv); o2 != o || ok2 != ok {
			t.Errorf("%s: View.Obstacle %v, Facts.Obstacle %v", test.name, o2, o)
		}
	}
}

// TestReleases: a kernel that does not tell its release is not known to be older than one, nor to be it.
func TestReleases(t *testing.T) {
	for release, want := range map[string]struct{ atLeast, since bool }{
		"6.12.1-x\n": {true, true}, "6.1\n": {true, true}, "7.0.1\n": {true, true}, "6.0.19\n": {}, "5.15\n": {}, "6\n": {atLeast: true}, "linux\n": {atLeast: true}, "": {atLeast: true},
	} {
		view := Open(fstest.MapFS{"proc/sys/kernel/osrelease": {Data: []byte(release)}})
		if atLeast, since := view.AtLeast(6, 1), view.Since(6, 1); atLeast != want.atLeast || since != want.since {
			t.Errorf("%q: at least 6.1: %v, since 6.1: %v", release, atLeast, since)
		}
	}
	if view := Open(fstest.MapFS{}); !view.AtLeast(6, 1) || view.Since(6, 1) {
		t.Error("no release")
	}
}

// zipped is /proc/config.gz.
func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err1 := w.Write([]byte(text))
	if err2 := w.Close(); err1 != nil || err2 != nil {
		panic("a bytes.Buffer takes all")
	}
	return b.String()
}

// A kernel that can be attached to in neither way.
func TestObstacleNoAttach(t *testing.T) {
	files := healthy(t)
	files["proc/config.gz"] = &fstest.MapFile{Data: []byte(zipped(without("KPROBES", "FUNCTION_TRACER")))}
	f, ok := obstacle(Open(files).Facts(allCaps).get)
	const want = "fentry or kprobes: no (CONFIG_FUNCTION_TRACER is not set in /proc/config.gz; CONFIG_KPROBES is not set in /proc/config.gz)"
	if !ok || f.String() != want {
		t.Errorf("%v, %v, want %s", f, ok, want)
	}
}

// Without a configuration, functions of the kernel are the evidence.
func TestFactsFromSymbols(t *testing.T) {
	files := healthy(t)
	delete(files, "boot/config-6.12.111+deb12-cloud-arm64")
	files[kallsymsFile] = &fstest.MapFile{Data: []byte("1 T bpf_map_inc\n2 T register_kprobe\n3 t register_fprobe\t[mod]\n")}
	facts := Open(files).Facts(allCaps)
	got := make(map[FactName]Answer)
	for _, name := range []FactName{FactBPF, FactKprobes, FactFprobe, FactFtrace} {
		got[name] = facts.get(name).Answer
	}
	want := map[FactName]Answer{FactBPF: Yes, FactKprobes: Yes, FactFprobe: No, FactFtrace: No}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// BTF is evidence as well, and then kallsyms is not read.
func TestFactsFromBTF(t *testing.T) {
	files := healthy(t)
	b, err := btf.NewBuilder([]btf.Type{fakeFunc("bpf_map_inc", fakeInt), fakeFunc("trace_call_bpf", fakeInt),
		fakeFunc("register_ftrace_function", fakeInt), fakeFunc("bpf_trampoline_link_prog", fakeInt)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	files["sys/kernel/btf/vmlinux"] = &fstest.MapFile{Data: blob}
	delete(files, "boot/config-6.12.111+deb12-cloud-arm64")
	opened := &counting{FS: files}
	v := Open(opened)
	if o, found := v.Obstacle(allCaps); found {
		t.Errorf("obstacle: %v", o)
	}
	if f := v.fact(FactFentry, allCaps); f.Answer != Yes || f.Why != "the kernel has bpf_trampoline_link_prog" {
		t.Errorf("%+v", f)
	}
	if opened.symbols {
		t.Error("kallsyms was read")
	}
}

// counting notes whether kallsyms was opened.
type counting struct {
	fs.FS
	symbols bool
}

func (c *counting) Open(name string) (fs.File, error) {
	c.symbols = c.symbols || name == kallsymsFile
	return c.FS.Open(name)
}

// An empty root: nothing is known, nothing is claimed.
func TestFactsUnknown(t *testing.T) {
	facts := Open(fstest.MapFS{}).Facts(allCaps)
	got := make(map[FactName]Answer)
	for _, f := range facts {
		got[f.Name] = f.Answer
		if f.Answer != Yes && f.Why == "" {
			t.Errorf("%s: no reason", f.Name)
		}
	}
	for _, name := range []FactName{FactBPF, FactEvents, FactFtrace, FactKprobes, FactFprobe, FactLockdown, FactJIT, FactPerf, FactRelease} {
		if got[name] != Unknown {
			t.Errorf("%s: %v, want unknown", name, got[name])
		}
	}
	if f := facts.get("no such fact"); f.Answer != Unknown {
		t.Errorf("%v", f)
	}
}

// denying is a file system of which one file must not be read.
type denying struct {
	fs.FS
	file string
}

func (d denying) Open(name string) (fs.File, error) {
	if name == d.file {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.FS.Open(name)
}

func TestFactsPermission(t *testing.T) {
	const file = "sys/kernel/tracing/trace_clock"
	f := Open(denying{healthy(t), file}).Facts(Privileges{UID: 1000}).get(FactTracefs)
	if f.Answer != Unknown || f.Do != "run as root" {
		t.Errorf("%+v", f)
	}
	_, err := Open(denying{healthy(t), kallsymsFile}).Locate(nil)
	const want = "/proc/kallsyms: permission denied: run as root or with CAP_DAC_READ_SEARCH to get functions that BTF does not have"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestPrivileges(t *testing.T) {
	files := fstest.MapFS{"proc/self/status": {Data: []byte(
		"Name:\tksnoop\nUid:\t1000\t0\t1000\t1000\nCapPrm:\t0000000000000000\nCapEff:\t000000c000000000\n")}}
	p, err := Open(files).Privileges()
	if want := (Privileges{UID: 0, caps: 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON}); err != nil || p != want {
		t.Errorf("%+v, %v, want %+v", p, err, want)
	}
	if !p.tracing() || p.has(unix.CAP_SYS_ADMIN) {
		t.Errorf("Tracing %v, CAP_SYS_ADMIN %v", p.tracing(), p.has(unix.CAP_SYS_ADMIN))
	}
	for _, text := range []string{"", "Uid:\t0\tx\t0\t0\nCapEff:\t0\n", "Uid:\t0\t0\t0\t0\nCapEff:\tx\n", "Uid:\t0\t0\t0\t0\n"} {
		if p, err := parseStatus(text); err == nil {
			t.Errorf("%q: %+v", text, p)
		}
	}
	if own, err := Open(os.DirFS("/")).Privileges(); err == nil && own.UID != os.Geteuid() {
		t.Errorf("own uid %d, want %d", own.UID, os.Geteuid())
	}
	for users, want := range map[string]bool{"         0          0 4294967295\n": false, "0 1000 1\n": true, "0 1000 1\n1 100000 65536\n": true, "": true} {
		files := fstest.MapFS{"proc/self/status": files["proc/self/status"], "proc/self/uid_map": {Data: []byte(users)}}
		if p, err := Open(files).Privileges(); err != nil || p.contained != want {
			t.Errorf("users %q: in a namespace: %v, %v", users, p.contained, err)
		}
	}
}

func TestParseConfig(t *testing.T) {
	got, err := parseConfig(bytes.NewReader([]byte(fullConfig)))
	if err != nil || got["DEFAULT_HOSTNAME"] != "(none)" || got["FPROBE"] != "y" {
		t.Errorf("%v, %v", got, err)
	}
	if _, set := got["SECURITY_LOCKDOWN_LSM"]; set || len(got) != 11 {
		t.Errorf("%d options", len(got))
	}
}

// get returns the fact of that name, an Unknown one if there is none.
func (f Facts) get(name FactName) Fact {
	if i := slices.IndexFunc(f, func(x Fact) bool { return x.Name == name }); i >= 0 {
		return f[i]
	}
	return Fact{Name: name}
}
