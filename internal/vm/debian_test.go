// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A fakeApt stands for Debian's tools and an archive.
type fakeApt struct {
	t       *testing.T
	targets string            // apt-get indextargets
	records map[string]string // apt-cache show, by package name
	later   map[string]string // records after an update
	offline bool
	calls   []string
}

func (a *fakeApt) run(_ context.Context, dir, name string, args ...string) ([]byte, error) {
	call := name + " " + strings.Join(args, " ")
	a.calls = append(a.calls, call)
	if a.offline {
		return nil, errors.New("offline")
	}
	last := args[len(args)-1]
	switch {
	case name == "apt-cache" && slices.Contains(args, "pkgnames"):
		var names []string
		for n := range a.records {
			if n, _, _ = strings.Cut(n, ":"); strings.HasPrefix(n, last) {
				names = append(names, n)
			}
		}
		return []byte(strings.Join(names, "\n")), nil
	case slices.Contains(args, "indextargets"):
		return []byte(a.targets), nil
	case name == "apt-cache":
		if r, ok := a.records[last]; ok {
			return []byte(r), nil
		}
		return nil, fmt.Errorf("no packages found: %s", last)
	case name == "dpkg":
		boot := filepath.Join(last, "boot")
		if err := os.MkdirAll(boot, 0o755); err != nil {
			a.t.Fatal(err)
		}
		return nil, os.WriteFile(filepath.Join(boot, "vmlinuz-x"), nil, 0o644)
	case last == "update":
		for k, v := range a.later {
			a.records[k] = v
		}
		return nil, nil
	case name == "apt-get":
		return nil, os.WriteFile(filepath.Join(dir, "p.deb"), nil, 0o644)
	}
	a.t.Fatalf("unexpected call %s", call)
	return nil, nil
}

func (a *fakeApt) count(part string) int {
	n := 0
	for _, c := range a.calls {
		if strings.Contains(c, part) {
			n++
		}
	}
	return n
}

// record is a shortened copy of one of Debian's.
func record(name, version, arch, depends string) string {
	return fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nDepends: %s\nDescription: Linux\n Version: of no package\n\nPackage: %[1]s\nVersion: 0-older\n",
		name, version, arch, depends)
}

const busybox = "busybox-static:arm64"

