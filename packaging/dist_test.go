// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// toolsEnv is set by make test-all, which has other programs installed.
const toolsEnv = "KSNOOP_TOOLS"

// needTools skips what takes minutes, or other programs.
func needTools(t *testing.T, programs ...string) {
	t.Helper()
	if os.Getenv(toolsEnv) == "" {
		t.Skipf("%s is not set: make test-all sets it", toolsEnv)
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed: make setup-tools", p)
		}
	}
}

// TestDist makes the release twice: of clones in different folders, at different times, and compiled anew.
func TestDist(t *testing.T) {
	needTools(t)
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "the second folder")
	if err := dist(t.Context(), "..", first, false); err != nil {
		t.Fatal(err)
	}
	clone := filepath.Join(t.TempDir(), "elsewhere")
	if _, err := output(t.Context(), ".", "git", "clone", "--quiet", "..", clone); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", t.TempDir())
	t.Setenv("TZ", "Asia/Kathmandu")
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	if err := dist(t.Context(), clone, second, false); err != nil {
		t.Fatal(err)
	}
	names := folder(t, first)
	if got := folder(t, second); !slices.Equal(got, names) {
		t.Fatalf("%q, then %q", names, got)
	}
	for _, name := range names {
		if !bytes.Equal(read(t, first, name), read(t, second, name)) {
			t.Errorf("%s differs", name)
		}
	}
	if err := dist(t.Context(), "..", first, false); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a folder with an older release is taken: %v", err)
	}
	t.Run("files", func(t *testing.T) { checkFiles(t, first, names) })
	t.Run("rpm", func(t *testing.T) { checkRPM(t, first) })
	t.Run("debian", func(t *testing.T) { checkDebian(t, first) })
}

// checkFiles: each architecture has a static binary of its own, packages and a bill; sha256sum finds them all.
func checkFiles(t *testing.T, dir string, names []string) {
	for _, arch := range architectures {
		program, _ := filepath.Glob(filepath.Join(dir, "ksnoop_*_linux_"+arch))
		if len(program) != 1 {
			t.Fatalf("%s: %q", arch, program)
		}
		f, err := elf.Open(program[0])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; f.Machine != want {
			t.Errorf("%s is for %v", arch, f.Machine)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				t.Errorf("%s needs a dynamic linker", arch)
			}
		}
		holdBill(t, read(t, dir, filepath.Base(program[0])+".cdx.json"))
	}
	if len(names) != 2*5+1 {
		t.Errorf("%q", names)
	}
	if out, err := output(t.Context(), dir, "sha256sum", "-c", "SHA256SUMS"); err != nil || strings.Count(out, ": OK") != len(names)-1 {
		t.Errorf("%v\n%s", err, out)
	}
}

