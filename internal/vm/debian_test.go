// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A fakeApt stands for Debian's tools and an archive.
type fakeApt struct {
	t       *testing.T
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

func (a *fakeApt) count(prefix string) int {
	n := 0
	for _, c := range a.calls {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

// The records are shortened copies of Debian's.
const (
	metaRecord = `Package: linux-image-6.12-cloud-amd64
Source: linux-signed-6.12-amd64 (6.12.117+1~deb12u1)
Version: 6.12.117-1~deb12u1
Architecture: amd64
Provides: linux-latest-modules-6.12.117+deb12-cloud-amd64, wireguard-modules (= 1.0.0)
Depends: linux-image-6.12.117+deb12-cloud-amd64 (= 6.12.117-1~deb12u1)
Description: Linux for x86-64 cloud (meta-package)
 Version: of no package

`
	imageRecord = `Package: linux-image-6.12.117+deb12-cloud-amd64
Version: 6.12.117-1~deb12u1
Architecture: amd64
Depends: kmod, linux-base (>= 4.3~), initramfs-tools (>= 0.120+deb8u2) | linux-initramfs-tool

Package: linux-image-6.12.117+deb12-cloud-amd64
Version: 0-older
`
	imageName = "linux-image-6.12.117+deb12-cloud-amd64"
	metaName  = "linux-image-6.12-cloud-amd64"
)

func newFakeApt(t *testing.T) (*fakeApt, *Cache) {
	a := &fakeApt{t: t, records: map[string]string{
		metaName:                     metaRecord,
		imageName:                    imageRecord,
		"busybox-static:arm64":       "Package: busybox-static\nVersion: 1:1.35.0-4\nArchitecture: arm64\n",
		"linux-image-arm64":          "Package: linux-image-arm64\nVersion: 6.1.1\nArchitecture: arm64\n",
		"linux-image-6.12-cloud:arm": strings.ReplaceAll(metaRecord, "amd64", "arm"),
		strings.ReplaceAll(imageName, "amd64", "arm") + ":arm": strings.ReplaceAll(imageRecord, "amd64", "arm"),
	}}
	return a, &Cache{Dir: t.TempDir(), MaxAge: time.Hour, run: a.run}
}

func TestFetch(t *testing.T) {
	tests := []struct{ ask, name, dir, err string }{
		{ask: metaName, name: imageName, dir: imageName + "_6.12.117-1~deb12u1_amd64"},
		{ask: imageName, name: imageName, dir: imageName + "_6.12.117-1~deb12u1_amd64"},
		{ask: "busybox-static:arm64", name: "busybox-static:arm64", dir: "busybox-static_1:1.35.0-4_arm64"},
		{ask: "linux-image-6.12-cloud:arm", name: "linux-image-6.12.117+deb12-cloud-arm:arm", dir: "linux-image-6.12.117+deb12-cloud-arm_6.12.117-1~deb12u1_arm"},
		{ask: "linux-image-arm64", err: "depends on no kernel package"},
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
		p, err := c.Fetch(t.Context(), metaName)
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
	c.MaxAge = 0
	if again := fetch(); again != first || len(a.calls) == asked {
		t.Errorf("old answer was believed")
	}
	if n := a.count("apt-get -q -o APT::Sandbox::User=root download"); n != 1 {
		t.Errorf("downloaded %d times", n)
	}
	a.offline = true
	if again := fetch(); again != first {
		t.Errorf("offline: %v, want %v", again, first)
	}
	if err := os.RemoveAll(first.Dir); err != nil {
		t.Fatal(err)
	}
	if p, err := c.Fetch(t.Context(), metaName); err == nil {
		t.Errorf("offline and nothing unpacked: %v, want an error", p)
	}
}

func TestFetchUpdatesListsOnce(t *testing.T) {
	a, c := newFakeApt(t)
	a.later = a.records
	a.records = map[string]string{}
	if _, err := c.Fetch(t.Context(), metaName); err != nil {
		t.Fatal(err)
	}
	if n := a.count("apt-get -q update"); n != 1 {
		t.Errorf("updated %d times, want once", n)
	}
}

func TestImagePackage(t *testing.T) {
	tests := []struct{ name, want, err string }{
		{name: "6.12", want: metaName},
		{name: "6.1", want: "linux-image-cloud-amd64"},
		{name: "linux-image-rt-amd64", want: "linux-image-rt-amd64"},
		{name: "2.4", err: "want one of 6.12, 6.1,"},
	}
	for _, tt := range tests {
		got, err := imagePackage(tt.name)
		if got != tt.want || (err == nil) != (tt.err == "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %q, %v; want %q, %q", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func TestKernelNames(t *testing.T) {
	for env, want := range map[string]string{"": "6.12 6.1", "6.1": "6.1", "6.1, 6.12-generic": "6.1 6.12-generic"} {
		t.Setenv("KSNOOP_KERNELS", env)
		if got := strings.Join(KernelNames(), " "); got != want {
			t.Errorf("KSNOOP_KERNELS=%q: %q, want %q", env, got, want)
		}
	}
}