func newFakeApt(t *testing.T) (*fakeApt, *Cache) {
	source := filepath.Join(t.TempDir(), "debian.sources")
	if err := os.WriteFile(source, []byte("Types: deb\nURIs: http://mirror/debian\nSuites: old\nSigned-By: /keys.gpg\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	a := &fakeApt{
		t:       t,
		targets: "Debian|main|Debian|old|http://mirror/debian/|" + source + ":1\n",
		records: map[string]string{busybox: record("busybox-static", "1:1.35.0-4", "arm64", "libc6")},
	}
	return a, &Cache{Dir: t.TempDir(), maxAge: time.Hour, run: a.run}
}

// addKernel adds the packages of a kernel; parts are those that it is split into.
func (a *fakeApt) addKernel(release, version, arch string, parts ...string) {
	depends := "kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool"
	for _, part := range parts {
		name := "linux-" + part + "-" + release
		depends += ", " + name + " (= " + version + ")"
		a.records[name+":"+arch] = record(name, version, arch, "")
	}
	a.records["linux-image-"+release+":"+arch] = record("linux-image-"+release, version, arch, depends)
}

func TestFetch(t *testing.T) {
	tests := []struct{ ask, name, dir, err string }{
		{ask: busybox, name: busybox, dir: "busybox-static_1:1.35.0-4_arm64"},
		{ask: "no-such-package", err: "no packages found"},
	}
	for _, tt := range tests {
		t.Run(tt.ask, func(t *testing.T) {
			_, c := newFakeApt(t)
			p, err := c.Fetch(t.Context(), tt.ask)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q in it", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(c.Dir, "debian", tt.dir); p.Name != tt.name || p.Dir != want {
				t.Errorf("package %s in %s, want %s in %s", p.Name, p.Dir, tt.name, want)
			}
			if _, err := os.Stat(filepath.Join(p.Dir, "boot", "vmlinuz-x")); err != nil {
				t.Error(err)
			}
			left, err := filepath.Glob(filepath.Join(c.Dir, "debian", ".*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

func TestFetchAsksAgainOnlyWhenOld(t *testing.T) {
	a, c := newFakeApt(t)
	fetch := func() Package {
		t.Helper()
		p, err := c.Fetch(t.Context(), busybox)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := fetch()
	asked := len(a.calls)
	if again := fetch(); again != first || len(a.calls) != asked {
		t.Errorf("young answer: %v after %v", again, a.calls[asked:])
	}
	c.maxAge = 0
	if again := fetch(); again != first || len(a.calls) == asked {
		t.Errorf("old answer was believed")
	}
	if n := a.count("download"); n != 1 {
		t.Errorf("downloaded %d times", n)
	}
	a.offline = true
	if again := fetch(); again != first {
		t.Errorf("offline: %v, want %v", again, first)
	}
	if err := os.RemoveAll(first.Dir); err != nil {
		t.Fatal(err)
	}
	if p, err := c.Fetch(t.Context(), busybox); err == nil {
		t.Errorf("offline and nothing unpacked: %v, want an error", p)
	}
}

// Young lists serve every package, but for one that they do not have: the archive
// may have it by now.
func TestFetchUpdatesLists(t *testing.T) {
	a, c := newFakeApt(t)
	for range 2 {
		if _, err := c.Fetch(t.Context(), busybox); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.count("update"); n != 1 {
		t.Errorf("updated %d times, want once", n)
	}
	a.later = map[string]string{"new": record("new", "1", "all", "")}
	if _, err := c.Fetch(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	if n := a.count("update"); n != 2 {
		t.Errorf("updated %d times, want twice", n)
	}
}

func TestResolveKernel(t *testing.T) {
	tests := []struct{ name, want, err string }{
		{name: "6.12", want: "linux-image-6.12.117+deb12-cloud-amd64"},
		{name: "6.12-rt", want: "linux-image-6.12.117+deb12-rt-amd64"},
		{name: "6.12-generic", want: "linux-image-6.12.9+deb12-amd64"},
		{name: "6.12-arm64", want: "linux-image-6.12.107+deb13-cloud-arm64"},
		{name: "6.1", want: "linux-image-6.1.0-56-cloud-amd64"},
		{name: "newest", want: "linux-image-7.10.1+deb13-cloud-amd64 linux-binary-7.10.1+deb13-cloud-amd64 linux-modules-7.10.1+deb13-cloud-amd64 linux-base-7.10.1+deb13-cloud-amd64"},
		{name: "6.19", want: "linux-image-6.19.10+deb13-cloud-amd64 linux-binary-6.19.10+deb13-cloud-amd64"},
		{name: "linux-image-6.1.0-9-cloud-amd64", want: "linux-image-6.1.0-9-cloud-amd64"},
		{name: "6.18", err: "no such kernel in Debian"},
		{name: "newest-rt-arm64", err: "no such kernel in Debian"},
		{name: "2", err: `unknown kernel "2": want a series`},
		{name: "6.12-cloud", err: "unknown kernel"},
	}
	a, c := newFakeApt(t)
	all := []string{"binary", "modules", "base"}
	a.addKernel("6.12.117+deb12-cloud-amd64", "6.12.117-1", "amd64")
	a.addKernel("6.12.107+deb13-cloud-amd64", "6.12.107-1", "amd64")
	a.addKernel("6.12.117+deb12-rt-amd64", "6.12.117-1", "amd64")
	a.addKernel("6.12.9+deb12-amd64", "6.12.9-1", "amd64")
	a.addKernel("6.12.107+deb13-cloud-arm64", "6.12.107-1", "arm64")
	a.addKernel("6.1.0-56-cloud-amd64", "6.1.192-2", "amd64")
	a.addKernel("6.1.0-9-cloud-amd64", "6.1.99-2", "amd64")
	a.addKernel("7.10.1+deb13-cloud-amd64", "7.10.1-1", "amd64", all...)
	a.addKernel("7.9.4+deb13-cloud-amd64", "7.9.4-1", "amd64", all...)
	// Half there: the archive has the empty package only, or no modules any more.
	a.addKernel("7.11.1+deb13-cloud-amd64", "7.11.1-1", "amd64", all...)
	delete(a.records, "linux-binary-7.11.1+deb13-cloud-amd64:amd64")
	a.addKernel("6.19.10+deb13-cloud-amd64", "6.19.10-1", "amd64", all...)
	delete(a.records, "linux-modules-6.19.10+deb13-cloud-amd64:amd64")
	delete(a.records, "linux-base-6.19.10+deb13-cloud-amd64:amd64")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := parseSeries(tt.name)
			var parts []Package
			if err == nil {
				parts, err = c.resolveKernel(t.Context(), s)
			}
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q in it", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range parts {
				name, arch, _ := strings.Cut(p.Name, ":")
				if got = append(got, name); arch != p.Arch {
					t.Errorf("%s is of %s", p.Name, p.Arch)
				}
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("packages %s, want %s", got, tt.want)
			}
		})
	}
}

func TestKernelIn(t *testing.T) {
	root := t.TempDir()
	tests := []struct {
		name  string
		parts [][]string // of each package the files
		want  Kernel
		err   string
	}{
		{name: "one package", parts: [][]string{{"boot/vmlinuz-6.1", "lib/modules/6.1/kernel/a.ko", "lib/modules/6.1/modules.builtin"}},
			want: Kernel{Release: "6.1", Vmlinuz: "0/boot/vmlinuz-6.1", Modules: "0/lib/modules/6.1", builtin: "0/lib/modules/6.1/modules.builtin"}},
		{name: "no list", parts: [][]string{{"boot/vmlinuz-6.18", "usr/lib/modules/6.18/kernel/a.ko"}},
			want: Kernel{Release: "6.18", Vmlinuz: "0/boot/vmlinuz-6.18", Modules: "0/usr/lib/modules/6.18"}},
		{name: "split", parts: [][]string{{"usr/share/doc/x"}, {"usr/lib/modules/7.3/vmlinuz.unsigned"}, {"usr/lib/modules/7.3/kernel/a.ko"}, {"usr/lib/modules/7.3/modules.builtin"}},
			want: Kernel{Release: "7.3", Vmlinuz: "1/usr/lib/modules/7.3/vmlinuz.unsigned", Modules: "2/usr/lib/modules/7.3", builtin: "3/usr/lib/modules/7.3/modules.builtin"}},
		{name: "modules dropped", parts: [][]string{{}, {"boot/vmlinuz-6.19"}}, want: Kernel{Release: "6.19", Vmlinuz: "1/boot/vmlinuz-6.19"}},
		{name: "no image", parts: [][]string{{"usr/share/doc/x"}}, err: "0 kernel images in the packages of no image"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(root, tt.name)
			var parts []Package
			for i, files := range tt.parts {
				p := Package{Arch: "amd64", Dir: filepath.Join(dir, fmt.Sprint(i))}
				for _, file := range files {
					file = filepath.Join(p.Dir, file)
					if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
						t.Fatal(err)
					}
				}
				parts = append(parts, p)
			}
			got, err := kernelIn(parts, tt.name)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err+", want 1" {
					t.Errorf("error %v", err)
				}
				return
			}
			for _, p := range []*string{&got.Vmlinuz, &got.Modules, &got.builtin} {
				*p = strings.TrimPrefix(*p, dir+"/")
			}
			tt.want.Name, tt.want.Arch = tt.name, "amd64"
			if err != nil || got != tt.want {
				t.Errorf("%+v, %v\nwant %+v", got, err, tt.want)
			}
		})
	}
}

func TestChoices(t *testing.T) {
	tests := []struct{ env, list, want string }{
		{"", "6.12 newest-arm64:smoke", "6.12 false, newest-arm64 true"},
		{"6.1, 6.12-generic:smoke", "newest", "6.1 false, 6.12-generic true"},
	}
	for _, tt := range tests {
		t.Setenv(KernelsEnv, tt.env)
		var got []string
		for _, c := range Choices(tt.list) {
			got = append(got, fmt.Sprint(c.Name, " ", c.Smoke))
		}
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("%s=%q: %q, want %q", KernelsEnv, tt.env, got, tt.want)
		}
	}
	t.Setenv(KernelsEnv, "")
	for _, list := range []string{TestKernels, AllKernels} {
		for _, c := range Choices(list) {
			if _, err := parseSeries(c.Name); err != nil {
				t.Error(err)
			}
		}
	}
}