// checkRPM asks rpm itself.
func checkRPM(t *testing.T, dir string) {
	needTools(t, "rpm")
	for machine, arch := range map[string]string{"x86_64": "amd64", "aarch64": "arm64"} {
		files, _ := filepath.Glob(filepath.Join(dir, "*."+machine+".rpm"))
		if len(files) != 1 {
			t.Fatalf("%s: %q", machine, files)
		}
		out, err := output(t.Context(), dir, "rpm", "-qp", "--nosignature", "--queryformat", "%{NAME} %{ARCH} %{OS} %{LICENSE}\n[%{FILENAMES}\n]", files[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"ksnoop " + machine + " linux Apache-2.0", "/usr/bin/ksnoop", "/usr/share/man/man1/ksnoop.1.gz", "/usr/share/zsh/site-functions/_ksnoop", "/usr/share/licenses/ksnoop/LICENSE", "/usr/share/doc/ksnoop/docs/language.md"} {
			if !strings.Contains(out+"\n", want) {
				t.Errorf("%s lacks %s:\n%s", arch, want, out)
			}
		}
		if out, err := output(t.Context(), dir, "rpm", "-K", "--nosignature", files[0]); err != nil || !strings.HasSuffix(out, "digests OK") {
			t.Errorf("rpm -K: %v %s", err, out)
		}
	}
}

// checkDebian installs the package in a fresh Debian, and uses it there.
func checkDebian(t *testing.T, dir string) {
	needTools(t, "debootstrap", "unshare")
	if os.Getuid() != 0 {
		t.Skip("only root can make a Debian in a folder")
	}
	root := filepath.Join(t.TempDir(), "debian")
	if out, err := exec.Command("debootstrap", "--variant=minbase", "--include=bash-completion,man-db", debianSuite, root).CombinedOutput(); err != nil {
		t.Fatalf("debootstrap: %v\n%s", err, out[max(0, len(out)-2000):])
	}
	deb, _ := filepath.Glob(filepath.Join(dir, "*_amd64.deb"))
	if len(deb) != 1 {
		t.Fatalf("%q", deb)
	}
	if err := os.WriteFile(filepath.Join(root, "ksnoop.deb"), read(t, dir, filepath.Base(deb[0])), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ command, want string }{
		{"apt-get -q install -y /ksnoop.deb", "Setting up ksnoop (0."},
		{"ksnoop --version", "ksnoop v0."},
		{"ksnoop doctor; true", "BPF system call"},
		{"man ksnoop", "ksnoop - "},
		{"man ksnoop-trace", "--max-cpu"},
		{"zcat /usr/share/doc/ksnoop/changelog.gz", "# Changelog"},
		{"cat /usr/share/doc/ksnoop/copyright", "==== github.com/cilium/ebpf v"},
		{"dpkg --verify ksnoop && echo unchanged", "unchanged"},
	} {
		if out := inside(t, root, c.command); !strings.Contains(out, c.want) {
			t.Errorf("%s prints\n%s\nwithout %q", c.command, out, c.want)
		}
	}
	if out := typed(t, root, "ksnoop doc\t", "ksnoop doctor "); out != "" {
		t.Errorf("a tab after \"ksnoop doc\" gives %q", out)
	}
	t.Run("guest", func(t *testing.T) { checkGuest(t, root) })
	if out := inside(t, root, "apt-get -q remove -y ksnoop && ! ls /usr/bin/ksnoop 2>&1"); !strings.Contains(out, "No such file") {
		t.Errorf("after its removal: %s", out)
	}
}

// debianSuite is what the package is installed in.
const debianSuite = "trixie"

// within returns a command of a chroot with its own /proc, which goes when the command ends.
func within(root string, args ...string) *exec.Cmd {
	const enter = `mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && exec chroot "$0" "$@"`
	cmd := exec.Command("unshare", append([]string{"--mount", "--pid", "--fork", "sh", "-c", enter, root}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TERM=dumb", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "MANWIDTH=200", "MAN_KEEP_FORMATTING="}
	return cmd
}

func inside(t *testing.T, root, command string) string {
	t.Helper()
	out, err := within(root, "sh", "-c", command).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// typed types keys into a bash with a terminal until it shows a text. It returns what is shown otherwise.
func typed(t *testing.T, root, keys, want string) string {
	t.Helper()
	cmd := within(root, "script", "-qec", "bash --rcfile /usr/share/bash-completion/bash_completion -i", "/dev/null")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer func() { timer.Stop(); _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := io.WriteString(in, keys); err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	chunk := make([]byte, 4096)
	for {
		n, err := out.Read(chunk)
		shown.Write(chunk[:n])
		if strings.Contains(shown.String(), want) {
			return ""
		}
		if err != nil {
			return shown.String()
		}
	}
}

// checkGuest takes that Debian into a guest, where it traces.
func checkGuest(t *testing.T, root string) {
	for _, dir := range []string{"var/cache/apt", "var/lib/apt/lists", "usr/share/locale", "usr/share/i18n", "proc", "sys", "dev"} {
		if err := os.RemoveAll(filepath.Join(root, dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const script = `mkdir -p /debian/proc /debian/sys /debian/dev && mount --rbind /proc /debian/proc && mount --rbind /sys /debian/sys && mount --rbind /dev /debian/dev &&
chroot /debian sh -c 'ksnoop doctor && ksnoop trace --compact "do_sys_openat2(ustr(filename), return == -ENOENT)" -- cat /nope'`
	cmd := exec.Command("go", "run", "./internal/vm/guestrun", "-kernel", "6.12", "-bare", "-memory", "3072", "-file", root+":/debian", "sh", "-c", script)
	cmd.Dir = ".."
	out, _ := cmd.CombinedOutput() // the status is that of cat
	for _, want := range []string{"sessions by fentry         yes", `do_sys_openat2(ustr(filename) = "/nope", return = -ENOENT)`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("in a guest it prints\n%s\nwithout %q", out, want)
		}
	}
}

func folder(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
