// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSignedBy(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"stanza", "Types: deb\nURIs: http://other/debian\nSigned-By: /other.gpg\n\nTypes: deb\nURIs: http://mirror/debian\nSuites: a b\nSigned-By: /keys.gpg\n", "/keys.gpg"},
		{"key before the address", "Signed-By: /keys.gpg\nURIs: http://mirror/debian/\n", "/keys.gpg"},
		{"the key itself", "URIs: http://mirror/debian\nSigned-By:\n -----BEGIN\n .\n -----END\nSuites: a\n", "\n -----BEGIN\n .\n -----END"},
		{"no key", "URIs: http://mirror/debian\nSuites: a\n", ""},
		{"line", "# deb http://mirror/debian a main\ndeb [arch=amd64 signed-by=/keys.gpg] http://mirror/debian a main\n", "/keys.gpg"},
		{"line with more options", "deb [signed-by=/keys.gpg arch=amd64] http://mirror/debian a main\n", "/keys.gpg"},
		{"line without", "deb http://mirror/debian a main\n", ""},
		{"longer addresses first", "URIs: http://mirror/debian-security\nSigned-By: /other.gpg\n\nURIs: http://other/http://mirror/debian\nSigned-By: /other.gpg\n\n" +
			"URIs: http://other/debian http://mirror/debian/\nSigned-By: /keys.gpg\n", "/keys.gpg"},
		{"longer addresses in lines", "deb [signed-by=/other.gpg] http://mirror/debian-security a main\ndeb [signed-by=/keys.gpg] http://mirror/debian a main\n", "/keys.gpg"},
		{"the address in the keyring's name", "deb [signed-by=/http://mirror/debian/x.gpg] http://other/debian a main\n", ""},
		{"an option that ends alike", "deb [x-signed-by=/other.gpg] http://mirror/debian a main\n", ""},
		{"blanks", "deb\t[ arch=amd64  signed-by=/keys.gpg ]  http://mirror/debian/ a main\n", "/keys.gpg"},
		{"addresses in further lines", "URIs:\n http://other/debian\n http://mirror/debian\nSigned-By: /keys.gpg\n", "/keys.gpg"},
		{"sources of packages", "deb-src [signed-by=/other.gpg] http://mirror/debian a main\n", ""},
		{"another archive", "deb [signed-by=/other.gpg] http://other/debian a main\n", ""},
	}
	for _, tt := range tests {
		if got := signedBy(tt.text, "http://mirror/debian/"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// The next release comes from the mirror of the machine's release, not from the
// archive of security updates or from somebody else's.
func TestConfigureApt(t *testing.T) {
	a, c := newFakeApt(t)
	file := filepath.Join(t.TempDir(), "x.list")
	lines := "deb [signed-by=/keys.gpg] http://mirror/debian old main\ndeb http://mirror/security old-security main\n"
	if err := os.WriteFile(file, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	a.targets = strings.ReplaceAll(`Other|main|Other|old|http://other/|FILE:1
Debian|main|Debian-Security|old-security|http://mirror/security/|FILE:2
Debian|main|Debian|old-updates|http://mirror/debian/|FILE:1
Debian|main|Debian|old|http://mirror/debian/|FILE:1
Debian|contrib|Debian|old|http://mirror/debian/|FILE:1
Debian|main|Debian|old|http://mirror/debian/|FILE:1
`, "FILE", file)
	if err := c.configureApt(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(c.Dir, "apt/sources/guests.sources"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for stanza := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		var values []string
		for line := range strings.SplitSeq(stanza, "\n") {
			_, v, _ := strings.Cut(line, ": ")
			values = append(values, v)
		}
		got = append(got, strings.Join(values[1:], " "))
	}
	want := `http://mirror/security/ old-security main
http://mirror/debian/ old-updates main /keys.gpg
http://mirror/debian/ old main /keys.gpg
http://mirror/debian/ trixie main /keys.gpg
http://mirror/debian/ trixie-backports main /keys.gpg`
	if got := strings.Join(got, "\n"); got != want {
		t.Errorf("sources\n%s\nwant\n%s", got, want)
	}
}

// A new machine's lists must be fetched before its sources tell whose they are.
func TestOriginsOfNewMachine(t *testing.T) {
	a, c := newFakeApt(t)
	a.targets = "|main||old|http://mirror/debian/|/none:1\n"
	if _, err := c.origins(t.Context()); err == nil || !strings.Contains(err.Error(), "no Debian archive") {
		t.Errorf("error %v", err)
	}
	if n := a.count("apt-get -q update"); n != 1 {
		t.Errorf("updated %d times, want once", n)
	}
}

// The lists change while another process updates them: whoever asks by them holds
// their lock. What is tried here is what it keeps from others.
func TestListsAreLocked(t *testing.T) {
	a, c := newFakeApt(t)
	k := Kernel{Release: "6.1.0-1-cloud-amd64", Arch: "amd64"}
	run := c.run
	asked := 0
	c.run = func(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
		if name == "apt-cache" {
			asked++
			f, err := os.Open(filepath.Join(c.aptDir(), "lock"))
			if err != nil {
				t.Fatalf("%q: %v", args, err)
			}
			defer f.Close()
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
				t.Errorf("%q: locking the lists meanwhile: %v, want %v", args, err, unix.EWOULDBLOCK)
			}
		}
		return run(ctx, dir, name, args...)
	}
	if _, err := c.buildTree(t.Context(), k, t.TempDir()); err != ErrNoHeaders {
		t.Errorf("without headers: %v, want %v", err, ErrNoHeaders)
	}
	a.records["linux-headers-"+k.Release+":amd64"] = record("linux-headers-"+k.Release, "6.1-1", "amd64", "libc6")
	if _, err := c.buildTree(t.Context(), k, t.TempDir()); err == nil || !strings.Contains(err.Error(), "depends on no headers") {
		t.Errorf("headers of no kernel: %v", err)
	}
	a.addKernel("6.1.0-1-cloud-amd64", "6.1-1", "amd64")
	if _, err := c.Kernel(t.Context(), "6.1"); err != nil {
		t.Error(err)
	}
	if asked < 6 {
		t.Errorf("asked %d times", asked)
	}
}
